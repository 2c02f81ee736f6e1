#![allow(clippy::unwrap_used)]

use rand::{Rng, SeedableRng, rngs::StdRng};
use tidelake_format::{Kind, types::Precision};

use super::*;
use crate::decode::{SchemaChange, fixture::Fixture};

fn settled(fixture: &mut Fixture, body: &str) -> Decoded {
    fixture.settle(|f| decode(body.as_bytes(), f, &f.database, 0).unwrap())
}

#[test]
fn a_metric_becomes_a_table_with_one_value_and_its_tags() {
    let mut fixture = Fixture::new(Precision::Milli);
    let body = r#"[{"metric":"sys.cpu","timestamp":1346846400,"value":18,"tags":{"host":"web01","dc":"lga"}}
,{"metric":"sys.cpu","timestamp":1346846400123,"value":"9.5","tags":{"dc":"lga","host":"web02"}}]"#;
    let first = decode(body.as_bytes(), &fixture, &fixture.database, 0).unwrap();
    assert_eq!(first.missing.len(), 1);
    assert!(matches!(&first.missing[0], SchemaChange::CreateTable { name, columns }
        if name == "sys.cpu" && columns[1] == ("value".into(), Role::Field, Type::Double)));
    let decoded = settled(&mut fixture, body);
    assert_eq!(
        fixture.rows(&decoded.blocks),
        [
            "sys.cpu|dc=lga,host=web01|dc=lga host=web01|1346846400000|value=18.0",
            "sys.cpu|dc=lga,host=web02|dc=lga host=web02|1346846400123|value=9.5",
        ]
    );
    assert_eq!((decoded.accepted, decoded.rejected.len()), (2, 0));
    let one =
        settled(&mut fixture, r#" {"metric":"a","timestamp":"5","value":-1e3,"tags":{"t":7,"n n":true},"x":[1,{}]} "#);
    assert_eq!(fixture.rows(&one.blocks), ["a|n n=true,t=7|n n=true t=7|5000|value=-1000.0"]);
}

