//! Settings: defaults, then a TOML file, then `TIDELAKE_*` variables, then flags; all faults are listed at once.

use std::{collections::BTreeMap, fmt, net::SocketAddr, path::Path, path::PathBuf, str::FromStr, time::Duration};

use serde::Deserialize;
use tidelake_format::units;
use tidelake_ingest::decode::{line_protocol::LinePrecision, time::Implausible};

use crate::{memory, network::Network};

/// The longest that requests wait to share a log segment.
const LONGEST_FLUSH_INTERVAL: Duration = Duration::from_secs(10);

/// One layer of settings as it was written; every layer has the same names.
///
/// Values are text until [`Settings::resolve`] checks them, so that one start lists every fault of every layer.
#[derive(Debug, Clone, Default, PartialEq, clap::Args, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Layer {
    /// Where the data is: a directory, or s3://bucket/prefix [default: ./tidelake-data]
    #[arg(long, env = "TIDELAKE_STORE", value_name = "URL")]
    pub(crate) store: Option<Text>,
    /// An option of the object store as name=value, such as endpoint=http://127.0.0.1:9000; may repeat
    #[arg(long = "store-option", value_name = "NAME=VALUE", env = "TIDELAKE_STORE_OPTIONS", value_delimiter = ',')]
    #[serde(skip)]
    pub(crate) store_option: Vec<String>,
    /// The same options as a table of the file
    #[arg(skip)]
    pub(crate) store_options: BTreeMap<String, Text>,
    /// A directory of a local disk that keeps what queries read from a store over a network [default: none]
    #[arg(long, env = "TIDELAKE_DISK_CACHE", value_name = "DIR")]
    pub(crate) disk_cache: Option<Text>,
    /// The most that the disk cache holds, at least 16MiB [default: 10GiB]
    #[arg(long, env = "TIDELAKE_DISK_CACHE_SIZE", value_name = "SIZE")]
    pub(crate) disk_cache_size: Option<Text>,
    /// Address of HTTP and Flight SQL [default: 127.0.0.1:8086]
    #[arg(long, env = "TIDELAKE_LISTEN", value_name = "ADDR")]
    pub(crate) listen: Option<Text>,
    /// A second address that serves Flight SQL alone
    #[arg(long, env = "TIDELAKE_FLIGHT_LISTEN", value_name = "ADDR")]
    pub(crate) flight_listen: Option<Text>,
    /// Host names that requests may name beside addresses, localhost and this machine's own, separated by commas; * is any
    /// [default: none with auth off, any with it on]
    #[arg(long, env = "TIDELAKE_ALLOWED_HOSTS", value_name = "NAMES")]
    pub(crate) allowed_hosts: Option<Text>,
    /// Other origins whose web pages may use this server, each as its scheme and host, separated by commas [default: none]
    #[arg(long, env = "TIDELAKE_CORS_ORIGINS", value_name = "ORIGINS")]
    pub(crate) cors_origins: Option<Text>,
    /// The certificate of every port but UDP's, and those that signed it, as a file of PEM; with it they speak TLS alone
    /// [default: none]
    #[arg(long, env = "TIDELAKE_TLS_CERTIFICATE", value_name = "FILE")]
    pub(crate) tls_certificate: Option<Text>,
    /// Its private key, as a file of PEM
    #[arg(long, env = "TIDELAKE_TLS_KEY", value_name = "FILE")]
    pub(crate) tls_key: Option<Text>,
    /// Who signs the certificates of clients, as a file of PEM; with it clients need one [default: none]
    #[arg(long, env = "TIDELAKE_TLS_CLIENT_CA", value_name = "FILE")]
    pub(crate) tls_client_ca: Option<Text>,
    /// Whether requests say who sends them: on, off, or auto, which is on where an address is not this machine's own
    /// [default: auto]
    #[arg(long, env = "TIDELAKE_AUTH", value_name = "WHEN")]
    pub(crate) auth: Option<Text>,
    /// A file with the password of the first user, `admin`, who is made where there is none; else TIDELAKE_ADMIN_PASSWORD has it
    /// [default: none]
    #[arg(long, env = "TIDELAKE_ADMIN_PASSWORD_FILE", value_name = "FILE")]
    pub(crate) admin_password_file: Option<Text>,
    /// Address that takes line protocol in UDP datagrams, unacknowledged [default: none]
    #[arg(long, env = "TIDELAKE_UDP_LISTEN", value_name = "ADDR")]
    pub(crate) udp_listen: Option<Text>,
    /// The database of those lines [default: udp]
    #[arg(long, env = "TIDELAKE_UDP_DATABASE", value_name = "NAME")]
    pub(crate) udp_database: Option<Text>,
    /// The unit of their timestamps: ns, us, ms, s, m or h [default: ns]
    #[arg(long, env = "TIDELAKE_UDP_PRECISION", value_name = "UNIT")]
    pub(crate) udp_precision: Option<Text>,
    /// Whether a write to an unknown database creates it [default: true]
    #[arg(long, env = "TIDELAKE_AUTO_CREATE_DATABASE", value_name = "BOOL")]
    pub(crate) auto_create_database: Option<Text>,
    /// Whether rows are refused, stored with a warning (warn) or stored (accept) whose times seem to be in another unit than
    /// they were sent in, such as seconds as nanoseconds [default: refuse]
    #[arg(long, env = "TIDELAKE_IMPLAUSIBLE_TIMES", value_name = "RULE")]
    pub(crate) implausible_times: Option<Text>,
    /// The largest request body after decompression [default: 64MiB]
    #[arg(long, env = "TIDELAKE_MAX_BODY", value_name = "SIZE")]
    pub(crate) max_body: Option<Text>,
    /// The longest line of line protocol [default: 1MiB]
    #[arg(long, env = "TIDELAKE_MAX_LINE", value_name = "SIZE")]
    pub(crate) max_line: Option<Text>,
    /// Decoded rows of one bulk ingest, which becomes visible whole [default: an eighth of the
    /// memory, at most 1GiB]
    #[arg(long, env = "TIDELAKE_MAX_BULK", value_name = "SIZE")]
    pub(crate) max_bulk: Option<Text>,
    /// Tables of a database beyond which rows create no more [default: 10000]
    #[arg(long, env = "TIDELAKE_MAX_TABLES", value_name = "COUNT")]
    pub(crate) max_tables: Option<Text>,
    /// Columns of a table beyond which rows add no more, at most 4096 [default: 1024]
    #[arg(long, env = "TIDELAKE_MAX_COLUMNS", value_name = "COUNT")]
    pub(crate) max_columns: Option<Text>,
    /// Connections at once; more wait to be accepted [default: 4096]
    #[arg(long, env = "TIDELAKE_MAX_CONNECTIONS", value_name = "COUNT")]
    pub(crate) max_connections: Option<Text>,
    /// Connections of one address, and of one user; more are closed at once [default: half of max_connections]
    #[arg(long, env = "TIDELAKE_MAX_CLIENT_CONNECTIONS", value_name = "COUNT")]
    pub(crate) max_client_connections: Option<Text>,
    /// How long a connection of HTTP/2 may stay open without a request [default: 5m]
    #[arg(long, env = "TIDELAKE_IDLE_TIMEOUT", value_name = "DURATION")]
    pub(crate) idle_timeout: Option<Text>,
    /// Networks of load balancers that begin each connection with a header of the PROXY protocol, version 1 or 2, such as
    /// 10.0.0.0/8, separated by commas; it says the client's address [default: none]
    #[arg(long, env = "TIDELAKE_PROXY_PROTOCOL", value_name = "NETWORKS")]
    pub(crate) proxy_protocol: Option<Text>,
    /// All headers of one request, at least 8KiB [default: 64KiB]
    #[arg(long, env = "TIDELAKE_MAX_HEADER", value_name = "SIZE")]
    pub(crate) max_header: Option<Text>,
    /// How long a client may take to send the headers of a request, from the end of the one before [default: 60s]
    #[arg(long, env = "TIDELAKE_HEADER_TIMEOUT", value_name = "DURATION")]
    pub(crate) header_timeout: Option<Text>,
    /// How long a client may pause while it sends a body [default: 30s]
    #[arg(long, env = "TIDELAKE_BODY_TIMEOUT", value_name = "DURATION")]
    pub(crate) body_timeout: Option<Text>,
    /// Memory of this process, which the other settings of memory are shares of [default: the smallest limit of the control
    /// groups that it is in, else that of the machine]
    #[arg(long, env = "TIDELAKE_MEMORY", value_name = "SIZE")]
    pub(crate) memory: Option<Text>,
    /// Rows that wait to be stored, at most; beyond it writers are told to come back [default: an eighth of the memory,
    /// at most 256MiB]
    #[arg(long, env = "TIDELAKE_INGEST_BUFFER", value_name = "SIZE")]
    pub(crate) ingest_buffer: Option<Text>,
    /// Bodies of statements and messages of Flight that are being read, at most; beyond it clients are told to come back
    /// [default: an eighth of the memory, at most 256MiB]
    #[arg(long, env = "TIDELAKE_STATEMENT_BUFFER", value_name = "SIZE")]
    pub(crate) statement_buffer: Option<Text>,
    /// How long requests that keep coming share a log segment, and wait for it [default: 0s on a directory, 1s
    /// elsewhere]
    #[arg(long, env = "TIDELAKE_FLUSH_INTERVAL", value_name = "DURATION")]
    pub(crate) flush_interval: Option<Text>,
    /// How often the log is folded into data files [default: 5s]
    #[arg(long, env = "TIDELAKE_FOLD_INTERVAL", value_name = "DURATION")]
    pub(crate) fold_interval: Option<Text>,
    /// Memory of all queries together; they spill beyond it [default: three eighths of the memory]
    #[arg(long, env = "TIDELAKE_QUERY_MEMORY", value_name = "SIZE")]
    pub(crate) query_memory: Option<Text>,
    /// The longest a query may take [default: 5m]
    #[arg(long, env = "TIDELAKE_QUERY_TIMEOUT", value_name = "DURATION")]
    pub(crate) query_timeout: Option<Text>,
    /// Queries that run at once; more wait [default: 16, less where memory is below 2GiB]
    #[arg(long, env = "TIDELAKE_QUERY_CONCURRENCY", value_name = "COUNT")]
    pub(crate) query_concurrency: Option<Text>,
    /// Queries that wait for their turn; more are told to come back [default: 160]
    #[arg(long, env = "TIDELAKE_QUERY_QUEUE", value_name = "COUNT")]
    pub(crate) query_queue: Option<Text>,
    /// Queries that take longer are logged, 0s for none [default: 10s]
    #[arg(long, env = "TIDELAKE_SLOW_QUERY", value_name = "DURATION")]
    pub(crate) slow_query: Option<Text>,
    /// Decoded log segments kept in memory [default: an eighth of the memory, at most 256MiB]
    #[arg(long, env = "TIDELAKE_TAIL_CACHE", value_name = "SIZE")]
    pub(crate) tail_cache: Option<Text>,
    /// Decoded log segments that one query may read; beyond it queries are refused until more is folded [default: a quarter of
    /// the memory]
    #[arg(long, env = "TIDELAKE_TAIL_MEMORY", value_name = "SIZE")]
    pub(crate) tail_memory: Option<Text>,
    /// Memory of folds and merges together, at least 64MiB [default: a quarter of the memory]
    #[arg(long, env = "TIDELAKE_COMPACT_MEMORY", value_name = "SIZE")]
    pub(crate) compact_memory: Option<Text>,
    /// How old the state may be that a query without a token sees [default: 0s on a directory, 1s elsewhere]
    #[arg(long, env = "TIDELAKE_MAX_STALENESS", value_name = "DURATION")]
    pub(crate) max_staleness: Option<Text>,
    /// Whether queries go on without quarantined log segments, and do not fail [default: false]
    #[arg(long, env = "TIDELAKE_ALLOW_QUARANTINED", value_name = "BOOL")]
    pub(crate) allow_quarantined: Option<Text>,
    /// Format of the log on standard error: text or json [default: text]
    #[arg(long, env = "TIDELAKE_LOG_FORMAT", value_name = "FORMAT")]
    pub(crate) log_format: Option<Text>,
    /// What is logged, such as info or tidelake_ingest=debug [default: info]
    #[arg(long, env = "TIDELAKE_LOG", value_name = "FILTER")]
    pub(crate) log: Option<Text>,
    /// Collector of OpenTelemetry that traces are sent to, by OTLP over gRPC, such as http://localhost:4317 [default: none]
    #[arg(long, env = "TIDELAKE_TRACE_ENDPOINT", value_name = "URL")]
    pub(crate) trace_endpoint: Option<Text>,
    /// The part of the requests that are traced where the caller does not say, 0 to 1 [default: 1]
    #[arg(long, env = "TIDELAKE_TRACE_RATIO", value_name = "RATIO")]
    pub(crate) trace_ratio: Option<Text>,
}

