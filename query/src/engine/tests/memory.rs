//! Memory limits of statements: functions, windows, joins and plans.

use super::*;

#[tokio::test]
async fn a_function_does_not_make_gigabytes_of_a_few_bytes() {
    let world = World::regular().await;
    let engine = engine(&world);
    for large in [
        "length(repeat('x', 2147483647))",
        "length(repeat(tbname, 1000000000))",
        "length(lpad('x', 2000000000))",
        "length(rpad(tbname, 100000000 + a, 'ab'))",
        "length(replace(repeat('x', 100000), 'x', repeat('y', 100000)))",
        "cardinality(range(1, 100000000000))",
        "cardinality(generate_series(100000000000))",
        "cardinality(range(timestamp '2020-01-01', timestamp '2021-01-01', interval '1 microsecond'))",
        "cardinality(generate_series(date '0001-01-01', date '2021-01-01', interval '1 second'))",
        "cardinality(array_repeat('abc', 1000000000))",
        "cardinality(array_resize([1], 1000000000 + a))",
    ] {
        for sql in [format!("select {large} from t"), format!("select count(*) from t where {large} > 3")] {
            let e = batches(&engine, &sql).await.unwrap_err();
            assert!(e.kind() == tidelake_format::Kind::Invalid && e.to_string().contains("bytes"), "{sql}: {e}");
        }
    }
    for (small, expected) in [
        ("repeat('ab', 3)", "ababab"),
        ("repeat(tbname, a - a + 2)", "d1d1"),
        ("repeat(null, 3)", "-"),
        ("repeat('x', -1)", ""),
        ("lpad('x', 3, 'ab')", "abx"),
        ("rpad(tbname, 4)", "d1  "),
        ("replace('a-b-c', '-', '+')", "a+b+c"),
        ("length(replace(repeat('x', 1000), '', 'y'))", "1000"),
        ("cardinality(range(5))", "5"),
        ("cardinality(range(10, 0, -3))", "4"),
        ("cardinality(generate_series(date '2021-01-01', date '2021-12-31', interval '1 month'))", "12"),
        ("cardinality(array_repeat(1, 7))", "7"),
        ("cardinality(list_repeat(1, 7))", "7"),
        ("cardinality(array_resize([1], 9))", "9"),
    ] {
        let sql = format!("select {small} from t where tbname = 'd1' and ts = {START}");
        assert_eq!(lines(&engine, &sql).await, [expected], "{sql}");
    }
}

