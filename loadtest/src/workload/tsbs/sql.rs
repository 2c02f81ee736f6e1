//! The questions as statements, in the SQL of each engine.

use super::{FIELDS, Form, Question, TABLE};

/// The SQL of an engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// Tidelake: DataFusion's SQL with TDengine's clauses.
    Tidelake,
    /// DuckDB.
    DuckDb,
    /// ClickHouse.
    ClickHouse,
}

use Dialect::{ClickHouse, DuckDb, Tidelake};

/// Joins `f(field)` of fields.
fn each(fields: &[&str], f: impl Fn(&str) -> String) -> String {
    fields.iter().map(|field| f(field)).collect::<Vec<_>>().join(", ")
}

fn maxima(fields: usize) -> String {
    each(&FIELDS[..fields], |field| format!("max({field}) as max_{field}"))
}

fn averages(fields: usize) -> String {
    each(&FIELDS[..fields], |field| format!("avg({field}) as mean_{field}"))
}

impl Dialect {
    /// A literal of an instant, in milliseconds since 1970.
    fn instant(self, millis: i64) -> String {
        let time = chrono::DateTime::from_timestamp_millis(millis).unwrap_or_default();
        let text = |pattern: &str| time.format(pattern).to_string();
        match self {
            Tidelake => text("'%Y-%m-%dT%H:%M:%S%.3fZ'"),
            DuckDb => text("timestamp '%Y-%m-%d %H:%M:%S%.3f'"),
            ClickHouse => text("toDateTime64('%Y-%m-%d %H:%M:%S%.3f', 3, 'UTC')"),
        }
    }

    /// The beginning of the window of 1, 5 or 60 minutes that contains `ts`.
    fn window(self, minutes: u32) -> String {
        match (self, minutes) {
            (Tidelake | DuckDb, 60) => "date_trunc('hour', ts)".to_owned(),
            (Tidelake, _) => format!("date_bin(interval '{minutes} minutes', ts)"),
            (DuckDb, _) => format!("time_bucket(interval '{minutes} minutes', ts)"),
            (ClickHouse, 1) => "toStartOfMinute(ts)".to_owned(),
            (ClickHouse, 5) => "toStartOfFiveMinutes(ts)".to_owned(),
            (ClickHouse, _) => "toStartOfHour(ts)".to_owned(),
        }
    }

    /// The value of a field at the latest time of a group.
    fn last(self, field: &str) -> String {
        match self {
            Tidelake => format!("last({field})"),
            DuckDb => format!("arg_max({field}, ts)"),
            ClickHouse => format!("argMax({field}, ts)"),
        }
    }

    /// The 95th percentile of `usage_user`.
    fn percentile(self, is_exact: bool) -> &'static str {
        match (self, is_exact) {
            (Tidelake, false) => "approx_percentile_cont(0.95) within group (order by usage_user)",
            (Tidelake, true) => "percentile_cont(0.95) within group (order by usage_user)",
            (DuckDb, false) => "approx_quantile(usage_user, 0.95)",
            (DuckDb, true) => "quantile_cont(usage_user, 0.95)",
            (ClickHouse, false) => "quantileTDigest(0.95)(usage_user)",
            (ClickHouse, true) => "quantileExactInclusive(0.95)(usage_user)",
        }
    }
}

impl Question {
    /// The condition of the time range, with a condition of the hosts if they are not all.
    fn condition(&self, dialect: Dialect) -> String {
        let [from, to] = [self.span.start, self.span.end].map(|millis| dialect.instant(millis));
        let of_hosts = match self.hosts.as_slice() {
            [] => String::new(),
            [host] => format!("hostname = 'host_{host}' and "),
            hosts => {
                let texts: Vec<String> = hosts.iter().map(|host| format!("'host_{host}'")).collect();
                format!("hostname in ({}) and ", texts.join(", "))
            }
        };
        format!("{of_hosts}ts >= {from} and ts < {to}")
    }

    /// The host at a place in the list of hosts; the last one if there are fewer.
    fn host(&self, at: usize) -> String {
        let host = self.hosts.get(at).or(self.hosts.last()).copied().unwrap_or_default();
        format!("'host_{host}'")
    }