/// A setting as written: text, or a TOML number or boolean.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Text(pub(crate) String);

impl FromStr for Text {
    type Err = std::convert::Infallible;

    fn from_str(s: &str) -> Result<Self, Self::Err> {
        Ok(Text(s.to_owned()))
    }
}

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        match toml::Value::deserialize(d)? {
            toml::Value::String(s) => Ok(Text(s)),
            toml::Value::Integer(i) => Ok(Text(i.to_string())),
            toml::Value::Boolean(b) => Ok(Text(b.to_string())),
            other => Err(serde::de::Error::custom(format!("expected text, a number or a boolean, found {other}"))),
        }
    }
}

/// Names that are separated by commas.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Names(pub(crate) Vec<String>);

impl fmt::Display for Names {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join(","))
    }
}

/// The files that TLS is made of, all PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TlsFiles {
    /// The server's certificate, then those that it was signed by.
    pub(crate) certificate: PathBuf,
    /// Its private key.
    pub(crate) key: PathBuf,
    /// Who signs the certificates of clients; with it a client needs one.
    pub(crate) client_ca: Option<PathBuf>,
}

/// Networks of addresses, as they are written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Networks(pub(crate) Vec<(String, Network)>);

impl fmt::Display for Networks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let written: Vec<&str> = self.0.iter().map(|(text, _)| text.as_str()).collect();
        f.write_str(&written.join(","))
    }
}

