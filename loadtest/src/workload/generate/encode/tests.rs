#![allow(clippy::unwrap_used)]

use super::*;
use crate::workload::generate::{Devices, Order, Source};
use arrow::array::AsArray;
use arrow::datatypes::{Float32Type, Int32Type, TimestampMillisecondType};

/// A row with its tags, as the parsers below find it.
type Found = (u32, String, u32, Row);

fn encoded(text: Text, order: Order) -> (String, Vec<Found>) {
    let set = Devices { devices: 3, rows: 4, seed: 6 };
    let mut feed = Source::Generated(set, order).feeds(1).remove(0);
    let (mut body, mut expected) = (Vec::new(), Vec::new());
    text.begin(&mut body);
    feed.next(100, &mut |device, rows| {
        text.push(&mut body, device, rows);
        expected.extend(rows.iter().map(|row| (device.devid, device.devname.clone(), device.devgroup, *row)));
    })
    .unwrap();
    text.end(&mut body);
    (String::from_utf8(body).unwrap(), expected)
}

/// The text between two marks.
fn between<'a>(text: &'a str, left: &str, right: &str) -> &'a str {
    let start = text.find(left).unwrap_or_else(|| panic!("{left} in {text}")) + left.len();
    &text[start..start + text[start..].find(right).unwrap_or_else(|| panic!("{right} in {text}"))]
}

#[test]
fn lines_parse_back() {
    for order in [Order::Device, Order::Time] {
        let (text, expected) = encoded(Text::Line, order);
        let found: Vec<Found> = text
            .lines()
            .map(|line| {
                assert!(line.starts_with("devices,"));
                let (_, ts) = line.rsplit_once(' ').unwrap();
                let row = Row {
                    ts: ts.parse().unwrap(),
                    temperature: between(line, "temperature=", "i,").parse().unwrap(),
                    humidity: between(line, "humidity=", " ").parse().unwrap(),
                };
                let devgroup = between(line, "devgroup=", " ").parse().unwrap();
                (between(line, "devid=", ",").parse().unwrap(), between(line, "devname=", ",").into(), devgroup, row)
            })
            .collect();
        assert_eq!(found, expected);
    }
}

#[test]
fn inserts_parse_back() {
    for order in [Order::Device, Order::Time] {
        let (text, expected) = encoded(Text::TdEngine, order);
        let tables = text.strip_prefix("insert into ").unwrap().strip_suffix(";").unwrap();
        let mut found = Vec::new();
        for table in tables.strip_prefix("dev").unwrap().replace(") dev", ")\n").lines() {
            let tags: Vec<&str> = between(table, "tags(", ")").split(',').collect();
            assert_eq!(table.split_once(" using devices tags(").unwrap().0, tags[0]);
            for row in table.split_once("values").unwrap().1.trim_start_matches('(').trim_end_matches(')').split(")(") {
                let [ts, temperature, humidity] = row.split(',').collect::<Vec<_>>()[..] else { panic!("{row}") };
                assert_eq!(humidity.split_once('.').unwrap().1, "000000");
                let row = Row {
                    ts: ts.parse().unwrap(),
                    temperature: temperature.parse().unwrap(),
                    humidity: humidity.parse().unwrap(),
                };
                found.push((
                    tags[0].parse().unwrap(),
                    tags[1].trim_matches('\'').into(),
                    tags[2].parse().unwrap(),
                    row,
                ));
            }
        }
        assert_eq!(found, expected);
    }
}

#[test]
fn an_insert_is_the_papers_word_for_word() {
    let mut body = Vec::new();
    let row = |ts, temperature, humidity| Row { ts, temperature, humidity };
    let device = |devid: u32| Device { devid, devname: format!("dev_{devid}"), devgroup: devid };
    Text::TdEngine.begin(&mut body);
    let two = [row(1_563_249_700_000, 40, 12.0), row(1_563_249_701_000, 44, 9.0)];
    Text::TdEngine.push(&mut body, &device(1), &two);
    Text::TdEngine.push(&mut body, &device(2), &[row(1_563_249_700_000, 51, 3.0)]);
    Text::TdEngine.end(&mut body);
    assert_eq!(
        String::from_utf8(body).unwrap(),
        "insert into dev1 using devices tags(1,'dev_1',1) values(1563249700000,40,12.000000)\
         (1563249701000,44,9.000000) dev2 using devices tags(2,'dev_2',2) values(1563249700000,51,3.000000);"
    );
    let mut line = Vec::new();
    Text::Line.push(&mut line, &device(1), &two[..1]);
    let expected = "devices,devid=1,devname=dev_1,devgroup=1 temperature=40i,humidity=12 1563249700000\n";
    assert_eq!(String::from_utf8(line).unwrap(), expected);
}

#[test]
fn points_parse_back_two_for_each_row() {
    let (text, expected) = encoded(Text::OpenTsdb, Order::Time);
    let points: Vec<serde_json::Value> = serde_json::from_str(&text).unwrap();
    assert_eq!(points.len(), 2 * expected.len());
    for (pair, (devid, devname, devgroup, row)) in points.chunks(2).zip(expected) {
        let tags = serde_json::json!({
            "devid": devid.to_string(), "devname": devname, "devgroup": devgroup.to_string(),
        });
        let point = |metric: &str, value: serde_json::Value| serde_json::json!({"metric": metric, "timestamp": row.ts, "value": value, "tags": tags});
        assert_eq!(pair[0], point("temperature", row.temperature.into()));
        assert_eq!(pair[1], point("humidity", (row.humidity as i64).into()));
    }
}

#[test]
fn batches_hold_the_rows_and_start_afresh() {
    let set = Devices { devices: 2, rows: 3, seed: 6 };
    let mut batch = Batch::default();
    for _ in 0..2 {
        for devid in set.ids() {
            batch.push(&Device::numbered(devid), &set.rows(devid));
        }
        let made = batch.finish().unwrap();
        assert_eq!((made.num_rows(), made.schema()), (6, SCHEMA.clone()));
        for at in 0..6 {
            let devid = at as u32 / 3 + 1;
            let row = set.row(devid, at as u32 % 3);
            assert_eq!(made["ts"].as_primitive::<TimestampMillisecondType>().value(at), row.ts);
            assert_eq!(made["temperature"].as_primitive::<Int32Type>().value(at), row.temperature);
            assert_eq!(made["humidity"].as_primitive::<Float32Type>().value(at), row.humidity);
            assert_eq!(made["devid"].as_primitive::<Int32Type>().value(at), devid as i32);
            assert_eq!(made["devgroup"].as_primitive::<Int32Type>().value(at), devid as i32);
            assert_eq!(made["devname"].as_string::<i32>().value(at), format!("dev_{devid}"));
        }
    }
}
