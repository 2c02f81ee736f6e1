//! Functions of other systems, and the expressions that do the same here.

/// `(function in lower case, expression to use)`, in order of the names.
const FUNCTIONS: &[(&str, &str)] = &[
    ("any", "first_value(x)"),
    ("apercentile", "approx_percentile_cont(x, 0.95): the fraction is from 0 to 1"),
    ("approx_percentile", "approx_percentile_cont(x, 0.95)"),
    ("approx_quantile", "approx_percentile_cont(x, 0.95)"),
    ("arg_max", "last(x) for the newest row, or first_value(x ORDER BY y DESC)"),
    ("arg_min", "first(x) for the oldest row, or first_value(x ORDER BY y)"),
    ("argmax", "last(x) for the newest row, or first_value(x ORDER BY y DESC)"),
    ("argmin", "first(x) for the oldest row, or first_value(x ORDER BY y)"),
    ("average", "avg(x)"),
    ("avgif", "avg(x) FILTER (WHERE condition)"),
    ("bottom", "SELECT x … ORDER BY x LIMIT n"),
    ("count_distinct", "count(DISTINCT x)"),
    ("countif", "count(*) FILTER (WHERE condition)"),
    ("create_hypertable", "CREATE TABLE …: every table is partitioned by time"),
    ("csum", "sum(x) OVER (PARTITION BY tag ORDER BY ts)"),
    ("cumulative_sum", "sum(x) OVER (PARTITION BY tag ORDER BY ts)"),
    ("curdate", "current_date"),
    ("date_add", "ts + INTERVAL '1 hour'"),
    ("date_bin_gapfill", "INTERVAL(1m) FILL(NULL) after WHERE, with _wstart as the time"),
    ("date_diff", "date_part('epoch', b) - date_part('epoch', a), in seconds"),
    ("date_sub", "ts - INTERVAL '1 hour'"),
    ("dateadd", "ts + INTERVAL '1 hour'"),
    ("datediff", "date_part('epoch', b) - date_part('epoch', a), in seconds"),
    ("derivative", "(x - lag(x) OVER (PARTITION BY tag ORDER BY ts)) over the difference of the times"),
    ("diff", "x - lag(x) OVER (PARTITION BY tag ORDER BY ts)"),
    ("difference", "x - lag(x) OVER (PARTITION BY tag ORDER BY ts)"),
    ("elapsed", "max(ts) - min(ts)"),
    ("epoch", "date_part('epoch', ts)"),
    ("epoch_ms", "CAST(ts AS BIGINT): cast(ts AS BIGINT) counts ticks of the database's precision"),
    ("epoch_ns", "CAST(ts AS BIGINT): cast(ts AS BIGINT) counts ticks of the database's precision"),
    ("formatdatetime", "to_char(ts, '%Y-%m-%d')"),
    ("grouparray", "array_agg(x)"),
    ("groupuniqarray", "array_agg(DISTINCT x)"),
    ("histogram", "SELECT floor(x / 10), count(*) … GROUP BY 1"),
    ("hyperloglog", "approx_distinct(x)"),
    ("if", "CASE WHEN condition THEN a ELSE b END"),
    ("iif", "CASE WHEN condition THEN a ELSE b END"),
    ("integral", "sum(x * seconds), or avg(x) times the length of the window"),
    ("interp", "INTERVAL(1m) FILL(LINEAR) after WHERE, with _wstart as the time"),
    ("interpolate", "INTERVAL(1m) FILL(LINEAR) after WHERE, with _wstart as the time"),
    ("irate", "(x - lag(x) OVER (PARTITION BY tag ORDER BY ts)) over the difference of the times"),
    ("isnull", "x IS NULL"),
    ("json_agg", "array_agg(x)"),
    ("leastsquares", "regr_slope(y, x) and regr_intercept(y, x)"),
    ("list", "array_agg(x)"),
    ("locf", "INTERVAL(1m) FILL(PREV) after WHERE, with _wstart as the time"),
    ("mavg", "avg(x) OVER (PARTITION BY tag ORDER BY ts ROWS n - 1 PRECEDING)"),
    ("max_by", "first_value(x ORDER BY y DESC)"),
    ("min_by", "first_value(x ORDER BY y)"),
    ("mode", "SELECT x, count(*) … GROUP BY x ORDER BY 2 DESC LIMIT 1"),
    ("moving_average", "avg(x) OVER (PARTITION BY tag ORDER BY ts ROWS n - 1 PRECEDING)"),
    ("non_negative_derivative", "greatest(x - lag(x) OVER (PARTITION BY tag ORDER BY ts), 0)"),
    ("non_negative_difference", "greatest(x - lag(x) OVER (PARTITION BY tag ORDER BY ts), 0)"),
    ("percentile", "percentile_cont(x, 0.95): the fraction is from 0 to 1"),
    ("percentile_disc", "percentile_cont(0.95) WITHIN GROUP (ORDER BY x)"),
    ("quantile", "percentile_cont(x, 0.95)"),
    ("quantiles", "percentile_cont(x, 0.95), one call for each fraction"),
    ("rate", "(x - lag(x) OVER (PARTITION BY tag ORDER BY ts)) over the difference of the times"),
    ("sample", "SELECT x … ORDER BY random() LIMIT n"),
    ("selector_first", "first(x), and min(ts) for its time"),
    ("selector_last", "last(x), and max(ts) for its time"),
    ("selector_max", "max(x), or first_value(ts ORDER BY x DESC) for its time"),
    ("selector_min", "min(x), or first_value(ts ORDER BY x) for its time"),
    ("statecount", "count(CASE WHEN condition THEN 1 END)"),
    ("stateduration", "sum(CASE WHEN condition THEN seconds END)"),
    ("strftime", "to_char(ts, '%Y-%m-%d')"),
    ("strptime", "to_timestamp('2026-01-01', '%Y-%m-%d')"),
    ("sumif", "sum(x) FILTER (WHERE condition)"),
    ("tail", "SELECT x … ORDER BY ts DESC LIMIT n"),
    ("time", "INTERVAL(1m) after WHERE in place of GROUP BY time(1m), with _wstart as the time"),
    ("time_bucket", "date_bin(INTERVAL '1 minute', ts), or the clause INTERVAL(1m)"),
    ("time_bucket_gapfill", "INTERVAL(1m) FILL(NULL) after WHERE, with _wstart as the time"),
    ("timediff", "b - a, or date_part('epoch', b) - date_part('epoch', a) in seconds"),
    ("timestamp_floor", "date_bin(INTERVAL '1 minute', ts)"),
    ("timestampdiff", "date_part('epoch', b) - date_part('epoch', a), in seconds"),
    ("timetruncate", "date_trunc('hour', ts)"),
    ("to_iso8601", "to_char(ts, '%Y-%m-%dT%H:%M:%S')"),
    ("to_timezone", "ts AT TIME ZONE 'Europe/Berlin'"),
    ("to_unixtimestamp", "to_unixtime(x)"),
    ("todate", "CAST(ts AS DATE)"),
    ("todatetime", "to_timestamp(x)"),
    ("top", "SELECT x … ORDER BY x DESC LIMIT n"),
    ("topk", "SELECT x, count(*) … GROUP BY x ORDER BY 2 DESC LIMIT n"),
    ("tostartofday", "date_trunc('day', ts)"),
    ("tostartoffiveminutes", "date_bin(INTERVAL '5 minutes', ts)"),
    ("tostartofhour", "date_trunc('hour', ts)"),
    ("tostartofinterval", "date_bin(INTERVAL '5 minutes', ts)"),
    ("tostartofminute", "date_trunc('minute', ts)"),
    ("tostartofmonth", "date_trunc('month', ts)"),
    ("tostartofweek", "date_trunc('week', ts)"),
    ("tostring", "CAST(x AS VARCHAR)"),
    ("tounixtimestamp", "to_unixtime(x)"),
    ("twa", "avg(x), or avg over INTERVAL(1m) FILL(LINEAR) to weigh by time"),
    ("uniq", "approx_distinct(x), or count(DISTINCT x)"),
    ("uniqexact", "count(DISTINCT x)"),
    ("unique", "SELECT DISTINCT x"),
    ("unix_timestamp", "to_unixtime(x)"),
];

/// The expression to use in place of a function of another system, by its name in lower case.
pub(super) fn instead_of(name: &str) -> Option<&'static str> {
    FUNCTIONS.binary_search_by_key(&name, |(name, _)| name).ok().map(|i| FUNCTIONS[i].1)
}

/// The names of the functions of other systems.
pub(in super::super) fn names() -> impl Iterator<Item = &'static str> {
    FUNCTIONS.iter().map(|(name, _)| *name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_in_order_and_found() {
        assert!(FUNCTIONS.is_sorted_by(|(a, _), (b, _)| a < b));
        assert!(names().all(|name| instead_of(name).is_some()));
        assert_eq!(instead_of("avg"), None);
    }
}