/// How log lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// Whether requests have to say who sends them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Auth {
    /// Where an address is not this machine's own.
    Auto,
    /// Always.
    On,
    /// Never: whoever reaches the server may do everything.
    Off,
}

/// Checked settings of a server.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Settings {
    /// The file that settings are from although nobody named it.
    pub(crate) found_file: Option<PathBuf>,
    pub(crate) store: String,
    pub(crate) store_options: Vec<(String, String)>,
    pub(crate) disk_cache: Option<PathBuf>,
    pub(crate) disk_cache_size: usize,
    pub(crate) listen: SocketAddr,
    pub(crate) flight_listen: Option<SocketAddr>,
    pub(crate) allowed_hosts: Names,
    pub(crate) cors_origins: Names,
    pub(crate) tls: Option<TlsFiles>,
    pub(crate) auth: Auth,
    pub(crate) admin_password_file: Option<PathBuf>,
    pub(crate) udp_listen: Option<SocketAddr>,
    pub(crate) udp_database: String,
    pub(crate) udp_precision: LinePrecision,
    pub(crate) auto_create_database: bool,
    pub(crate) implausible_times: Implausible,
    pub(crate) max_body: usize,
    pub(crate) max_line: usize,
    pub(crate) max_bulk: usize,
    pub(crate) max_tables: usize,
    pub(crate) max_columns: usize,
    pub(crate) max_connections: usize,
    pub(crate) max_client_connections: usize,
    pub(crate) idle_timeout: Duration,
    pub(crate) proxy_protocol: Networks,
    pub(crate) max_header: usize,
    pub(crate) header_timeout: Duration,
    pub(crate) body_timeout: Duration,
    pub(crate) memory: usize,
    pub(crate) ingest_buffer: usize,
    pub(crate) statement_buffer: usize,
    pub(crate) flush_interval: Option<Duration>,
    pub(crate) fold_interval: Duration,
    pub(crate) query_memory: usize,
    pub(crate) query_timeout: Duration,
    pub(crate) query_concurrency: usize,
    pub(crate) query_queue: usize,
    pub(crate) slow_query: Duration,
    pub(crate) tail_cache: usize,
    pub(crate) tail_memory: usize,
    pub(crate) compact_memory: usize,
    pub(crate) max_staleness: Option<Duration>,
    pub(crate) allow_quarantined: bool,
    pub(crate) log_format: LogFormat,
    pub(crate) log: String,
    pub(crate) trace_endpoint: Option<String>,
    pub(crate) trace_ratio: f64,
}

