//! Tests of the model: it accepts obviously correct reads and rejects each kind of violation.

use std::collections::BTreeMap;

use super::{Batch, Model, Removal, Row, Rows, Seen, Told};

fn row(series: &str, ts: i64, a: i64) -> Row {
    Row { series: series.to_owned(), ts, fields: vec![("a".to_owned(), a)] }
}

fn write(model: &mut Model, begun: u64, at: u64, rows: &[Row]) {
    let id = model.write(1, begun, &Batch { table: "t".to_owned(), rows: rows.to_vec() });
    model.told(id, 1, at, Told::Done(None));
}

fn seen(at: u64, rows: &[(&str, i64, i64)]) -> Seen {
    let rows: Rows =
        rows.iter().map(|(s, ts, a)| (((*s).to_owned(), *ts), BTreeMap::from([("a".to_owned(), *a)]))).collect();
    Seen { table: "t".to_owned(), rows, begun: at, ended: at, ..Seen::default() }
}

fn refused(model: &Model, seen: &Seen, why: &str) {
    let said = model.check(seen).expect_err("a breach is noticed");
    assert!(said.starts_with(why), "{said}");
}

#[test]
fn what_was_acknowledged_is_there_and_the_newest_of_it() {
    let mut model = Model::new(0, 1);
    write(&mut model, 0, 10, &[row("d", 0, 1)]);
    write(&mut model, 20, 30, &[row("d", 0, 2)]);
    assert_eq!(model.check(&seen(40, &[("d", 0, 2)])), Ok(()));
    assert_eq!(model.check(&seen(15, &[("d", 0, 1)])), Ok(()));
    refused(&model, &seen(40, &[]), "an acknowledged value is not there");
    refused(&model, &seen(40, &[("d", 0, 1)]), "an older value than the newest");
    refused(&model, &seen(40, &[("d", 0, 3)]), "a value that nobody wrote");
    refused(&model, &seen(15, &[("d", 0, 2)]), "a value that nobody wrote");
}

#[test]
fn a_request_is_there_whole_or_not_at_all() {
    let mut model = Model::new(0, 1);
    model.write(1, 0, &Batch { table: "t".to_owned(), rows: vec![row("d", 0, 1), row("e", 0, 2)] });
    assert_eq!(model.check(&seen(5, &[])), Ok(()));
    assert_eq!(model.check(&seen(5, &[("d", 0, 1), ("e", 0, 2)])), Ok(()));
    refused(&model, &seen(5, &[("d", 0, 1)]), "a write is there in part");
}

#[test]
fn a_delete_takes_what_it_covers_and_nothing_else() {
    let mut model = Model::new(0, 1);
    write(&mut model, 0, 10, &[row("d", 0, 1), row("d", 5, 2), row("e", 0, 3)]);
    let removal = Removal { table: "t".to_owned(), series: Some("d".to_owned()), range: (0, 1), drops: false };
    let id = model.remove(1, 20, removal);
    model.told(id, 1, 30, Told::Done(None));
    assert_eq!(model.check(&seen(40, &[("d", 5, 2), ("e", 0, 3)])), Ok(()));
    refused(&model, &seen(40, &[("d", 0, 1), ("d", 5, 2), ("e", 0, 3)]), "a value that was removed");
    refused(&model, &seen(40, &[("e", 0, 3)]), "an acknowledged value is not there");
    write(&mut model, 31, 35, &[row("d", 0, 4)]);
    refused(&model, &seen(40, &[("d", 5, 2), ("e", 0, 3)]), "an acknowledged value is not there");
}

#[test]
fn copies_under_one_key_are_one_write() {
    let mut model = Model::new(0, 1);
    let batch = Batch { table: "t".to_owned(), rows: vec![row("d", 0, 1)] };
    let id = model.write(1, 0, &batch);
    model.told(id, 1, 10, Told::Done(None));
    write(&mut model, 20, 30, &[row("d", 0, 2)]);
    model.write_again(id, 2);
    model.told(id, 2, 50, Told::Done(None));
    refused(&model, &seen(60, &[("d", 0, 1)]), "an older value than the newest");
}

#[test]
fn what_one_process_refused_another_may_take() {
    let mut model = Model::new(0, 1);
    let id = model.write(1, 0, &Batch { table: "t".to_owned(), rows: vec![row("d", 0, 1)] });
    model.told(id, 1, 10, Told::Refused);
    refused(&model, &seen(20, &[("d", 0, 1)]), "a value that nobody wrote");
    model.write_again(id, 2);
    assert_eq!(model.check(&seen(30, &[("d", 0, 1)])), Ok(()));
    assert_eq!(model.check(&seen(30, &[])), Ok(()));
}

#[test]
fn a_tag_that_was_set_stays_until_its_series_is_dropped() {
    let mut model = Model::new(0, 1);
    let sites = |at, site: &str| Seen { sites: [("d".to_owned(), site.to_owned())].into(), ..seen(at, &[]) };
    let id = model.set_site(1, 0, "t", "d", "s1");
    model.told(id, 1, 10, Told::Done(None));
    assert_eq!(model.check(&sites(20, "s1")), Ok(()));
    refused(&model, &sites(20, "y"), "a tag that the series cannot have");
    let removal = Removal { table: "t".to_owned(), series: None, range: (i64::MIN, i64::MAX), drops: true };
    let id = model.remove(1, 20, removal);
    model.told(id, 1, 30, Told::Done(None));
    assert_eq!(model.check(&sites(40, "y")), Ok(()));
    refused(&model, &sites(40, "s1"), "a tag that the series cannot have");
}
