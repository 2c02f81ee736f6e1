use super::*;

#[test]
fn parameters_fill_values_tags_and_names_row_by_row() {
    let fixture = Fixture::devices();
    let batch = RecordBatch::try_from_iter([
        ("0", Arc::new(StringArray::from(vec!["d1", "D 2"])) as ArrayRef),
        ("1", Arc::new(Int64Array::from(vec![1, 2])) as ArrayRef),
        ("2", Arc::new(StringArray::from(vec![Some("a"), None])) as ArrayRef),
        (
            "3",
            Arc::new(arrow::array::TimestampMicrosecondArray::from(vec![5_000, 6_000]).with_timezone("UTC"))
                as ArrayRef,
        ),
        ("4", Arc::new(Float64Array::from(vec![Some(1.0), None])) as ArrayRef),
    ])
    .unwrap();
    let sql = "insert into ? using devices tags(?, ?, 7) (ts, temperature) values (?, ?)";
    let Inserted::Ready(decoded) = read_with(&fixture, sql, Some(&batch)).unwrap() else { panic!() };
    assert_eq!(
        fixture.rows(&decoded.blocks),
        ["devices|d1|devgroup=7 devid=1 devname=a|5|temperature=1", "devices|D 2|devgroup=7 devid=2|6|"]
    );
    for (sql, what) in [
        ("insert into ? using devices tags(?,?,7) (ts) values (?)", "too many parameters are bound"),
        ("insert into ? using devices tags(?,?,7) values (?,?,?)", "too few parameters are bound"),
    ] {
        let error = read_with(&fixture, sql, Some(&batch)).unwrap_err();
        assert!(error.to_string().contains(what), "{error}");
    }
}

#[test]
fn parameters_of_union_dictionary_and_date_are_read() {
    use arrow::{
        array::{Date32Array, DictionaryArray, UnionArray},
        buffer::ScalarBuffer,
        datatypes::{DataType, Field, UnionFields},
    };
    let fields = UnionFields::try_new(
        [0, 1],
        [Field::new("int", DataType::Int64, true), Field::new("text", DataType::Utf8, true)],
    )
    .unwrap();
    let union = UnionArray::try_new(
        fields,
        ScalarBuffer::from(vec![1_i8, 0]),
        Some(ScalarBuffer::from(vec![0_i32, 0])),
        vec![Arc::new(Int64Array::from(vec![9])), Arc::new(StringArray::from(vec!["8"]))],
    )
    .unwrap();
    let names: DictionaryArray<UInt32Type> = [Some("a"), None].into_iter().collect();
    let batch = RecordBatch::try_from_iter([
        ("0", Arc::new(names) as ArrayRef),
        ("1", Arc::new(Date32Array::from(vec![1, -1])) as ArrayRef),
        ("2", Arc::new(union) as ArrayRef),
    ])
    .unwrap();
    let fixture = Fixture::devices();
    let sql = "insert into d using devices (devname) tags(?) (ts, temperature) values (?, ?)";
    let Inserted::Ready(decoded) = read_with(&fixture, sql, Some(&batch)).unwrap() else { panic!() };
    assert_eq!(
        fixture.rows(&decoded.blocks),
        ["devices|d|devname=a|86400000|temperature=8", "devices|d|devname=a|-86400000|temperature=9"]
    );
}

#[test]
fn numbered_parameters_are_bound_by_number() {
    let fixture = Fixture::devices();
    let batch = RecordBatch::try_from_iter([
        ("1", Arc::new(Int64Array::from(vec![3])) as ArrayRef),
        ("2", Arc::new(StringArray::from(vec!["d1"])) as ArrayRef),
    ])
    .unwrap();
    let sql = "insert into $2 using devices tags($1, $2, $1) (ts, temperature) values ($1, $1)";
    let Inserted::Ready(decoded) = read_with(&fixture, sql, Some(&batch)).unwrap() else { panic!() };
    assert_eq!(fixture.rows(&decoded.blocks), ["devices|d1|devgroup=3 devid=3 devname=d1|3|temperature=3"]);
    for (sql, what) in [
        ("insert into $2 using devices tags(?, $2, 1) values (1, 2, 3)", "all '?' or all '$n'"),
        ("insert into $2 using devices tags($3, $2, 1) values (1, 2, 3)", "too few parameters are bound"),
        ("insert into $1 using devices tags(1, 'a', 1) values (1, 2, 3)", "the name of a table"),
        ("insert into d using devices tags($1, 'a', 1) values (1, 2, 3)", "too many parameters are bound"),
        ("insert into $0 using devices tags(1, 'a', 1) values (1, 2, 3)", "'$1' to '$65535'"),
        ("insert into $x using devices tags(1, 'a', 1) values (1, 2, 3)", "'$1' to '$65535'"),
    ] {
        let error = read_with(&fixture, sql, Some(&batch)).unwrap_err();
        assert!(error.to_string().contains(what), "{sql}: {error}");
    }
}