/// A value as SHOW VARIABLES tells it; nothing for what is not set.
trait Told {
    fn told(&self) -> String;
}

impl<T: Told> Told for Option<T> {
    fn told(&self) -> String {
        self.as_ref().map_or(String::new(), T::told)
    }
}

macro_rules! told_as {
    ($format:literal: $($type:ty),*) => {
        $(impl Told for $type {
            fn told(&self) -> String {
                format!($format, self)
            }
        })*
    };
}

told_as!("{}": String, usize, f64, bool, SocketAddr, Names, Networks);
told_as!("{:?}": Duration);

impl Told for PathBuf {
    fn told(&self) -> String {
        self.display().to_string()
    }
}

impl Told for Auth {
    fn told(&self) -> String {
        format!("{self:?}").to_lowercase()
    }
}

impl Told for Implausible {
    fn told(&self) -> String {
        format!("{self:?}").to_lowercase()
    }
}

impl Told for LogFormat {
    fn told(&self) -> String {
        format!("{self:?}").to_lowercase()
    }
}

impl Told for LinePrecision {
    fn told(&self) -> String {
        format!("{self:?}").to_lowercase()
    }
}

/// Every fault of the settings, one a line.
#[derive(Debug)]
pub(crate) struct Faults(Vec<String>);

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of the settings cannot be used:", self.0.len())?;
        self.0.iter().try_for_each(|fault| write!(f, "\n  {fault}"))
    }
}