    /// The statement.
    pub fn sql(&self, dialect: Dialect) -> String {
        match self.form {
            Form::Minutes { .. }
            | Form::MaxAll { .. }
            | Form::Hours { .. }
            | Form::HighCpu { .. }
            | Form::LastPoint
            | Form::LastMinutes => self.of_tsbs(dialect),
            Form::HighByRegion => {
                format!("select region, avg(usage_user) from {TABLE} where usage_user > 50 group by region")
            }
            Form::ApproximatePercentile | Form::ExactPercentile => {
                let percentile = dialect.percentile(self.form == Form::ExactPercentile);
                format!("select hostname, {percentile} as p95 from {TABLE} group by hostname")
            }
            Form::TopHosts => format!(
                "select hostname, avg(usage_user) as mean from {TABLE} where {} group by hostname \
                 order by mean desc, hostname limit 10",
                self.condition(dialect)
            ),
            Form::LastRows => {
                format!("select * from {TABLE} where hostname = {} order by ts desc limit 10", self.host(0))
            }
            Form::HighHosts => format!("select count(distinct hostname) from {TABLE} where usage_user > 90"),
            Form::Changes => {
                // ClickHouse's lag returns 0 before the first row unless the values may be null.
                let value = if dialect == ClickHouse { "toNullable(usage_user)" } else { "usage_user" };
                format!(
                    "select count(*) from (select usage_user - lag({value}) over (partition by hostname order by ts) as change \
                     from {TABLE}) as changes where abs(change) >= 2"
                )
            }
            Form::Difference => format!(
                "select avg(a.usage_user - b.usage_user) from {TABLE} as a join {TABLE} as b on a.ts = b.ts \
                 where a.hostname = {} and b.hostname = {}",
                self.host(0),
                self.host(1)
            ),
            Form::Spread => format!(
                "select {} as five_minutes, service, max(usage_user) - min(usage_user) as spread from {TABLE} \
                 group by five_minutes, service having max(usage_user) - min(usage_user) > 90",
                dialect.window(5)
            ),
            Form::Expression => format!(
                "select {} as hour, region, avg((usage_user + usage_system) / 2.0) from {TABLE} group by hour, region",
                dialect.window(60)
            ),
            Form::Count => format!("select count(*) from {TABLE}"),
            Form::Regions => format!("select count(distinct region) from {TABLE}"),
            Form::Bounds => format!("select min(ts), max(ts) from {TABLE}"),
            Form::Histogram => format!("select floor(usage_user / 10) as tenth, count(*) from {TABLE} group by tenth"),
            Form::Classes => format!(
                "select case when usage_user < 30 then 'low' when usage_user < 70 then 'middle' else 'high' end as class, \
                 count(*) from {TABLE} group by class"
            ),
            Form::OneHour => format!("select * from {TABLE} where {}", self.condition(dialect)),
            Form::Latest => format!("select * from {TABLE} order by ts desc limit 10"),
            Form::HighCount => format!("select count(*) from {TABLE} where usage_user > 90"),
            Form::LastValues => format!(
                "select hostname, {} from {TABLE} group by hostname",
                each(&FIELDS, |field| dialect.last(field))
            ),
            Form::HoursOfAll => format!(
                "select {} as hour, hostname, avg(usage_user) from {TABLE} group by hour, hostname",
                dialect.window(60)
            ),
            Form::WholeTable => {
                format!("select {} from {TABLE}", each(&FIELDS, |field| format!("max({field}), avg({field})")))
            }
        }
    }

    /// The statement of a query type of TSBS. Tidelake's windows are TDengine's `INTERVAL`.
    fn of_tsbs(&self, dialect: Dialect) -> String {
        let condition = self.condition(dialect);
        let windows = |unit: &str, select: &str| match (dialect, unit) {
            (Tidelake, "minute") => {
                format!("select _wstart as minute, {select} from {TABLE} where {condition} interval(1m)")
            }
            (Tidelake, _) => format!("select _wstart as hour, {select} from {TABLE} where {condition} interval(1h)"),
            _ => {
                let window = dialect.window(if unit == "minute" { 1 } else { 60 });
                format!(
                    "select {window} as {unit}, {select} from {TABLE} where {condition} group by {unit} order by {unit}"
                )
            }
        };
        match self.form {
            Form::Minutes { fields, .. } => windows("minute", &maxima(fields)),
            Form::MaxAll { .. } => windows("hour", &maxima(FIELDS.len())),
            Form::Hours { fields } if dialect == Tidelake => format!(
                "select _wstart as hour, hostname, {} from {TABLE} where {condition} partition by hostname interval(1h) \
                 order by hour, hostname",
                averages(fields)
            ),
            Form::Hours { fields } => format!(
                "select {} as hour, hostname, {} from {TABLE} where {condition} group by hour, hostname order by hour, hostname",
                dialect.window(60),
                averages(fields)
            ),
            Form::HighCpu { .. } => format!("select * from {TABLE} where usage_user > 90 and {condition}"),
            Form::LastMinutes => {
                let before = format!("ts < {}", dialect.instant(self.span.end));
                match dialect {
                    Tidelake => format!(
                        "select _wstart as minute, max(usage_user) from {TABLE} where {before} interval(1m) \
                         order by minute desc limit 5"
                    ),
                    _ => format!(
                        "select {} as minute, max(usage_user) from {TABLE} where {before} group by minute \
                         order by minute desc limit 5",
                        dialect.window(1)
                    ),
                }
            }
            _ if dialect == Tidelake => {
                format!("select distinct on (hostname) * from {TABLE} order by hostname, ts desc")
            }
            // The others would sort all rows for DISTINCT ON.
            _ => format!(
                "select * from {TABLE} where (hostname, ts) in (select hostname, max(ts) from {TABLE} group by hostname)"
            ),
        }
    }
}
