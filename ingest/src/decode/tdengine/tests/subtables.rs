use super::*;

#[test]
fn subtables_are_series_without_rows() {
    let fixture = Fixture::devices();
    let sql = "create table d1 using devices tags (1, 'a\\'b', 2) if not exists `D2` using db.devices (devname) tags ('x') d3 using devices tags(-3,null,0x10)";
    let Statement::CreateSubtables(subtables) = parse(sql).unwrap() else { panic!() };
    let decoded = create_subtables(&subtables, &fixture, &session(&fixture)).unwrap();
    assert_eq!((decoded.accepted, decoded.blocks.len(), decoded.blocks[0].len()), (3, 1, 0));
    let series = &decoded.blocks[0].series;
    assert_eq!(series.names().iter().flatten().collect::<Vec<_>>(), ["d1", "D2", "d3"]);
    let table = fixture.named("devices");
    let tag = |name: &str, row| {
        let array = series.tag(table.column(name).unwrap().id).unwrap();
        arrow::util::display::array_value_to_string(array, row).unwrap()
    };
    assert_eq!([tag("devid", 0), tag("devname", 0), tag("devgroup", 2)], ["1", "a'b", "16"]);
    assert_eq!([tag("devid", 1), tag("devname", 1), tag("devname", 2)], ["", "x", ""]);
    for (sql, what) in [
        ("create table d using devices tags (1)", "number of tags"),
        ("create table d using devices tags ('x','y',1)", "invalid tag value"),
        ("create table d using devices (nope) tags (1)", "Invalid column name"),
        ("create table d using devices (temperature) tags (1)", "expected distinct tags"),
        ("create table d using nope tags (1)", "Table does not exist"),
        ("create table d using devices tags (1,'a',1) d using devices tags (1,'a',1)", "Table already exists: d"),
    ] {
        let Statement::CreateSubtables(subtables) = parse(sql).unwrap() else { panic!() };
        let error = create_subtables(&subtables, &fixture, &session(&fixture)).unwrap_err();
        assert!(error.to_string().contains(what), "{sql}: {error}");
    }
    let twice = "create table d using devices tags (1,'a',1) if not exists d using devices tags (2,'b',1)";
    let Statement::CreateSubtables(subtables) = parse(twice).unwrap() else { panic!() };
    assert_eq!(create_subtables(&subtables, &fixture, &session(&fixture)).unwrap().accepted, 1);
}