impl std::error::Error for Faults {}

impl Settings {
    /// Merges the file (if any) under the flags and checks everything.
    ///
    /// # Errors
    /// All faults together: an unreadable file, unknown names, values that do not parse or are out of range.
    pub(crate) fn resolve(file: Option<&Path>, flags: Layer) -> Result<Self, Faults> {
        let mut faults = Vec::new();
        let below = file.map(|path| read_layer(path, &mut faults)).unwrap_or_default();
        let mut check = Checker { faults: &mut faults };
        let pick = |flag: &Option<Text>, file: &Option<Text>| flag.clone().or_else(|| file.clone()).map(|t| t.0);

        let mut store_options: Vec<_> = below.store_options.into_iter().map(|(k, v)| (k, v.0)).collect();
        for option in &flags.store_option {
            match store_option(option) {
                Ok(option) => store_options.push(option),
                Err(found) => check.fault("store-option", "name=value", found),
            }
        }
        /// The value of the flag, else of the file, else the default.
        macro_rules! setting {
            ($name:ident, $default:expr, $parse:expr) => {
                check.or(stringify!($name), pick(&flags.$name, &below.$name), $default, $parse)
            };
        }
        let memory_bytes = setting!(memory, &memory::found().to_string(), units::size);
        let memory = memory::Limit::of(memory_bytes);
        let mut max_columns = setting!(max_columns, "1024", count);
        if !(3..=4_096).contains(&max_columns) {
            check.fault("max_columns", "3 to 4096", &max_columns.to_string());
            max_columns = 1_024;
        }
        let mut max_header = setting!(max_header, "64KiB", units::size);
        if !(8 << 10..=16 << 20).contains(&max_header) {
            check.fault("max_header", "8KiB to 16MiB", &max_header.to_string());
            max_header = 64 << 10;
        }
        let max_connections = setting!(max_connections, "4096", count);
        let share = (max_connections / 2).max(1).to_string();
        let max_client_connections = setting!(max_client_connections, &share, count);
        let mut idle_timeout = setting!(idle_timeout, "5m", units::duration);
        if idle_timeout < Duration::from_secs(1) {
            check.fault("idle_timeout", "1s or more", &format!("{idle_timeout:?}"));
            idle_timeout = Duration::from_secs(1);
        }
        let mut disk_cache_size = setting!(disk_cache_size, "10GiB", units::size);
        if disk_cache_size < 16 << 20 {
            check.fault("disk_cache_size", "16MiB or more", &disk_cache_size.to_string());
            disk_cache_size = 16 << 20;
        }
        let mut flush_interval = pick(&flags.flush_interval, &below.flush_interval)
            .map(|v| check.or("flush_interval", Some(v), "0s", units::duration));
        // Who waits for an answer gives up after twice as long.
        if let Some(found) = flush_interval.take_if(|found| *found > LONGEST_FLUSH_INTERVAL) {
            check.fault("flush_interval", "at most 10s", &format!("{found:?}"));
        }
        let path = |flag, file| pick(flag, file).filter(|text| !text.is_empty()).map(PathBuf::from);
        let tls_files = (
            path(&flags.tls_certificate, &below.tls_certificate),
            path(&flags.tls_key, &below.tls_key),
            path(&flags.tls_client_ca, &below.tls_client_ca),
        );
        let tls = match tls_files {
            (Some(certificate), Some(key), client_ca) => Some(TlsFiles { certificate, key, client_ca }),
            (None, None, None) => None,
            (certificate, key, _) => {
                for (name, file) in [("tls_certificate", certificate), ("tls_key", key)] {
                    if file.is_none() {
                        check.fault(name, "a file of PEM, as other settings of TLS are there", "none");
                    }
                }
                None
            }
        };
        let settings = Settings {
            found_file: None,
            tls,
            disk_cache: pick(&flags.disk_cache, &below.disk_cache).map(PathBuf::from),
            disk_cache_size,
            max_columns,
            max_header,
            max_line: setting!(max_line, "1MiB", units::size),
            memory: memory_bytes,
            max_bulk: setting!(max_bulk, &memory.share(1, 8, 1 << 30).to_string(), units::size),
            max_tables: setting!(max_tables, "10000", count),
            max_connections,
            max_client_connections,
            idle_timeout,
            proxy_protocol: setting!(proxy_protocol, "", networks),
            header_timeout: setting!(header_timeout, "60s", units::duration),
            body_timeout: setting!(body_timeout, "30s", units::duration),
            query_queue: setting!(query_queue, "160", count),
            slow_query: setting!(slow_query, "10s", units::duration),
            store: pick(&flags.store, &below.store).unwrap_or_else(|| "./tidelake-data".to_owned()),
            store_options,
            listen: setting!(listen, "127.0.0.1:8086", address),
            flight_listen: pick(&flags.flight_listen, &below.flight_listen)
                .map(|v| check.or("flight_listen", Some(v), "127.0.0.1:0", address)),
            udp_listen: pick(&flags.udp_listen, &below.udp_listen)
                .map(|v| check.or("udp_listen", Some(v), "127.0.0.1:0", address)),
            allowed_hosts: setting!(allowed_hosts, "", hosts),
            cors_origins: setting!(cors_origins, "", origins),
            auth: setting!(auth, "auto", auth),
            admin_password_file: path(&flags.admin_password_file, &below.admin_password_file),
            udp_database: setting!(udp_database, "udp", name),
            udp_precision: setting!(udp_precision, "ns", line_precision),
            auto_create_database: setting!(auto_create_database, "true", boolean),
            implausible_times: setting!(implausible_times, "refuse", implausible),
            max_body: setting!(max_body, "64MiB", units::size),
            ingest_buffer: setting!(ingest_buffer, &memory.share(1, 8, 256 << 20).to_string(), units::size),
            statement_buffer: setting!(statement_buffer, &memory.share(1, 8, 256 << 20).to_string(), units::size),
            flush_interval,
            fold_interval: setting!(fold_interval, "5s", units::duration),
            query_memory: setting!(query_memory, &memory.share(3, 8, usize::MAX).to_string(), units::size),
            tail_memory: setting!(tail_memory, &memory.share(1, 4, usize::MAX).to_string(), units::size),
            compact_memory: setting!(
                compact_memory,
                &memory.share(1, 4, usize::MAX).max(64 << 20).to_string(),
                units::size
            ),
            query_timeout: setting!(query_timeout, "5m", units::duration),
            query_concurrency: setting!(query_concurrency, &memory.queries().to_string(), count),
            tail_cache: setting!(tail_cache, &memory.share(1, 8, 256 << 20).to_string(), units::size),
            max_staleness: pick(&flags.max_staleness, &below.max_staleness)
                .map(|v| check.or("max_staleness", Some(v), "0s", units::duration)),
            allow_quarantined: setting!(allow_quarantined, "false", boolean),
            log_format: setting!(log_format, "text", log_format),
            log: pick(&flags.log, &below.log).unwrap_or_else(|| "info".to_owned()),
            trace_endpoint: pick(&flags.trace_endpoint, &below.trace_endpoint)
                .filter(|url| !url.is_empty())
                .map(|v| check.or("trace_endpoint", Some(v), "http://localhost:4317", endpoint)),
            trace_ratio: setting!(trace_ratio, "1", ratio),
        };
        if faults.is_empty() { Ok(settings) } else { Err(Faults(faults)) }
    }

