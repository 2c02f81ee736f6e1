use super::*;

/// A table with a column of every type.
fn every_type() -> Fixture {
    let mut fixture = Fixture::new(Precision::Milli);
    fixture.create(
        "t",
        &[
            ("ts", Role::Time, Type::Timestamp),
            ("b", Role::Field, Type::Bool),
            ("i8", Role::Field, Type::TinyInt),
            ("i16", Role::Field, Type::SmallInt),
            ("i32", Role::Field, Type::Int),
            ("i64", Role::Field, Type::BigInt),
            ("u8", Role::Field, Type::UTinyInt),
            ("u16", Role::Field, Type::USmallInt),
            ("u32", Role::Field, Type::UInt),
            ("u64", Role::Field, Type::UBigInt),
            ("f32", Role::Field, Type::Float),
            ("f64", Role::Field, Type::Double),
            ("at", Role::Field, Type::Timestamp),
            ("bin", Role::Field, Type::Binary(Some(8))),
            ("nch", Role::Field, Type::NChar(Some(2))),
            ("vb", Role::Field, Type::VarBinary(Some(3))),
        ],
    );
    fixture
}

/// One value of one column: the stored text, or the error.
fn value(column: &str, literal: &str) -> Result<String, String> {
    let fixture = every_type();
    let sql = format!("insert into t (ts, {column}) values (1, {literal})");
    let decoded = read(&fixture, &sql).map_err(|e| e.to_string())?;
    let row = fixture.rows(&decoded.blocks).remove(0);
    Ok(row.strip_prefix("t|t||1|").unwrap().to_owned())
}

#[test]
fn every_type_accepts_exactly_its_range() {
    for (column, low, high) in [
        ("i8", i128::from(i8::MIN), i128::from(i8::MAX)),
        ("i16", i16::MIN.into(), i16::MAX.into()),
        ("i32", i32::MIN.into(), i32::MAX.into()),
        ("i64", i64::MIN.into(), i64::MAX.into()),
        ("u8", 0, u8::MAX.into()),
        ("u16", 0, u16::MAX.into()),
        ("u32", 0, u32::MAX.into()),
        ("u64", 0, u64::MAX.into()),
    ] {
        for good in [low, high, 0] {
            for text in
                [good.to_string(), format!("'{good}'"), format!("{good}  "), format!("+{good}").replace("+-", "-")]
            {
                assert_eq!(value(column, &text).unwrap(), format!("{column}={good}"), "{text}");
            }
        }
        for bad in [low - 1, high + 1] {
            for text in [bad.to_string(), format!("'{bad}'")] {
                assert!(value(column, &text).unwrap_err().contains("out of range"), "{column} {text}");
            }
        }
        for bad in ["'x'", "''", "1.5", "'1.5'", "TRUE", "now", "1e", "--1", "0xg"] {
            assert!(value(column, bad).is_err(), "{column} {bad}");
        }
        assert_eq!(value(column, "NULL").unwrap(), "");
        assert_eq!(value(column, "0x1F").unwrap(), format!("{column}=31"));
        assert_eq!(value(column, "0b101").unwrap(), format!("{column}=5"));
        assert_eq!(value(column, "12.0").unwrap(), format!("{column}=12"));
        assert_eq!(value(column, "1e2").unwrap(), format!("{column}=100"));
    }
}

