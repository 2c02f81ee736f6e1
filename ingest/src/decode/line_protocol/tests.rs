//! Error texts and the values of a line were taken from a running influxd 1.6.7; decoded rows are compared with a line reader
//! that shares no code with the decoder.

#![allow(clippy::unwrap_used)]

mod property;

use tidelake_format::{
    schema::Role,
    types::{Precision, Type},
};

use super::*;
use crate::decode::{SchemaChange, fixture::Fixture};

const NOW: i64 = 1_795_132_800_000_000_000;

fn nano() -> Fixture {
    Fixture::new(Precision::Nano)
}

/// Decodes in nanoseconds, creating columns as needed.
fn settled(fixture: &mut Fixture, body: &[u8]) -> Decoded {
    fixture.settle(|f| decode(body, f, &f.database, LinePrecision::Nano, NOW))
}

/// The rows of a body that creates its own tables.
fn rows(body: &str) -> Vec<String> {
    let mut fixture = nano();
    let decoded = settled(&mut fixture, body.as_bytes());
    assert_eq!(decoded.rejected, [], "{body}");
    fixture.rows(&decoded.blocks)
}

/// The reason why a single line is rejected.
fn reason(body: &[u8]) -> String {
    let decoded = decode(body, &nano(), &nano().database, LinePrecision::Nano, NOW);
    assert_eq!(decoded.accepted, 0, "{:?}", String::from_utf8_lossy(body));
    assert!(decoded.missing.is_empty(), "a rejected line needs no schema change");
    assert_eq!(decoded.rejected.len(), 1, "{:?}", decoded.rejected);
    decoded.rejected[0].reason.clone()
}

#[test]
fn lines_of_the_papers_are_stored_in_the_declared_types() {
    let fixture = Fixture::devices();
    let body = b"devices,devid=1,devname=dev_1,devgroup=1 temperature=40i,humidity=12 1563249700000\n\
                 devices,devid=2,devname=dev_2,devgroup=2 temperature=51i,humidity=3.5 1563249700000\n\
                 devices,devid=1,devname=dev_1,devgroup=1 temperature=44i,humidity=9 1563249701000";
    let decoded = decode(body, &fixture, &fixture.database, LinePrecision::Milli, 0);
    assert_eq!((decoded.accepted, decoded.rejected.len(), decoded.missing.len()), (3, 0, 0));
    let series = "devgroup=1,devid=1,devname=dev_1|devgroup=1 devid=1 devname=dev_1";
    assert_eq!(fixture.rows(&decoded.blocks), [
        format!("devices|{series}|1563249700000|humidity=12.0 temperature=40"),
        "devices|devgroup=2,devid=2,devname=dev_2|devgroup=2 devid=2 devname=dev_2|1563249700000|humidity=3.5 temperature=51".into(),
        format!("devices|{series}|1563249701000|humidity=9.0 temperature=44"),
    ]);
}

#[test]
fn a_series_is_named_by_its_sorted_typed_tags() {
    let fixture = Fixture::devices();
    let body = b"devices,devid=1,devgroup=007 temperature=1i 1\ndevices,devgroup=7,devid=+01 temperature=2i 2";
    let decoded = decode(body, &fixture, &fixture.database, LinePrecision::Milli, 0);
    assert_eq!(decoded.blocks[0].series.len(), 1);
    assert_eq!(decoded.blocks[0].series.names().value(0), "devgroup=7,devid=1");
    assert_eq!(rows("m v=1 1"), ["m|m||1|v=1.0"]);
}

#[test]
fn every_form_of_value_is_read() {
    assert_eq!(
        rows("m f=1,g=-1.5e3,h=.5,i=-7i,u=18446744073709551615u,t=t,z=F,x=TRUE,y=False,s=\"a b,c=d\",e=\"\" 5"),
        ["m|m||5|e= f=1.0 g=-1500.0 h=0.5 i=-7 s=a b,c=d t=true u=18446744073709551615 x=true y=false z=false"]
    );
}