    /// The settings in force, by name, as SHOW VARIABLES tells them: sizes in bytes, and no secrets.
    pub(crate) fn variables(&self) -> Vec<(String, String)> {
        macro_rules! told {
            ($($name:ident),* $(,)?) => { vec![$((stringify!($name).to_owned(), Told::told(&self.$name))),*] };
        }
        let mut told = told![
            store,
            disk_cache,
            disk_cache_size,
            listen,
            flight_listen,
            allowed_hosts,
            cors_origins,
            auth,
            admin_password_file,
            udp_listen,
            udp_database,
            udp_precision,
            auto_create_database,
            implausible_times,
            max_body,
            max_line,
            max_bulk,
            max_tables,
            max_columns,
            max_connections,
            max_client_connections,
            idle_timeout,
            proxy_protocol,
            max_header,
            header_timeout,
            body_timeout,
            memory,
            ingest_buffer,
            statement_buffer,
            flush_interval,
            fold_interval,
            query_memory,
            query_timeout,
            query_concurrency,
            query_queue,
            slow_query,
            tail_cache,
            tail_memory,
            compact_memory,
            max_staleness,
            allow_quarantined,
            log_format,
            log,
            trace_endpoint,
            trace_ratio,
        ];
        for (name, value) in &mut told {
            if ["store", "trace_endpoint"].contains(&name.as_str()) {
                *value = without_credentials(value);
            }
        }
        let tls = self.tls.as_ref();
        told.push(("tls_certificate".to_owned(), tls.map(|tls| tls.certificate.clone()).told()));
        told.push(("tls_key".to_owned(), tls.map(|tls| tls.key.clone()).told()));
        told.push(("tls_client_ca".to_owned(), tls.and_then(|tls| tls.client_ca.clone()).told()));
        for (name, value) in &self.store_options {
            let is_secret =
                ["secret", "token", "password", "key"].iter().any(|word| name.to_lowercase().contains(word));
            let value = if is_secret { "…".to_owned() } else { value.clone() };
            told.push((format!("store_options.{name}"), value));
        }
        told.sort();
        told
    }