#[tokio::test]
async fn a_users_memory_limit_does_not_change_results() {
    let world = World::regular().await;
    let engine = engine(&world);
    let limits = Limits { memory: Some(64 << 20), ..Limits::default() };
    let sql = "select to_timestamp('2024-03-01T10:00:00'), cast('2024-03-01 10:00:00' as timestamptz), \
        date_trunc('day', arrow_cast('2024-03-01T22:30:00Z', 'Timestamp(ns, \"+02:00\")')), to_char(max(ts), '%H:%M') from t";
    for (zone, ms) in
        [("UTC", 1_709_287_200_000_i64), ("Asia/Shanghai", 1_709_258_400_000), ("America/New_York", 1_709_305_200_000)]
    {
        let session = Session { time_zone: zone.parse().unwrap(), ..session() };
        let limited = Principal::new("ada", Rights::Admin).limited(limits);
        let limited = Session { principal: limited, ..session.clone() };
        let free = lines_in(&engine, &session, sql).await;
        assert_eq!(lines_in(&engine, &limited, sql).await, free, "{zone}");
        // A cast reads a text without a zone in the session's zone.
        assert!(free[0].starts_with(&format!("1709287200000|{ms}|")), "{zone}: {free:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_costly_constant_is_neither_folded_nor_computed() {
    let world = World::regular().await;
    let engine = engine(&world);
    for sql in [
        "select levenshtein(repeat('a', 80000), repeat('b', 80000))",
        "select levenshtein(repeat('a', 80000), repeat(tbname, 80000)) from t",
        "select count(*) from t where levenshtein(repeat(tbname, 80000), repeat(tbname, 70000)) > 3",
        "select btrim(repeat('a', 100000), repeat('b', 100000))",
    ] {
        let e = refused(&engine, sql).await;
        assert!(e.kind() == tidelake_format::Kind::Invalid && e.to_string().contains("limit"), "{sql}: {e}");
    }
    assert_eq!(lines(&engine, "select levenshtein('kitten', 'sitting')").await, ["3"]);
    // Constants that planning does not fold are computed by execution.
    assert_eq!(lines(&engine, "select length(repeat('x', 7000000))").await, ["7000000"]);
    assert_eq!(lines(&engine, "select sum(length(repeat('x', 10000))) from t").await, ["2400000"]);
}

#[tokio::test]
async fn no_function_takes_more_than_the_memory_for_queries() {
    let world = World::regular().await;
    let engine = engine(&world);
    let large = "repeat('x', 60000000)";
    let texts = |n: usize| vec![large; n].join(", ");
    for sql in [
        "select length(regexp_replace(repeat('a', 30000), '', repeat('b', 30000), 'g'))".to_owned(),
        "select length(regexp_replace(repeat('a', 30000), '(a*)', repeat('$1', 30000), 'g'))".to_owned(),
        "select length(array_to_string(range(0, 20000), repeat('x', 60000)))".to_owned(),
        format!("select length(concat_ws('', {}))", texts(30)),
        format!("select length(concat({}))", texts(30)),
        format!("select length(array_to_string(make_array({}), ''))", texts(30)),
        format!("select cardinality(array_concat([{}], [{}]))", texts(15), texts(15)),
        format!("select length({})", [large; 10].join(" || ")),
        format!("select length(translate({large}, 'x', '𝄞'))"),
        format!("select length(overlay({large} placing {large} from 10))"),
        format!("select length(encode(cast({large} as bytea), 'hex'))"),
        format!("select regexp_replace('a', {large}, 'b')"),
        "select regexp_like(repeat('a', 60000), '((((a{20}){20}){20}){5})')".to_owned(),
        "select regexp_count(repeat('a', 70000), '(a?){2040}a{2040}')".to_owned(),
        "select count(*) from t where regexp_like(repeat(tbname, 100000), concat('(a?){2000}', tbname))".to_owned(),
        "select count(*) from t where tbname ~ '((a{20}){20}){20}'".to_owned(),
        "select count(*) from t where tbname similar to '((a{20}){20}){20}'".to_owned(),
        format!("select count(*) from t where tbname ~ {large}"),
        "select count(*) from t where tbname like repeat('%x', 1000000)".to_owned(),
        format!("select count(*) from t where tbname similar to concat(tbname, '{}')", "x".repeat(40_000)),
        format!("select count(*) from t where tbname ~ '{}'", "x".repeat(40_000)),
        "select length(to_char(now(), repeat('%c', 3000000)))".to_owned(),
        "select count(distinct tbname || repeat('x', 1000000)) from t".to_owned(),
        // A constant as a column of a batch of rows.
        "select length(string_agg(repeat('x', 1000000), '')) from generate_series(1, 3000)".to_owned(),
        "select cardinality(array_agg(repeat('x', 1000000))) from generate_series(1, 3000)".to_owned(),
    ] {
        let e = refused(&engine, &sql).await;
        let is_limit = matches!(e.kind(), tidelake_format::Kind::Invalid | tidelake_format::Kind::Unavailable);
        assert!(is_limit && (e.to_string().contains("bytes") || e.context("needed").is_some()), "{sql}: {e}");
    }
    let literal = "y".repeat(300_000);
    let sql =
        format!("select max(length(a)), count(*) from (select '{literal}' as a, value from generate_series(1, 20000))");
    // More than a text array can hold, if all rows are in one batch: the right result or an error, never a panic.
    match batches(&engine, &sql).await {
        Ok(found) => assert_eq!(shown(&found), ["300000|20000"]),
        Err(e) => assert_eq!(e.kind(), tidelake_format::Kind::Invalid, "{e}"),
    }
    let sql = format!("select length(string_agg('{literal}', '')) from generate_series(1, 3000)");
    assert!(batches(&engine, &sql).await.is_err());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_rows_that_a_window_function_holds_count_in_the_memory_for_queries() {
    let world = World::regular().await;
    let engine = engine(&world);
    let limits = Limits { memory: Some(32 << 20), ..Limits::default() };
    let session = Session { principal: Principal::new("ada", Rights::Admin).limited(limits), ..session() };
    let of = |window: &str, rows: usize| {
        format!("select max(w), count(*) from (select {window} as w from generate_series(1, {rows}))")
    };
    // Each holds all its input rows until the last one arrives: 800 MB.
    for window in [
        "count(value) over ()",
        "count(value) over (partition by 1)",
        "lead(value, 100000000) over (order by value)",
        "sum(value) over (order by value rows between current row and unbounded following)",
    ] {
        let e = batches_in(&engine, &session, &of(window, 100_000_000)).await.unwrap_err();
        assert!(e.to_string().contains("limit 33554432 bytes"), "{window}: {e}");
    }
    // Rows that left the window are no longer counted.
    for (window, largest) in [
        ("sum(value) over (order by value rows between 2 preceding and current row)", 3 * 2_000_000 - 3),
        ("row_number() over (order by value)", 2_000_000),
    ] {
        let expected = format!("{largest}|2000000");
        assert_eq!(lines_in(&engine, &session, &of(window, 2_000_000)).await, [expected], "{window}");
    }
    assert_eq!(lines_in(&engine, &session, &of("count(value) over ()", 500_000)).await, ["500000|500000"]);
    let by_tag =
        "select g, max(n) from (select g, row_number() over (partition by g order by ts) as n from t) group by g";
    assert_eq!(lines(&engine, by_tag).await.len(), 4);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_rows_that_a_join_builds_from_count_twice() {
    let world = World::regular().await;
    let engine = engine(&world);
    let limits = Limits { memory: Some(8 << 20), ..Limits::default() };
    let session = Session { principal: Principal::new("ada", Rights::Admin).limited(limits), ..session() };
    // 8 bytes per row, and as many again once the join has concatenated them into one batch.
    for (rows, fits) in [(200_000, true), (700_000, false)] {
        let join =
            format!("select max(a.value + b.v) from generate_series(1, {rows}) a cross join (values (1), (2)) b(v)");
        match batches_in(&engine, &session, &join).await {
            Ok(found) => assert!(fits && shown(&found) == [(rows + 2).to_string()], "{join}"),
            Err(e) => assert!(!fits && e.to_string().contains("limit 8388608 bytes"), "{join}: {e}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_statement_that_names_with_queries_too_often_is_refused() {
    let world = World::regular().await;
    let engine = engine(&world);
    // Each references the previous one twice: the first one would be read 2^39 times.
    let doubled = (1..40).map(|n| format!(", c{n} as (select * from c{m} union all select * from c{m})", m = n - 1));
    let sql = format!("with c0 as (select 1 as a){} select count(*) from c39", doubled.collect::<String>());
    for sql in [sql.clone(), format!("explain {sql}"), format!("explain analyze {sql}")] {
        let e = refused(&engine, &sql).await;
        assert!(e.to_string().contains("too many parts") && e.context("limit").is_some(), "{e}");
    }
}

/// A session of user `ada`, whose MEMORY limit is this number of bytes.
fn session_with(bytes: u64) -> Session {
    let limits = Limits { memory: Some(bytes), ..Limits::default() };
    Session { principal: Principal::new("ada", Rights::Admin).limited(limits), ..session() }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_recursive_union_counts_its_growing_hash_table() {
    let world = World::regular().await;
    let engine = engine(&world);
    let session = session_with(32 << 20);
    // Texts of up to `length` bytes, each twice as long as the previous one.
    let doubling = |length: usize| {
        format!(
            "with recursive r(t) as (select 'ab' union select repeat(t, 2) from r where length(t) < {length}) \
             select count(*), max(length(t)) from r"
        )
    };
    let found = batches_in(&engine, &session, &doubling(1 << 20)).await.unwrap();
    assert_eq!(shown(&found), ["20|1048576"]);
    // Eight rows, each 500 kB longer than the previous one: an 18 MB table. There is no room for the larger buffers when it grows.
    let growing = "with recursive r(t) as (select repeat('x', 500000) union \
                   select concat(t, repeat('x', 500000)) from r where length(t) < 4000000) select count(*), max(length(t)) from r";
    let e = batches_in(&engine, &session, growing).await.unwrap_err();
    assert!(e.kind() == tidelake_format::Kind::Unavailable && e.to_string().contains("memory limit of user"), "{e}");
    let ring = "with recursive r(n) as (select 1 union select n % 1000 + 1 from r) select count(*), sum(n) from r";
    assert_eq!(shown(&batches_in(&engine, &session, ring).await.unwrap()), ["1000|500500"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_keys_of_all_grouping_sets_count_in_the_query_memory() {
    let world = World::regular().await;
    let engine = engine(&world);
    // 480 kB in half of the grouping sets: 4 MB or 123 MB per row.
    for (numbers, fits) in [(3, true), (8, false)] {
        let keys: String = (0..numbers).map(|n| format!("value % {}, ", n + 2)).collect();
        for sql in [
            format!("select count(*) from generate_series(1, 2) group by cube ({keys}array_repeat(7, 60000))"),
            format!(
                "select count(*) from (select value, repeat('x', 480000) r from generate_series(1, 2)) group by cube ({keys}r)"
            ),
        ] {
            let sql = format!("select count(*) from ({sql})");
            match batches_in(&engine, &session_with(64 << 20), &sql).await {
                Ok(found) => assert!(fits && shown(&found).len() == 1, "{sql}"),
                Err(e) => assert!(!fits && e.to_string().contains("limit 67108864 bytes"), "{sql}: {e}"),
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_results_of_functions_with_over_count_in_the_memory_for_queries() {
    let world = World::regular().await;
    let engine = engine(&world);
    let session = session_with(32 << 20);
    let of = |window: &str, rows: usize| {
        format!(
            "select max(length(cast(w as varchar))), count(*) from (select {window} as w from generate_series(1, {rows}))"
        )
    };
    // The size of each result is quadratic in the rows, or it has a long value per row.
    for (window, rows) in [
        ("array_agg(value) over ()", 8_192),
        ("array_agg(value) filter (where value <= 1000) over ()", 100_000),
        ("array_agg(value) over (order by value)", 8_192),
        ("string_agg(cast(value as varchar), ',') over (order by value)", 8_192),
        ("max(case when value = 1 then repeat('y', 100000) else 'x' end) over (order by value)", 8_192),
        ("first_value(case when value = 1 then repeat('x', 100000) else '' end) over (order by value)", 8_192),
        ("nth_value(case when value = 1 then repeat('x', 100000) else '' end, 1) over (order by value)", 8_192),
    ] {
        let e = batches_in(&engine, &session, &of(window, rows)).await.unwrap_err();
        assert!(
            e.kind() == tidelake_format::Kind::Unavailable && e.to_string().contains("memory limit of user"),
            "{window}: {e}"
        );
    }
    // Results that fit are right. Rows 1 to 50, in order.
    type Frame = fn(usize) -> std::ops::RangeInclusive<usize>;
    let joined = |rows: &mut dyn Iterator<Item = usize>| rows.map(|row| row.to_string()).collect::<Vec<_>>().join(",");
    let cases: [(&str, &str, Frame); 5] = [
        ("", "()", |_| 1..=50),
        ("filter (where value % 3 = 0)", "()", |_| 1..=50),
        ("filter (where value % 3 = 0)", "(order by value)", |row| 1..=row),
        ("", "(order by value rows between 2 preceding and 1 following)", |row| {
            row.saturating_sub(2).max(1)..=(row + 1).min(50)
        }),
        ("", "(order by value rows between current row and unbounded following)", |row| row..=50),
    ];
    for (filter, over, frame) in cases {
        let sql = format!(
            "select array_to_string(array_agg(value) {filter} over {over}, ','), \
             sum(value) {filter} over {over}, first_value(value) over {over} from generate_series(1, 50) order by value"
        );
        let mut expected: Vec<String> = (1..=50)
            .map(|row| {
                let is_chosen = |row: &usize| filter.is_empty() || row.is_multiple_of(3);
                let list = joined(&mut frame(row).filter(is_chosen));
                let sum = frame(row).filter(is_chosen).sum::<usize>();
                let sum = if sum == 0 { "-".to_owned() } else { sum.to_string() };
                let list = if list.is_empty() { "-".to_owned() } else { list };
                format!("{list}|{sum}|{}", frame(row).start())
            })
            .collect();
        expected.sort();
        assert_eq!(lines_in(&engine, &session, &sql).await, expected, "{sql}");
    }
    // The same windows with a bounded frame do not depend on the number of input rows.
    let slides = "array_agg(value) over (order by value rows between 2 preceding and current row)";
    assert_eq!(lines_in(&engine, &session, &of(slides, 100_000)).await, ["22|100000"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_join_by_nested_loops_reads_its_input_again_where_memory_is_short() {
    let world = World::regular().await;
    let engine = engine(&world);
    // Keys 0 to 299 999, each twice, joined with all keys below 1, 2 and 299 999.
    let sql = "select count(*), max(a.k), sum(a.n) from \
        (select value % 300000 as k, count(*) as n from generate_series(1, 600000) group by value % 300000) a \
        join (values (1), (2), (299999)) b(v) on a.k < b.v";
    let expected = [format!("{}|299998|{}", 1 + 2 + 299_999, 2 * (1 + 2 + 299_999))];
    let plan = explain(&engine, sql).await;
    assert!(plan.contains("NestedLoopJoinExec") && plan.contains("RepartitionExec"), "{plan}");
    let (mut ends, mut spilled) = ([0, 0], 0);
    for mebibytes in [64, 20, 16, 12, 8] {
        match batches_in(&engine, &session_with(mebibytes << 20), sql).await {
            Ok(found) => {
                ends[0] += 1;
                assert_eq!(shown(&found), expected, "{mebibytes} MiB");
                let analyzed = format!("explain analyze {sql}");
                let Ok(plan) = batches_in(&engine, &session_with(mebibytes << 20), &analyzed).await else { continue };
                let plan = shown(&plan).join("\n");
                let join = plan.lines().find(|line| line.contains("NestedLoopJoinExec")).unwrap();
                spilled += usize::from(!join.contains("spill_count=0") && join.contains("spill_count="));
            }
            Err(e) => {
                ends[1] += 1;
                assert!(e.kind() == tidelake_format::Kind::Unavailable, "{mebibytes} MiB: {e}");
            }
        }
    }
    assert!(ends[0] > 0 && spilled > 0, "{ends:?}, {spilled} of them wrote the input to disk");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_plans_of_a_long_statement_count_in_the_memory_for_queries() {
    let world = World::regular().await;
    let engine = engine(&world);
    let columns = (0..4_000).map(|n| format!("a + {n} as c{n}")).collect::<Vec<_>>().join(", ");
    let sql = format!("select count(*) from (select {columns} from t where a = 3)");
    let e = batches_in(&engine, &session_with(8 << 20), &sql).await.unwrap_err();
    assert!(e.kind() == tidelake_format::Kind::Unavailable && e.to_string().contains("plans of this statement"), "{e}");
    assert_eq!(
        lines_in(&engine, &session_with(64 << 20), &sql).await,
        lines(&engine, "select count(*) from t where a = 3").await
    );
    // A long list needs little memory.
    let list = (0..20_000).map(|n| n.to_string()).collect::<Vec<_>>().join(",");
    let sql = format!("select count(*) from t where a in ({list})");
    assert_eq!(lines(&engine, &sql).await, ["240"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_large_batch_of_an_answer_counts_in_the_memory_for_queries_while_it_is_written() {
    let world = World::regular().await;
    let engine = engine(&world);
    let literal = "y".repeat(300_000);
    // Batches of 8 MB.
    let sql = format!("select '{literal}' as a from generate_series(1, 100)");
    let e = batches_in(&engine, &session_with(12 << 20), &sql).await.unwrap_err();
    assert!(e.kind() == tidelake_format::Kind::Unavailable && e.to_string().contains("of a result"), "{e}");
    assert_eq!(lines_in(&engine, &session_with(64 << 20), &sql).await, vec![literal; 100]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_function_uses_at_most_an_eighth_of_the_statements_memory_per_row() {
    let world = World::regular().await;
    let engine = engine(&world);
    let sql = |bytes: u64| format!("select length(repeat('x', value + {bytes})) from generate_series(0, 0)");
    let session = session_with(64 << 20);
    assert_eq!(lines_in(&engine, &session, &sql(8_000_000)).await, ["8000000"]);
    let e = batches_in(&engine, &session, &sql(8_500_000)).await.unwrap_err();
    assert!(e.kind() == tidelake_format::Kind::Invalid && e.to_string().contains("limit: 8388608 bytes"), "{e}");
    assert_eq!(lines(&engine, &sql(8_500_000)).await, ["8500000"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn functions_that_make_much_of_a_row_are_given_few_rows_at_once() {
    let world = World::regular().await;
    let engine = engine(&world);
    // 60 kB per row: 480 MB per batch, and as much for the constant once it is a column.
    for text in ["repeat('x', 60000)", "repeat(cast(value % 7 as varchar), 60000)"] {
        let sql = format!(
            "select max(length({text})), sum(length(translate({text}, 'x', 'y'))) from generate_series(1, 20000)"
        );
        assert_eq!(lines_in(&engine, &session_with(64 << 20), &sql).await, ["60000|1200000000"], "{text}");
    }
}
