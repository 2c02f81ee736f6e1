//! Plans that read series by series instead of sorting.

use super::{engine, explain, world::World};

#[tokio::test]
async fn sorts_by_series_and_time_are_replaced_by_the_order_of_the_scan() {
    let world = World::regular().await;
    let engine = engine(&world);
    let over = "over (partition by tbname order by ts)";
    for (sql, is_sorted, is_window) in [
        ("select * from t order by tbname, ts", false, false),
        ("select ts as time, a from t where a > 3 order by tbname desc, ts", false, false),
        ("select a from t order by g, tbname, ts", false, false),
        ("select a from t order by g", false, false),
        (&format!("select lag(a) {over} from t"), false, true),
        (
            &format!(
                "select tbname, ts, row_number() {over}, lead(b) {over} from t where ts > now() - interval '9999 days'"
            ),
            false,
            true,
        ),
        ("select lag(a) over (partition by g, tbname order by ts) from t", false, true),
        // A window with a frame streams over the scan in order.
        ("select sum(a) over (partition by tbname order by ts rows 3 preceding) from t", false, false),
        // Several series are in one partition of the window, or the order is another.
        ("select lag(a) over (partition by g order by ts) from t", true, false),
        ("select lag(a) over (partition by tbname order by ts desc) from t", true, false),
        ("select lag(a) over (partition by tbname order by a) from t", true, false),
        ("select * from t order by g, ts", true, false),
        ("select * from t order by ts, tbname", true, false),
        ("select * from t order by upper(tbname), ts", true, false),
    ] {
        let plan = explain(&engine, sql).await;
        let plan = plan.split_once("physical_plan").unwrap_or_else(|| panic!("{plan}")).1;
        assert_eq!(plan.contains("SortExec"), is_sorted, "{sql}: {plan}");
        assert_eq!(plan.contains("order=["), !is_sorted, "{sql}: {plan}");
        assert_eq!(plan.contains("SeriesWindow"), is_window, "{sql}: {plan}");
    }
}