    /// Whether requests have to say who sends them.
    pub(crate) fn asks_who(&self) -> bool {
        match self.auth {
            Auth::On => true,
            Auth::Off => false,
            Auth::Auto => {
                let addresses = [Some(self.listen), self.flight_listen];
                addresses.into_iter().flatten().any(|address| !address.ip().to_canonical().is_loopback())
            }
        }
    }
}

/// Where settings are read from when `--config` names no file: `tidelake.toml` here, if it exists.
pub(crate) fn default_file() -> Option<PathBuf> {
    let path = PathBuf::from("tidelake.toml");
    path.is_file().then_some(path)
}

fn read_layer(path: &Path, faults: &mut Vec<String>) -> Layer {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(e) => {
            faults.push(format!("{}: {e}", path.display()));
            return Layer::default();
        }
    };
    // Names are checked one by one: serde would stop at the first unknown one.
    let mut table: toml::Table = match text.parse() {
        Ok(table) => table,
        Err(e) => {
            // Without the line itself: it may hold a secret.
            let begun = e.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
            let line = begun.matches('\n').count() + 1;
            faults.push(format!("{}: line {line}: {}", path.display(), e.message()));
            return Layer::default();
        }
    };
    let names: Vec<String> = table.keys().cloned().collect();
    for name in names {
        let one = toml::Table::from_iter([(name.clone(), table[&name].clone())]);
        if let Err(e) = one.try_into::<Layer>() {
            faults.push(format!("{}: {name}: {}", path.display(), e.message()));
            table.remove(&name);
        }
    }
    table.try_into().unwrap_or_default()
}

struct Checker<'a> {
    faults: &'a mut Vec<String>,
}

impl Checker<'_> {
    fn fault(&mut self, name: &str, expected: &str, found: &str) {
        self.faults.push(format!("{name}: expected {expected}, found {:?}", without_credentials(found)));
    }

    fn or<T>(
        &mut self,
        name: &str,
        value: Option<String>,
        default: &str,
        parse: fn(&str) -> Result<T, &'static str>,
    ) -> T {
        let fallback = || parse(default).unwrap_or_else(|e| panic!("the default of {name} is {e}"));
        match value {
            None => fallback(),
            Some(value) => parse(&value).unwrap_or_else(|expected| {
                self.fault(name, expected, &value);
                fallback()
            }),
        }
    }
}