#[test]
fn bad_points_are_refused_one_by_one_in_the_words_of_opentsdb() {
    let good = r#"{"metric":"m","timestamp":1,"value":1,"tags":{"a":"b"}}"#;
    for (bad, reason) in [
        (r#"{"timestamp":1,"value":1,"tags":{"a":"b"}}"#, "Metric name was empty"),
        (r#"{"metric":"","timestamp":1,"value":1,"tags":{"a":"b"}}"#, "Metric name was empty"),
        (r#"{"metric":5,"timestamp":1,"value":1,"tags":{"a":"b"}}"#, "Metric name was not a string"),
        (r#"{"metric":"m","value":1,"tags":{"a":"b"}}"#, "Invalid timestamp"),
        (r#"{"metric":"m","timestamp":0,"value":1,"tags":{"a":"b"}}"#, "Invalid timestamp"),
        (r#"{"metric":"m","timestamp":-5,"value":1,"tags":{"a":"b"}}"#, "Invalid timestamp"),
        (r#"{"metric":"m","timestamp":1.5,"value":1,"tags":{"a":"b"}}"#, "Invalid timestamp"),
        (r#"{"metric":"m","timestamp":9223372036854775807,"value":1,"tags":{"a":"b"}}"#, "Invalid timestamp"),
        (r#"{"metric":"m","timestamp":99999999999999999999999,"value":1,"tags":{"a":"b"}}"#, "Invalid timestamp"),
        (r#"{"metric":"m","timestamp":"now","value":1,"tags":{"a":"b"}}"#, "Invalid timestamp"),
        (r#"{"metric":"m","timestamp":1,"tags":{"a":"b"}}"#, "Empty value"),
        (r#"{"metric":"m","timestamp":1,"value":null,"tags":{"a":"b"}}"#, "Empty value"),
        (r#"{"metric":"m","timestamp":1,"value":"","tags":{"a":"b"}}"#, "Empty value"),
        (r#"{"metric":"m","timestamp":1,"value":"x","tags":{"a":"b"}}"#, "Unable to parse value to a number"),
        (r#"{"metric":"m","timestamp":1,"value":"NaN","tags":{"a":"b"}}"#, "Unable to parse value to a number"),
        (r#"{"metric":"m","timestamp":1,"value":"-inf","tags":{"a":"b"}}"#, "Unable to parse value to a number"),
        (r#"{"metric":"m","timestamp":1,"value":true,"tags":{"a":"b"}}"#, "Unable to parse value to a number"),
        (r#"{"metric":"m","timestamp":1,"value":[1],"tags":{"a":"b"}}"#, "Unable to parse value to a number"),
        (r#"{"metric":"m","timestamp":1,"value":1}"#, "Missing tags"),
        (r#"{"metric":"m","timestamp":1,"value":1,"tags":{}}"#, "Missing tags"),
        (r#"{"metric":"m","timestamp":1,"value":1,"tags":[]}"#, "Missing tags"),
        (r#"{"metric":"m","timestamp":1,"value":1,"tags":{"a":""}}"#, "Invalid tag: \"a\" has no value or no name"),
        (r#"{"metric":"m","timestamp":1,"value":1,"tags":{"":"a"}}"#, "Invalid tag: \"\" has no value or no name"),
        (r#"{"metric":"m","timestamp":1,"value":1,"tags":{"a":null}}"#, "Invalid tag: \"a\" has no value or no name"),
        (r#"{"metric":"m","timestamp":1,"value":1,"tags":{"a":"b","A":"c"}}"#, "Duplicate tag: \"A\""),
        ("7", "Expected a data point, found a number"),
        ("[]", "Expected a data point, found an array"),
    ] {
        let mut fixture = Fixture::new(Precision::Nano);
        let decoded = settled(&mut fixture, &format!("[{good},{bad},{good}]"));
        assert_eq!(decoded.accepted, 2, "{bad}");
        assert_eq!((decoded.rejected[0].line, decoded.rejected[0].reason.as_str()), (2, reason), "{bad}");
        assert!(serde_json::from_str::<serde_json::Value>(&decoded.rejected[0].text).is_ok());
        assert_eq!(fixture.named("m").columns.len(), 3, "a refused point leaves no column");
    }
}

#[test]
fn a_body_that_is_not_json_of_points_is_refused_as_a_whole() {
    let fixture = Fixture::new(Precision::Milli);
    for body in [
        "",
        "  ",
        "7",
        "null",
        "\"x\"",
        "[",
        "{",
        "[{]",
        "{\"metric\":\"m\"",
        "[] x",
        "\u{feff}[]",
        "{\"value\":1e999}",
    ] {
        let error = decode(body.as_bytes(), &fixture, &fixture.database, 0).unwrap_err();
        assert_eq!(error.kind(), Kind::Invalid, "{body}");
    }
    let deep = "[".repeat(100_000);
    assert!(decode(deep.as_bytes(), &fixture, &fixture.database, 0).is_err());
    assert_eq!(decode(b"[]", &fixture, &fixture.database, 0).unwrap().accepted, 0);
    assert!(decode(b"[{\"metric\":\"\xff\"}]", &fixture, &fixture.database, 0).is_err());
}

#[test]
fn a_declared_value_column_keeps_its_type() {
    let mut fixture = Fixture::new(Precision::Milli);
    fixture.create(
        "m",
        &[("ts", Role::Time, Type::Timestamp), ("value", Role::Field, Type::TinyInt), ("id", Role::Tag, Type::Int)],
    );
    let point =
        |value: &str, id: &str| format!(r#"{{"metric":"m","timestamp":1,"value":{value},"tags":{{"id":{id}}}}}"#);
    let body = [
        point("7", "\"01\""),
        point("40.0", "2"),
        point("128", "1"),
        point("1.5", "1"),
        point("1", "\"x\""),
        point("18446744073709551615", "1"),
    ];
    let decoded = settled(&mut fixture, &format!("[{}]", body.join("}\n,{").replace("}}\n,{{", "}\n,{")));
    assert_eq!(fixture.rows(&decoded.blocks), ["m|id=1|id=1|1000|value=7", "m|id=2|id=2|1000|value=40"]);
    let reasons: Vec<_> = decoded.rejected.iter().map(|r| (r.line, r.reason.as_str())).collect();
    assert_eq!(
        reasons,
        [
            (3, "The value is out of range for type TINYINT of metric \"m\""),
            (4, "The value is of the wrong type for type TINYINT of metric \"m\""),
            (5, "Invalid tag: \"id\" is 'x', of the wrong type for type INT"),
            (6, "The value is out of range for type TINYINT of metric \"m\""),
        ]
    );
}

#[test]
fn large_rejected_points_are_described_up_to_a_mebibyte_and_all_counted() {
    let text = "x".repeat(100 << 10);
    let points = vec![format!(r#"{{"metric":"m","timestamp":"{text}","value":1}}"#); 50];
    let fixture = Fixture::new(Precision::Milli);
    let decoded = decode(format!("[{}]", points.join(",")).as_bytes(), &fixture, &fixture.database, 0).unwrap();
    assert_eq!((decoded.accepted, decoded.dropped), (0, 50));
    let bytes: usize = decoded.rejected.iter().map(|r| r.reason.len() + r.text.len()).sum();
    assert!(decoded.rejected.len() > 1 && bytes < 2 << 20, "{} of {bytes} bytes", decoded.rejected.len());
}

#[test]
fn no_bytes_make_the_decoder_panic() {
    let seed = br#"[{"metric":"a.b","timestamp":1346846400,"value":"1.5e3","tags":{"h":"w\u0041","d":7}},{"metric":"m","timestamp":1346846400000,"value":18,"tags":{"host":"x"}}]"#;
    let mut rng = StdRng::seed_from_u64(5);
    for _ in 0..10_000 {
        let mut body = seed.to_vec();
        for _ in 0..rng.random_range(1..4) {
            let at = rng.random_range(0..body.len());
            match rng.random_range(0..3) {
                0 => body[at] = rng.random(),
                1 => body.insert(at, b"{}[]\",:e-\\"[rng.random_range(0..10)]),
                _ => {
                    body.remove(at);
                }
            }
        }
        let mut fixture = Fixture::new(Precision::Micro);
        if decode(&body, &fixture, &fixture.database, 0).is_ok() {
            let decoded = fixture.settle(|f| decode(&body, f, &f.database, 0).unwrap());
            assert_eq!(decoded.blocks.iter().map(|b| b.len()).sum::<usize>(), decoded.accepted);
        }
    }
}

#[test]
fn points_rejected_by_schema_or_retention_get_opentsdb_style_errors() {
    let mut fixture = Fixture::new(Precision::Milli);
    fixture.create(
        "m",
        &[("ts", Role::Time, Type::Timestamp), ("value", Role::Field, Type::Double), ("a", Role::Field, Type::Int)],
    );
    let body = r#"[{"metric":"m","timestamp":1,"value":1,"tags":{"a":"b"}},{"metric":"m\u0000","timestamp":1,"value":1,"tags":{"a":"b"}}]"#;
    let decoded = settled(&mut fixture, body);
    let reasons: Vec<&str> = decoded.rejected.iter().map(|r| r.reason.as_str()).collect();
    assert_eq!(reasons[0], "Invalid tag: \"a\" of metric \"m\" cannot be a tag: it already exists as a field");
    assert!(reasons[1].contains("metric") && !reasons[1].contains("measurement"), "{reasons:?}");
    let database = Database { keep_ms: 1_000, ..fixture.database.clone() };
    let old = r#"{"metric":"n","timestamp":1,"value":1,"tags":{"a":"b"}}"#;
    let decoded = decode(old.as_bytes(), &fixture, &database, 1_000_000).unwrap();
    assert_eq!(decoded.rejected[0].reason, "The data point is older than the retention of its database");
}
