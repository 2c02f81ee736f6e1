//! The declarations, in the order of the help.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use super::{
    About, Auth, Declared,
    DefaultValue::{self, Text, Unset},
    LogFormat, Names, Networks, Range, Setting, Share, kinds,
};
use crate::times::{Implausible, LinePrecision};

/// Declares settings: identifier, type and kind of the value, placeholder in the help, and attributes. The identifier
/// in lower case is the name in the file; flag and variable are derived from it.
macro_rules! settings {
    ($($id:ident: $type:ty = $kind:ident $value_name:literal {
        $(flag: $flag:literal,)?
        default: $default:expr,
        $(range: $range:expr,)?
        help: $help:literal,
        $(raised: $raised:literal,
        lowered: $lowered:literal,)?
    })*) => {
        $(
            #[doc = concat!($help, ".")]
            pub static $id: Setting<$type> = Setting {
                about: About {
                    name: {
                        const BYTES: [u8; stringify!($id).len()] = lower_case(stringify!($id), b'_');
                        text(&BYTES)
                    },
                    flag: settings!(@first $($flag,)? {
                        const BYTES: [u8; stringify!($id).len()] = lower_case(stringify!($id), b'-');
                        text(&BYTES)
                    }),
                    variable: concat!("TIDELAKE_", stringify!($id)),
                    value_name: $value_name,
                    default: $default,
                    range: settings!(@first $($range,)? Range::ANY),
                    help: $help,
                    raised: settings!(@first $($raised,)? ""),
                    lowered: settings!(@first $($lowered,)? ""),
                },
                kind: kinds::$kind,
            };
        )*

        /// Every setting.
        pub static ALL: &[&dyn Declared] = &[$(&$id),*];
    };
    (@first $first:expr) => { $first };
    (@first $first:expr, $fallback:expr) => { $first };
}

/// Converts an upper-case name to lower case and replaces `_` by `joint`.
const fn lower_case<const N: usize>(name: &str, joint: u8) -> [u8; N] {
    let mut lower = [0; N];
    let mut at = 0;
    while at < N {
        lower[at] = match name.as_bytes()[at] {
            b'_' => joint,
            letter => letter.to_ascii_lowercase(),
        };
        at += 1;
    }
    lower
}