fn address(s: &str) -> Result<SocketAddr, &'static str> {
    s.parse().map_err(|_| "an address such as 127.0.0.1:8086")
}

fn boolean(s: &str) -> Result<bool, &'static str> {
    s.parse().map_err(|_| "true or false")
}

fn count(s: &str) -> Result<usize, &'static str> {
    s.parse().ok().filter(|n| *n > 0).ok_or("a whole number above 0")
}

fn ratio(s: &str) -> Result<f64, &'static str> {
    s.parse().ok().filter(|ratio| (0.0..=1.0).contains(ratio)).ok_or("a number from 0 to 1")
}

fn endpoint(s: &str) -> Result<String, &'static str> {
    let url = url::Url::parse(s).ok().filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
    url.map(|_| s.to_owned()).ok_or("a URL such as http://localhost:4317")
}

/// An option of a store, `name=value`. What is none may be a part of a secret, so it is not shown.
///
/// # Errors
/// What was found, without its text.
pub(crate) fn store_option(text: &str) -> Result<(String, String), &'static str> {
    let (name, value) = text.split_once('=').ok_or("a text without '=', which is not shown as it may be secret")?;
    Ok((name.to_owned(), value.to_owned()))
}

/// A URL without the user, the password and the query that it may have; any other text as it is.
pub(crate) fn without_credentials(text: &str) -> String {
    let Ok(mut url) = url::Url::parse(text) else { return text.to_owned() };
    let has_user = !url.username().is_empty() || url.password().is_some();
    if !has_user && url.query().is_none() {
        return text.to_owned();
    }
    if has_user {
        // They fail for URLs that cannot have a user.
        let _ = url.set_username("***");
        let _ = url.set_password(None);
    }
    if url.query().is_some() {
        url.set_query(Some("***"));
    }
    url.into()
}

/// The parts of a list, each read by `part`.
fn list(s: &str, part: impl Fn(&str) -> Option<String>) -> Option<Names> {
    s.split(',').map(str::trim).filter(|text| !text.is_empty()).map(part).collect::<Option<_>>().map(Names)
}

fn hosts(s: &str) -> Result<Names, &'static str> {
    let is_of_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
    let host = |text: &str| (text == "*" || text.bytes().all(is_of_name)).then(|| text.to_ascii_lowercase());
    list(s, host).ok_or("names of hosts without scheme and port, separated by commas, such as db.example,db.internal")
}

fn networks(s: &str) -> Result<Networks, &'static str> {
    let network = |text: &str| Some((text.to_owned(), text.parse().ok()?));
    let written = s.split(',').map(str::trim).filter(|text| !text.is_empty());
    let networks = written.map(network).collect::<Option<_>>().map(Networks);
    networks.ok_or("networks of addresses, separated by commas, such as 10.0.0.0/8,2001:db8::/32")
}

fn origins(s: &str) -> Result<Names, &'static str> {
    let origin = |text: &str| {
        let url = url::Url::parse(text).ok().filter(|url| matches!(url.scheme(), "http" | "https"))?;
        let origin = url.origin().ascii_serialization();
        // Nothing but the origin: no path, no user.
        (url.as_str().strip_suffix('/') == Some(origin.as_str())).then_some(origin)
    };
    list(s, origin)
        .ok_or("origins of web pages, separated by commas, such as https://app.example,http://localhost:3000")
}

fn name(s: &str) -> Result<String, &'static str> {
    if s.is_empty() { Err("a name") } else { Ok(s.to_owned()) }
}

fn line_precision(s: &str) -> Result<LinePrecision, &'static str> {
    s.parse().map_err(|_| "ns, us, ms, s, m or h")
}

fn implausible(s: &str) -> Result<Implausible, &'static str> {
    s.parse().map_err(|_| "refuse, warn or accept")
}

fn auth(s: &str) -> Result<Auth, &'static str> {
    match s {
        "auto" => Ok(Auth::Auto),
        "on" => Ok(Auth::On),
        "off" => Ok(Auth::Off),
        _ => Err("auto, on or off"),
    }
}

fn log_format(s: &str) -> Result<LogFormat, &'static str> {
    match s {
        "text" => Ok(LogFormat::Text),
        "json" => Ok(LogFormat::Json),
        _ => Err("text or json"),
    }
}

#[cfg(test)]
mod tests;
