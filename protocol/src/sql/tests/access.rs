//! Statements about users, as the audit log shows them.

use super::*;

fn shown(sql: &str) -> String {
    match parse(sql).unwrap_or_else(|e| panic!("{sql}: {e}")) {
        Statement::Access(statement) => statement.to_string(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_statement_is_shown_as_sql_that_reads_as_the_same_one() {
    for sql in [
        "CREATE USER ada",
        "CREATE USER IF NOT EXISTS `Ada@home` PASSWORD '***' ADMIN",
        "CREATE USER `if` ADMIN",
        "CREATE USER `a``b`",
        "ALTER USER ada PASSWORD '***'",
        "ALTER USER ada PASSWORD '***' OLD '***'",
        "ALTER USER ada PASSWORD '***' KEEP TOKENS",
        "ALTER USER ada PASSWORD '***' OLD '***' KEEP TOKENS",
        "ALTER USER ada ENABLE 0",
        "ALTER USER ada ADMIN 1",
        "ALTER USER ada LIMIT QUERIES 4, MEMORY 536870912, TIME 30s",
        "ALTER USER ada LIMIT MEMORY 0",
        "DROP USER IF EXISTS ada",
        "DROP USER `0`",
        "GRANT READ ON fleet.* TO ada",
        "GRANT ALL ON `Fleet 2`.* TO ada",
        "GRANT ADMIN TO ada",
        "REVOKE WRITE ON *.* FROM ada",
        "CREATE TOKEN `of-grafana`",
        "CREATE TOKEN t FOR ada WITH READ ON *.*, ALL ON fleet.* EXPIRES IN 86400s",
        "DROP TOKEN IF EXISTS t FOR ada",
        "ROTATE SESSIONS",
        "ROTATE SESSIONS FOR `Ada`",
    ] {
        let text = shown(sql);
        assert_eq!(text, sql);
        assert_eq!(parse(&text).unwrap(), parse(sql).unwrap());
    }
    assert_eq!(
        shown("alter user \"Ada\" limit time 2m, memory '1MiB'"),
        "ALTER USER `Ada` LIMIT MEMORY 1048576, TIME 120s"
    );
}

#[test]
fn no_password_is_shown() {
    for sql in [
        "create user ada pass 'secret-1'",
        "alter user ada password \"secret-1\"",
        "alter user ada pass 'secret-1' old 'secret-2'",
    ] {
        assert!(!shown(sql).contains("secret"), "{}", shown(sql));
    }
}