const fn text(bytes: &'static [u8]) -> &'static str {
    match str::from_utf8(bytes) {
        Ok(text) => text,
        Err(_) => panic!("names of settings are ASCII"),
    }
}

/// Default of settings without a value.
const NONE: DefaultValue = Unset("none");
/// Default that depends on whether the store is a directory or remote.
const BY_STORE: DefaultValue = Unset("0s on a directory, 1s elsewhere");
/// Default of buffers and caches.
const BUFFER: DefaultValue = DefaultValue::Share(Share::of_memory(1, 8).at_most_mib(256));

settings! {
    STORE: String = PLACE "URL" {
        default: Text("./tidelake-data"),
        help: "Where the data is: a directory, or s3://bucket/prefix",
    }
    STORE_OPTIONS: Option<(String, String)> = OPTION "NAME=VALUE" {
        flag: "store-option",
        default: NONE,
        help: "An option of the object store as name=value, such as endpoint=http://127.0.0.1:9000; the flag may be repeated",
    }
    DISK_CACHE: Option<PathBuf> = DIRECTORY "DIR" {
        default: NONE,
        help: "A directory of a local disk for a cache of what queries read from a store over a network",
    }
    DISK_CACHE_SIZE: usize = SIZE "SIZE" {
        default: Text("10GiB"),
        range: Range::at_least("16MiB"),
        help: "The size of the disk cache; the oldest blocks are replaced",
        raised: "more space on the disk",
        lowered: "more GET requests to the store",
    }
    LISTEN: SocketAddr = ADDRESS "ADDR" {
        default: Text("127.0.0.1:8086"),
        help: "Address of HTTP and Flight SQL",
    }
    FLIGHT_LISTEN: Option<SocketAddr> = OPTIONAL_ADDRESS "ADDR" {
        default: NONE,
        help: "A second address, for Flight SQL alone",
    }
    ALLOWED_HOSTS: Names = HOSTS "NAMES" {
        default: Unset("none with auth off, any with it on"),
        help: "Host names that requests may name besides addresses, localhost and the machine's own name, separated by commas; \
               * allows any name",
    }
    CORS_ORIGINS: Names = ORIGINS "ORIGINS" {
        default: NONE,
        help: "Other origins whose web pages may use the server, each as scheme and host, separated by commas",
    }
    TLS_CERTIFICATE: Option<PathBuf> = FILE "FILE" {
        default: NONE,
        help: "A PEM file with the server's certificate, followed by the certificates that signed it; with it every TCP port \
               accepts TLS only",
    }
    TLS_KEY: Option<PathBuf> = FILE "FILE" {
        default: NONE,
        help: "A PEM file with the private key of the server's certificate",
    }
    TLS_CLIENT_CA: Option<PathBuf> = FILE "FILE" {
        default: NONE,
        help: "A PEM file with the authorities that sign clients' certificates; with it a client needs a certificate",
    }
    AUTH: Auth = AUTH "WHEN" {
        default: Text("auto"),
        help: "Whether requests need credentials: on, off, or auto, which is on where an address is not a loopback address",
    }
    ADMIN_PASSWORD_FILE: Option<PathBuf> = FILE "FILE" {
        default: NONE,
        help: "A file with the password of the first user, `admin`, who is created where no user exists; without it \
               TIDELAKE_ADMIN_PASSWORD has the password",
    }
    UDP_LISTEN: Option<SocketAddr> = OPTIONAL_ADDRESS "ADDR" {
        default: NONE,
        help: "Address that accepts line protocol in UDP datagrams, without acknowledgement",
    }
    UDP_DATABASE: String = NAME "NAME" {
        default: Text("udp"),
        help: "The database of lines in UDP datagrams",
    }
    UDP_PRECISION: LinePrecision = PRECISION "UNIT" {
        default: Text("ns"),
        help: "The unit of timestamps in UDP datagrams: ns, us, ms, s, m or h",
    }
    AUTO_CREATE_DATABASE: bool = BOOLEAN "BOOL" {
        default: Text("true"),
        help: "Whether a write to an unknown database creates the database",
    }
    IMPLAUSIBLE_TIMES: Implausible = IMPLAUSIBLE "RULE" {
        default: Text("refuse"),
        help: "What is done with rows whose times seem to be in another unit than the request says, such as seconds as \
               nanoseconds: refuse, warn (store with a warning) or accept (store)",
    }
    MAX_BODY: usize = SIZE "SIZE" {
        default: Text("64MiB"),
        help: "The largest request body, after decompression",
        raised: "one request may take more of ingest_buffer",
        lowered: "larger writes are refused with 413",
    }
    MAX_LINE: usize = SIZE "SIZE" {
        default: Text("1MiB"),
        help: "The longest line of line protocol",
        raised: "one line may take more memory",
        lowered: "longer lines are rejected",
    }
    MAX_BULK: usize = SIZE "SIZE" {
        default: DefaultValue::Share(Share::of_memory(1, 8).at_most_mib(1024)),
        help: "The most bytes of decoded rows of one bulk ingest, whose rows all become visible at once",
        raised: "one bulk ingest may take more of the log",
        lowered: "larger bulk ingests are refused",
    }
    MAX_TABLES: usize = COUNT "COUNT" {
        default: Text("10000"),
        help: "The number of tables of a database from which on rows create no further table",
        raised: "more metadata in memory and in each commit",
        lowered: "rows of further tables are refused",
    }
    MAX_COLUMNS: usize = COUNT "COUNT" {
        default: Text("1024"),
        range: Range::between("3", "4096"),
        help: "The number of columns of a table from which on rows add no further column",
        raised: "more memory for each file that is written or read",
        lowered: "rows with further columns are refused",
    }
    MAX_CONNECTIONS: usize = COUNT "COUNT" {
        default: Text("4096"),
        help: "The most connections at once; further connections wait to be accepted",
        raised: "more memory and open files",
        lowered: "clients wait to connect",
    }
    MAX_CLIENT_CONNECTIONS: usize = COUNT "COUNT" {
        default: DefaultValue::HalfOfConnections,
        help: "The most connections of one address, and of one user; further connections are closed",
        raised: "one client may take more of max_connections",
        lowered: "connections of clients behind one address are closed",
    }
    IDLE_TIMEOUT: Duration = DURATION "DURATION" {
        default: Text("5m"),
        range: Range::at_least("1s"),
        help: "How long a connection of HTTP/2 may stay open without a request",
        raised: "idle connections count towards max_connections for longer",
        lowered: "clients connect again more often",
    }
    PROXY_PROTOCOL: Networks = NETWORKS "NETWORKS" {
        default: NONE,
        help: "Networks of load balancers that begin each connection with a header of the PROXY protocol, version 1 or 2, \
               with the client's address; separated by commas, such as 10.0.0.0/8",
    }
    MAX_HEADER: usize = SIZE "SIZE" {
        default: Text("64KiB"),
        range: Range::between("8KiB", "16MiB"),
        help: "The most bytes of all headers of one request",
        raised: "one request may take more memory",
        lowered: "requests with more headers are refused",
    }
    HEADER_TIMEOUT: Duration = DURATION "DURATION" {
        default: Text("60s"),
        help: "How long a client may take to send the headers of a request, from the end of the previous request",
        raised: "idle connections count towards max_connections for longer",
        lowered: "slow clients are disconnected",
    }
    BODY_TIMEOUT: Duration = DURATION "DURATION" {
        default: Text("30s"),
        help: "How long a client may pause while it sends a body",
        raised: "bodies of slow clients take buffers for longer",
        lowered: "slow clients get 400",
    }
    MEMORY: usize = SIZE "SIZE" {
        default: DefaultValue::SystemMemory,
        help: "The memory of the process; other settings are shares of it",
        raised: "the process may be ended by the system",
        lowered: "smaller buffers, caches and queries",
    }
    INGEST_BUFFER: usize = SIZE "SIZE" {
        default: BUFFER,
        help: "The most bytes of rows that wait to be stored; further writes are refused with 503",
        raised: "more memory",
        lowered: "writes are refused earlier",
    }
    STATEMENT_BUFFER: usize = SIZE "SIZE" {
        default: BUFFER,
        help: "The most bytes of bodies of statements and messages of Flight that are read at once; further requests are \
               refused with 503",
        raised: "more memory",
        lowered: "statements are refused earlier",
    }
    FLUSH_INTERVAL: Option<Duration> = OPTIONAL_DURATION "DURATION" {
        default: BY_STORE,
        range: Range::at_most("10s"),
        help: "How long requests that keep coming share a log segment, and wait for the segment",
        raised: "writes wait longer",
        lowered: "more PUT requests, and more GET requests of readers",
    }
    FOLD_INTERVAL: Duration = DURATION "DURATION" {
        default: Text("5s"),
        help: "The age at which the log is folded into data files",
        raised: "queries read more log segments",
        lowered: "more and smaller files, which merges read again",
    }
    QUERY_MEMORY: usize = SIZE "SIZE" {
        default: DefaultValue::Share(Share::of_memory(3, 8)),
        help: "The memory of all queries together; queries spill to disk beyond it",
        raised: "less memory for writes and folds",
        lowered: "queries spill, or are refused with 503",
    }
    QUERY_TIMEOUT: Duration = DURATION "DURATION" {
        default: Text("5m"),
        help: "The longest that a query may take",
        raised: "long queries hold memory and their place for longer",
        lowered: "longer queries end with 503",
    }
    QUERY_CONCURRENCY: usize = COUNT "COUNT" {
        default: DefaultValue::QueriesOfMemory,
        help: "The most queries that run at once; further queries wait",
        raised: "less memory for each query",
        lowered: "queries wait longer",
    }
    QUERY_QUEUE: usize = COUNT "COUNT" {
        default: Text("160"),
        help: "The most queries that wait to run; further queries are refused with 503",
        raised: "queries wait longer",
        lowered: "queries are refused earlier",
    }
    SLOW_QUERY: Duration = DURATION "DURATION" {
        default: Text("10s"),
        help: "Queries that take longer are logged; 0s logs none",
        raised: "fewer queries are logged",
        lowered: "more log lines",
    }
    PAGE_CACHE: usize = SIZE "SIZE" {
        default: DefaultValue::Share(Share::of_memory(1, 16).at_most_mib(1024)),
        help: "The most bytes of decoded pages of data files that are kept in memory",
        raised: "more memory",
        lowered: "queries decode the same pages again",
    }
    TAIL_CACHE: usize = SIZE "SIZE" {
        default: BUFFER,
        help: "The most bytes of decoded log segments that are kept in memory",
        raised: "more memory",
        lowered: "queries read log segments again",
    }
    TAIL_MEMORY: usize = SIZE "SIZE" {
        default: DefaultValue::Share(Share::of_memory(1, 4)),
        help: "The most bytes of decoded log segments that one query may read; larger queries are refused until more is folded",
        raised: "more memory while folds are late",
        lowered: "queries and writes are refused earlier while folds are late",
    }
    COMPACT_MEMORY: usize = SIZE "SIZE" {
        default: DefaultValue::Share(Share::of_memory(1, 4).at_least_mib(64)),
        help: "The memory of folds and merges together",
        raised: "less memory for queries and writes",
        lowered: "smaller files and row groups, and more folds",
    }
    MAX_STALENESS: Option<Duration> = OPTIONAL_DURATION "DURATION" {
        default: BY_STORE,
        help: "The greatest age of the state that a query without a token reads",
        raised: "queries may miss the latest writes of other processes",
        lowered: "more requests to the store",
    }
    ALLOW_QUARANTINED: bool = BOOLEAN "BOOL" {
        default: Text("false"),
        help: "Whether queries leave out quarantined log segments; without it such queries fail",
    }
    LOG_FORMAT: LogFormat = LOG_FORMAT "FORMAT" {
        default: Text("text"),
        help: "The format of the log on standard error: text or json",
    }
    LOG: String = TEXT "FILTER" {
        default: Text("info"),
        help: "What is logged, such as info or tidelake_ingest=debug; lines of the audit log always, unless it has tidelake::audit=off",
    }
    TRACE_ENDPOINT: Option<String> = ENDPOINT "URL" {
        default: NONE,
        help: "A collector of OpenTelemetry that traces are sent to by OTLP over gRPC, such as http://localhost:4317",
    }
    TRACE_RATIO: f64 = RATIO "RATIO" {
        default: Text("1"),
        help: "The part of the requests, from 0 to 1, that are traced where the caller does not say",
        raised: "more traces to send and to keep",
        lowered: "fewer requests have a trace",
    }
}