#[test]
fn escapes_are_those_of_influxdb() {
    assert_eq!(
        rows(r#"m\,\ x,a\,b=c\=d\ e,p=C:\dir v\ 1="q\"\\\n",w\=x=1i 5"#),
        [r#"m, x|a\,b=c\=d e,p=C:\\dir|a,b=c=d e p=C:\dir|5|v 1=q"\\n w=x=1"#]
    );
    assert_eq!(rows("m v=\"a\nb\" 5\nm v=\"c\" 6"), ["m|m||5|v=a\nb", "m|m||6|v=c"]);
    // Quotes have no meaning outside of values.
    assert_eq!(rows(r#""m","a"="b" "v"=1 5"#), [r#""m"|"a"="b"|"a"="b"|5|"v"=1.0"#]);
}

#[test]
fn blanks_comments_and_all_line_ends_are_skipped() {
    let plain = rows("m v=1 1\nm v=2 2\nm v=3 3");
    for body in [
        "m v=1 1\nm v=2 2\nm v=3 3\n",
        "m v=1 1\r\nm v=2 2\r\nm v=3 3\r\n",
        "  m v=1 1\n\n\n# m v=9 9\n\tm v=2 2\n   # x\n \n m   v=3   3  \r",
        "\nm v=1 1  \n#\n#\r\nm v=2 2\n\r\nm v=3 3\n\0",
    ] {
        assert_eq!(rows(body), plain, "{body:?}");
    }
    assert_eq!(settled(&mut nano(), b"").accepted, 0);
    assert_eq!(settled(&mut nano(), b"# only\n\n").accepted, 0);
}

#[test]
fn rejections_use_influxds_error_texts() {
    for (line, what) in [
        ("bad line", "invalid field format"),
        ("m", "missing fields"),
        (",a=b v=1", "missing measurement"),
        ("m,a v=1", "missing tag value"),
        ("m,=b v=1", "missing tag key"),
        ("m,a= v=1", "missing tag value"),
        ("m,a=b", "missing fields"),
        ("m,a=b=c v=1", "invalid tag format"),
        ("m,a=b,a=c v=1", "duplicate tags"),
        ("m,a=b, v=1", "missing tag key"),
        ("m v=", "missing field value"),
        ("m v= 1", "missing field value"),
        ("m =1", "missing field key"),
        ("m a=1,=2", "missing field key"),
        ("m a=1,b", "invalid field format"),
        ("m v=1,", "invalid field format"),
        ("m v=1,,w=2", "invalid field format"),
        ("m v=1.2.3", "invalid number"),
        ("m v=abc", "invalid boolean"),
        ("m v=tru", "invalid boolean"),
        ("m v=tRUE", "invalid boolean"),
        ("m v=t1", "invalid boolean"),
        ("m v=tt", "invalid boolean"),
        ("m v=i", "invalid boolean"),
        ("m v==1", "invalid boolean"),
        ("m v=+1", "invalid boolean"),
        ("m v=Inf", "invalid boolean"),
        ("m v=NaN", "invalid number"),
        ("m v=nan", "invalid number"),
        ("m v=-Inf", "invalid number"),
        ("m v=--1", "invalid number"),
        ("m v=-", "invalid number"),
        ("m v=1i1", "invalid number"),
        ("m v=1.5i", "invalid number"),
        ("m v=1e5i", "invalid number"),
        ("m v=0x1", "invalid number"),
        ("m v=1_000", "invalid number"),
        ("m v=1n", "invalid number"),
        ("m v=1\tw=2", "invalid number"),
        ("m v=1e400", "invalid float"),
        ("m v=1e", "invalid float"),
        ("m v=\"abc", "unbalanced quotes"),
        ("m v=\"x\\\"", "unbalanced quotes"),
        ("m v=\"a\"b", "invalid field format"),
        ("m v=\"a\" b", "bad timestamp"),
        ("m v=1 abc", "bad timestamp"),
        ("m v=1 1.5", "bad timestamp"),
        ("m v=1 +5", "bad timestamp"),
        ("m v=1 ,w=1", "bad timestamp"),
        ("m v=1 12 34", "point is invalid"),
        ("m v=1 -", "strconv.ParseInt: parsing \"-\": invalid syntax"),
        ("m v=1 92233720368547758080", "strconv.ParseInt: parsing \"92233720368547758080\": value out of range"),
        ("m v=1 9223372036854775807", "time outside range -9223372036854775806 - 9223372036854775806"),
        ("m v=1 -9223372036854775807", "time outside range -9223372036854775806 - 9223372036854775806"),
        (
            "m v=9223372036854775808i",
            "unable to parse integer 9223372036854775808: strconv.ParseInt: parsing \"9223372036854775808\": value out of range",
        ),
        ("m\\", "missing fields"),
        ("m\\ v=1", "missing fields"),
        ("m,a=\\ v=1", "invalid tag format"),
        ("m ,v=1", "invalid field format"),
        ("m,a=1 1", "invalid field format"),
    ] {
        let reason = reason(line.as_bytes());
        let rest =
            reason.strip_prefix(&format!("unable to parse '{line}': {what}")).unwrap_or_else(|| panic!("{reason}"));
        // What was expected stands behind InfluxDB's own text.
        assert!(rest.is_empty() || rest.starts_with(", expected "), "{reason}");
    }
}

#[test]
fn lines_accepted_by_influxd_are_accepted() {
    for line in [
        "m  v=1   7  ",
        "m v=1 -5",
        "m v=\"\"",
        "m a\\ =1",
        "m v\\=1=2",
        "m v=\"x\\\\\"",
        "m v=1.",
        "m v=-0i",
        "m v=00012i",
        "m v=1 9223372036854775806",
        "m v=1 -9223372036854775806",
        "m v=1E+2",
        "m v=-.5",
    ] {
        assert_eq!(rows(line).len(), 1, "{line}");
    }
}

#[test]
fn only_lines_that_are_not_utf8_are_rejected() {
    let mut fixture = nano();
    let decoded = settled(&mut fixture, b"m v=1 1\n\xff v=1 2\nm v=\"\xff\" 3\nm,a=\xc3 v=1 4\nm v=2 5");
    assert_eq!(fixture.rows(&decoded.blocks), ["m|m||1|v=1.0", "m|m||5|v=2.0"]);
    assert_eq!(decoded.rejected.iter().map(|r| r.line).collect::<Vec<_>>(), [2, 3, 4]);
    assert!(decoded.rejected.iter().all(|r| r.reason.ends_with("invalid UTF-8")), "{:?}", decoded.rejected);
}

#[test]
fn bad_lines_are_named_by_number_and_good_lines_beside_them_are_kept() {
    let body = b"m v=1 1\nbad line\nm v=\"two\nlines\" 2\nm v=2 2\n,x=1 v=1\r\nm v=3 3\nm v=\"open\nm v=4 4";
    let mut fixture = nano();
    let decoded = settled(&mut fixture, body);
    assert_eq!(fixture.rows(&decoded.blocks), ["m|m||1|v=1.0", "m|m||2|v=2.0", "m|m||3|v=3.0", "m|m||4|v=4.0"]);
    let rejected: Vec<_> = decoded.rejected.iter().map(|r| (r.line, r.text.as_str())).collect();
    assert_eq!(rejected, [(2, "bad line"), (3, "m v=\"two\nlines\" 2"), (6, ",x=1 v=1"), (8, "m v=\"open")]);
    assert_eq!(decoded.accepted, 4);
}

#[test]
fn a_refused_line_leaves_no_schema_and_no_series_behind() {
    let fixture = Fixture::devices();
    let body = b"devices,devid=9,extra=x new=1,temperature=1.5 1\n\
                 other,devid=9 new=1,bad 1\n\
                 devices,devid=8 newer=1i,temperature=1i 2\n\
                 devices,devid=7 temperature=\"x\",newest=1 3\n\
                 devices,devid=x temperature=1i 3";
    let decoded = decode(body, &fixture, &fixture.database, LinePrecision::Milli, 0);
    assert_eq!(decoded.rejected.len(), 4);
    let id = fixture.named("devices").id;
    assert_eq!(
        decoded.missing,
        [SchemaChange::AddColumn { table: id, name: "newer".into(), role: Role::Field, ty: Type::BigInt }]
    );
    let mut fixture = fixture;
    let decoded = fixture.settle(|f| decode(body, f, &f.database, LinePrecision::Milli, 0));
    assert_eq!(fixture.rows(&decoded.blocks), ["devices|devid=8|devid=8|2|newer=1 temperature=1"]);
    assert_eq!(decoded.blocks[0].series.len(), 1, "series of refused lines are not declared");
}

#[test]
fn a_line_that_fails_at_its_end_is_rolled_back() {
    let mut fixture = nano();
    let decoded = settled(&mut fixture, b"m,t=a v=1,s=\"x\" 1\nm,t=a v=2,s=\"y\",n=1 x\nm,t=a v=3 3\nm,t=a s=\"z\" 4");
    assert_eq!(fixture.rows(&decoded.blocks), ["m|t=a|t=a|1|s=x v=1.0", "m|t=a|t=a|3|v=3.0", "m|t=a|t=a|4|s=z"]);
    assert!(fixture.named("m").column("n").is_none());
}

#[test]
fn type_conflicts_name_column_measurement_and_both_types() {
    let mut fixture = nano();
    settled(&mut fixture, b"m i=1i,f=1,s=\"x\",b=true,u=1u 1");
    for (field, what) in [
        ("i=1", "\"i\" on measurement \"m\" is type float, already exists as type integer"),
        ("i=\"1\"", "\"i\" on measurement \"m\" is type string, already exists as type integer"),
        ("f=\"1\"", "\"f\" on measurement \"m\" is type string, already exists as type float"),
        ("f=t", "\"f\" on measurement \"m\" is type boolean, already exists as type float"),
        ("s=1i", "\"s\" on measurement \"m\" is type integer, already exists as type string"),
        ("b=1i", "\"b\" on measurement \"m\" is type integer, already exists as type boolean"),
        ("u=1", "\"u\" on measurement \"m\" is type float, already exists as type unsigned"),
        ("u=-1i", "\"u\" on measurement \"m\" is type integer, out of range for type BIGINT UNSIGNED"),
        ("i=18446744073709551615u", "\"i\" on measurement \"m\" is type unsigned, out of range for type BIGINT"),
        (
            "f=9007199254740993i",
            "\"f\" on measurement \"m\" is type integer, not exactly representable for type DOUBLE",
        ),
    ] {
        let body = format!("m {field} 2");
        let decoded = decode(body.as_bytes(), &fixture, &fixture.database, LinePrecision::Nano, 0);
        assert_eq!(decoded.rejected[0].reason, format!("field type conflict: input field {what}"));
    }
    // Exact conversions are not conflicts.
    let decoded = decode(b"m i=7u,f=7i,u=7i 2", &fixture, &fixture.database, LinePrecision::Nano, 0);
    assert_eq!(fixture.rows(&decoded.blocks), ["m|m||2|f=7.0 i=7 u=7"]);
}

#[test]
fn the_first_type_of_a_new_field_applies_to_later_lines_of_the_request() {
    let mut fixture = nano();
    let decoded = settled(&mut fixture, b"m v=1i 1\nm v=\"x\" 2\nM V=2i 3");
    assert_eq!((decoded.accepted, decoded.rejected[0].line), (2, 2));
    assert_eq!(fixture.rows(&decoded.blocks), ["m|m||1|v=1", "m|m||3|v=2"], "names differ by more than case");
}

#[test]
fn narrow_columns_accept_only_values_that_fit() {
    let mut fixture = nano();
    fixture.create(
        "n",
        &[
            ("ts", Role::Time, Type::Timestamp),
            ("tiny", Role::Field, Type::TinyInt),
            ("float", Role::Field, Type::Float),
            ("bin", Role::Field, Type::Binary(Some(4))),
            ("nch", Role::Field, Type::NChar(Some(2))),
            ("at", Role::Field, Type::Timestamp),
            ("vb", Role::Field, Type::VarBinary(Some(2))),
            ("flag", Role::Tag, Type::Bool),
            ("ratio", Role::Tag, Type::Double),
            ("doc", Role::Tag, Type::Json),
        ],
    );
    let decode = |body: &str| decode(body.as_bytes(), &fixture, &fixture.database, LinePrecision::Nano, 0);
    let good =
        decode("n,flag=T,ratio=1.50 tiny=-128i,float=0.1,bin=\"\u{e4}bc\",nch=\"\u{e4}\u{4e2d}\",at=5i,vb=\"ab\" 1");
    assert_eq!(
        fixture.rows(&good.blocks),
        [
            "n|flag=true,ratio=1.5|flag=true ratio=1.5|1|at=1970-01-01T00:00:00.000000005 bin=äbc float=0.1 nch=ä中 tiny=-128 vb=6162"
        ]
    );
    for (bad, what) in [
        ("tiny=128i", "out of range for type TINYINT"),
        ("float=1e39", "out of range for type FLOAT"),
        ("float=16777217i", "not exactly representable for type FLOAT"),
        ("bin=\"\u{e4}bcd\"", "too long: 5, at most 4 for type VARCHAR(4)"),
        ("nch=\"abc\"", "too long: 3, at most 2 for type NCHAR(2)"),
        ("at=\"2019-01-01\"", "already exists as type timestamp"),
    ] {
        let decoded = decode(&format!("n {bad} 1"));
        assert!(decoded.rejected[0].reason.ends_with(what), "{bad}: {:?}", decoded.rejected);
    }
    for bad in ["flag=maybe", "ratio=x", "ratio=nan", "doc={"] {
        let decoded = decode(&format!("n,{bad} tiny=1i 1"));
        assert!(
            decoded.rejected[0].reason.starts_with("tag type conflict: input tag"),
            "{bad}: {:?}",
            decoded.rejected
        );
    }
}

#[test]
fn reserved_and_clashing_names_are_refused_with_the_reason() {
    let fixture = Fixture::devices();
    for (line, what) in [
        ("devices ts=1i 1", "it is the time column"),
        ("devices,ts=1 temperature=1i 1", "it is the time column"),
        ("devices tbname=\"x\" 1", "'tbname' is reserved"),
        ("devices,TBNAME=x temperature=1i 1", "'tbname' is reserved"),
        ("devices devid=1i 1", "it already exists as a tag"),
        ("devices,temperature=1 humidity=1 1", "it already exists as a field"),
        ("fresh,a=1 a=1 1", "it already exists as a tag"),
        ("fresh ts=1 1", "it is the time column"),
    ] {
        let decoded = decode(line.as_bytes(), &fixture, &fixture.database, LinePrecision::Milli, 0);
        assert_eq!(decoded.accepted, 0, "{line}");
        assert!(decoded.missing.is_empty(), "{line}");
        let reason = &decoded.rejected[0].reason;
        assert!(reason.starts_with("invalid ") && reason.contains(what), "{line}: {reason}");
    }
    let long = format!("{} v=1 1", "m".repeat(193));
    assert!(reason(long.as_bytes()).contains("1 to 192 bytes"));
    let long = format!("m,{}=b v=1", "a".repeat(70_000));
    assert!(reason(long.as_bytes()).ends_with("max key length exceeded: 70004 > 65535"));
}

#[test]
fn timestamps_of_every_unit_become_ticks_and_never_wrap() {
    for (precision, text, ms) in [
        ("", "1563249700123456789", 1_563_249_700_123_i64),
        ("n", "-1", -1),
        ("u", "1563249700123456", 1_563_249_700_123),
        ("µ", "1563249700123456", 1_563_249_700_123),
        ("ms", "1563249700123", 1_563_249_700_123),
        ("s", "1563249700", 1_563_249_700_000),
        ("m", "26054161", 1_563_249_660_000),
        ("h", "434236", 1_563_249_600_000),
    ] {
        let fixture = Fixture::devices();
        let body = format!("devices,devid=1 temperature=1i {text}");
        let decoded = decode(body.as_bytes(), &fixture, &fixture.database, precision.parse().unwrap(), 0);
        assert_eq!(fixture.rows(&decoded.blocks), [format!("devices|devid=1|devid=1|{ms}|temperature=1")]);
    }
    for precision in [Precision::Milli, Precision::Micro, Precision::Nano] {
        for unit in ["n", "u", "ms", "s", "m", "h"] {
            for text in ["9223372036854775807", "-9223372036854775808", "9223372036854775807000"] {
                let mut fixture = Fixture::new(precision);
                fixture.create("m", &[("ts", Role::Time, Type::Timestamp), ("v", Role::Field, Type::Double)]);
                let body = format!("m v=1 {text}");
                let decoded = decode(body.as_bytes(), &fixture, &fixture.database, unit.parse().unwrap(), 0);
                assert_eq!((decoded.accepted, decoded.rejected.len()), (0, 1), "{precision} {unit} {text}");
            }
        }
    }
    assert!("x".parse::<LinePrecision>().is_err());
}

#[test]
fn seconds_sent_in_a_finer_unit_are_refused_by_line_with_both_times() {
    let body = b"devices,devid=1 temperature=1i 1767254401\ndevices,devid=1 temperature=2i 1";
    for unit in ["", "ns", "us", "ms"] {
        let fixture = Fixture::devices();
        let decoded = decode(body, &fixture, &fixture.database, unit.parse().unwrap(), 0);
        assert_eq!((decoded.accepted, decoded.rejected.len(), decoded.rejected[0].line), (1, 1, 1), "{unit}");
        let reason = &decoded.rejected[0].reason;
        assert!(reason.contains("1970-01-") && reason.contains("2026-01-01T08:00:01Z in s"), "{reason}");
    }
    let fixture = Fixture::devices();
    assert!(decode(body, &fixture, &fixture.database, "s".parse().unwrap(), 0).rejected.is_empty());
}

#[test]
fn rows_older_than_the_database_keeps_are_refused_by_line() {
    let mut fixture = Fixture::devices();
    fixture.database.keep_ms = 1_000;
    let body =
        b"devices,devid=1 temperature=1i 8999\ndevices,devid=1 temperature=1i 9000\ndevices,devid=1 temperature=1i";
    let decoded = decode(body, &fixture, &fixture.database, LinePrecision::Milli, 10_000);
    assert_eq!(decoded.rejected.len(), 1);
    assert_eq!((decoded.rejected[0].line, decoded.rejected[0].reason.as_str()), (1, "points beyond retention policy"));
    assert_eq!(decoded.accepted, 2);
    assert!(fixture.rows(&decoded.blocks)[1].ends_with("|10000|temperature=1"), "the default time is now");
}

#[test]
fn the_last_of_two_values_of_a_field_wins_and_long_texts_are_cut_in_replies() {
    assert_eq!(rows("m v=1,v=2,s=\"abc\",s=\"d\" 1\nm v=3,s=\"e\" 2"), ["m|m||1|s=d v=2.0", "m|m||2|s=e v=3.0"]);
    let body = format!("m v={} 1", "\u{e4}".repeat(500));
    let decoded = decode(body.as_bytes(), &nano(), &nano().database, LinePrecision::Nano, 0);
    assert!(decoded.rejected[0].text.ends_with("ä…") && decoded.rejected[0].text.len() <= Rejected::MAX_TEXT + 3);
}

#[test]
fn all_rejected_lines_are_counted_and_the_first_are_described() {
    let body = "m v\n".repeat(100_000) + "m v=1 1\n";
    let decoded = decode(body.as_bytes(), &nano(), &nano().database, LinePrecision::Nano, 0);
    assert_eq!((decoded.accepted, decoded.dropped, decoded.rejected.len()), (1, 100_000, Rejected::MAX_LISTED));
    assert!(decoded.rejected.iter().map(|r| r.line).eq(1..=Rejected::MAX_LISTED));
}

#[test]
fn many_open_quotes_cost_linear_time() {
    let body = "m v=\"a\\\"\n".repeat(50_000);
    let decoded = decode(body.as_bytes(), &nano(), &nano().database, LinePrecision::Nano, 0);
    assert_eq!(decoded.accepted, 0);
}