#[test]
fn parameters_have_the_types_of_their_columns() {
    let mut fixture = Fixture::devices();
    let table = fixture.tables[0].clone();
    fixture.subtables.push(("d1".into(), Subtable { table, tags: Vec::new() }));
    let text = Some(Type::Binary(None));
    let (time, int, float, name) =
        (Some(Type::Timestamp), Some(Type::Int), Some(Type::Float), Some(Type::Binary(Some(16))));
    let types = |sql: &str| {
        let Statement::Insert(statement) = parse(sql)? else { panic!("{sql}") };
        insert_parameters(statement.cursor(sql), &fixture, &session(&fixture))
    };
    for (sql, wanted) in [
        ("insert into d1 values (?, ?, ?)", vec![time, int, float]),
        ("insert into d1 (humidity, ts) values (?, ?), (1.5, ?)", vec![float, time, time]),
        ("insert into d1 values (now, 1, 2)", vec![]),
        ("insert into ? using devices tags(?, ?, 7) (ts, temperature) values (?, ?)", vec![text, int, name, time, int]),
        ("insert into d9 using devices (devname) tags(?) values (?, 1, ?)", vec![name, time, float]),
        ("insert into devices (tbname, devid, ts, humidity) values (?, ?, ?, ?)", vec![text, int, time, float]),
        ("insert into d1 (ts) values ($2) d1 (ts, temperature) values ($2, $1)", vec![int, time]),
        ("insert into d1 (ts) values ($3)", vec![None, None, time]),
        // The table of a text that is not bound yet is unknown.
        ("insert into ? values (?, ?, ?)", vec![text, None, None, None]),
    ] {
        match types(sql).unwrap_or_else(|e| panic!("{sql}: {e}")) {
            Described::Types(found) => assert_eq!(found, wanted, "{sql}"),
            Described::Unresolved(names) => panic!("{sql}: {names:?}"),
        }
    }
    let Described::Unresolved(names) = types("insert into d7 values (?, ?, ?)").unwrap() else { panic!() };
    assert_eq!(names, [(fixture.database.id, "d7".to_owned())]);
    for (sql, what) in [
        ("insert into d1 values (?, ?)", "number of columns and number of values differ"),
        ("insert into d using devices tags(?) values (?, ?, ?)", "number of tags and number of values differ"),
        ("insert into d using nope tags(?) values (?, ?, ?)", "Table does not exist: nope"),
        ("insert into d1 (ts, nope) values (?, ?)", "Invalid column name: nope"),
        ("insert into d1 (ts, temperature) values (?, $2)", "all '?' or all '$n'"),
    ] {
        let error = types(sql).unwrap_err();
        assert!(error.to_string().contains(what), "{sql}: {error}");
    }
}

#[test]
fn the_condition_of_a_delete_may_have_parameters() {
    let sql = "delete from devices where ts between ? and ? and (devname like ? or ? = devid or tbname in ('x', ?))";
    let Statement::Delete(delete) = parse(sql).unwrap() else { panic!() };
    assert_eq!(delete.compared(), ["ts", "ts", "devname", "devid", "tbname"].map(Some));
    let batch = RecordBatch::try_from_iter([
        ("1", Arc::new(arrow::array::TimestampMicrosecondArray::from(vec![5_000])) as ArrayRef),
        ("2", Arc::new(Int64Array::from(vec![7])) as ArrayRef),
        ("3", Arc::new(StringArray::from(vec!["a%"])) as ArrayRef),
        ("4", Arc::new(Float64Array::from(vec![2.0])) as ArrayRef),
        ("5", Arc::new(StringArray::from(vec![None::<&str>])) as ArrayRef),
    ])
    .unwrap();
    let bound = bind(&delete, &batch, 0).unwrap();
    let wanted =
        "delete from devices where ts between ? and 7 and (devname like 'a%' or 2.0 = devid or tbname in ('x', NULL))";
    let Statement::Delete(mut wanted) = parse(wanted).unwrap() else { panic!() };
    let instant = RecordBatch::try_from_iter([("1", batch.column(0).clone())]).unwrap();
    wanted = bind(&wanted, &instant, 0).unwrap();
    assert_eq!(bound, wanted);
    assert!(format!("{bound:?}").contains("Instant(5000000)"), "{bound:?}");
    let few = batch.project(&[0, 1]).unwrap();
    assert!(bind(&delete, &few, 0).unwrap_err().to_string().contains("too few parameters are bound"));
    let Statement::Delete(none) = parse("delete from devices where ts < 3").unwrap() else { panic!() };
    assert!(bind(&none, &few, 0).unwrap_err().to_string().contains("too many parameters are bound"));
}