#[test]
fn floats_booleans_and_texts_are_read_exactly() {
    for (column, literal, found) in [
        ("f32", "0.1", "f32=0.1"),
        ("f32", "12.000000", "f32=12.0"),
        ("f32", "16777217", "f32=16777216.0"),
        ("f64", "0.1", "f64=0.1"),
        ("f64", "-.5e-3", "f64=-0.0005"),
        ("f64", "'2.5'", "f64=2.5"),
        ("f64", "123456789012345678901234567890", "f64=1.2345678901234568e29"),
        ("b", "true", "b=true"),
        ("b", "FALSE", "b=false"),
        ("b", "0", "b=false"),
        ("b", "7", "b=true"),
        ("b", "'true'", "b=true"),
        ("bin", "'abcdefgh'", "bin=abcdefgh"),
        ("bin", "\"a'b\"", "bin=a'b"),
        ("bin", r"'o\'x'", "bin=o'x"),
        ("bin", "'o''x'", "bin=o'x"),
        ("bin", r"'a\\b\tc'", "bin=a\\b\tc"),
        ("bin", r"'\%\_'", r"bin=\%\_"),
        ("bin", "12.50", "bin=12.50"),
        ("nch", "'\u{4e2d}\u{e4}'", "nch=\u{4e2d}\u{e4}"),
        ("vb", "'abc'", "vb=616263"),
        ("vb", r"'\x00fF'", "vb=00ff"),
    ] {
        assert_eq!(value(column, literal).unwrap_or_else(|e| panic!("{column} {literal}: {e}")), found);
    }
    for (column, literal) in [
        ("f32", "1e39"),
        ("f64", "1e400"),
        ("f64", "'nan'"),
        ("f64", "'inf'"),
        ("f64", "nan"),
        ("f64", "TRUE"),
        ("b", "'maybe'"),
        ("b", "1.5"),
        ("bin", "'abcdefghi'"),
        ("bin", "TRUE"),
        ("nch", "'abc'"),
        ("vb", r"'\x0'"),
        ("vb", r"'\xzz'"),
        ("vb", "'abcd'"),
        ("bin", "'\u{4e2d}\u{4e2d}\u{4e2d}'"),
    ] {
        assert!(value(column, literal).is_err(), "{column} {literal}");
    }
}

#[test]
fn times_are_ticks_local_texts_or_relative_to_now() {
    let fixture = every_type();
    let ts = |zone: Tz, literal: &str| -> Result<i64, Error> {
        let sql = format!("insert into t (ts, i8) values ({literal}, 1)");
        let Statement::Insert(statement) = parse(&sql)? else { panic!() };
        let session = Session { database: Some(&fixture.database), time_zone: zone, now_ns: NOW };
        let Inserted::Ready(decoded) = insert(statement.cursor(&sql), &fixture, &session, None)? else { panic!() };
        let row = fixture.rows(&decoded.blocks).remove(0);
        Ok(row.split('|').nth(3).unwrap().parse().unwrap())
    };
    let now = NOW / 1_000_000;
    let shanghai = Tz::Asia__Shanghai;
    for (literal, found) in [
        ("1563249700000", 1_563_249_700_000),
        ("-1", -1),
        ("0x10", 16),
        ("'1563249700000'", 1_563_249_700_000),
        ("'2019-07-16 12:01:40.0'", 1_563_249_700_000),
        ("'2019-07-16T04:01:40Z'", 1_563_249_700_000),
        ("\"2019-07-16T04:01:40.000+00:00\"", 1_563_249_700_000),
        ("now", now),
        ("NOW()", now),
        ("now + 1s", now + 1_000),
        ("now()-2m", now - 120_000),
        ("now+1a", now + 1),
        ("now-1b", now - 1),
        ("now +1w", now + 7 * 86_400_000),
        ("today()", now - 8 * 3_600_000),
        ("today() + 1d", now + 16 * 3_600_000),
        ("1563249700000 + 1s", 1_563_249_701_000),
    ] {
        assert_eq!(ts(shanghai, literal).unwrap_or_else(|e| panic!("{literal}: {e}")), found, "{literal}");
    }
    for bad in ["now+", "now+s", "now+1", "now+1x", "now+1.5s", "now(1)", "today", "today()+1y", "1.5", "TRUE", "'x'"] {
        // Only `today` is valid without brackets, as in TDengine.
        assert_eq!(ts(shanghai, bad).is_ok(), bad == "today", "{bad}");
    }
    assert_eq!(value("at", "'1970-01-01 00:00:01'").unwrap(), "at=1970-01-01T00:00:01");
}
