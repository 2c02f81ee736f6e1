//! The measurements, their fields, and how each field changes.

/// How a field changes from one report to the next.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Kind {
    /// A float that walks by normal steps and stays between two bounds.
    Float {
        /// Standard deviation of a step.
        sd: f64,
        /// Lower bound.
        min: f64,
        /// Upper bound.
        max: f64,
    },
    /// The same, an integer.
    Gauge {
        /// Standard deviation of a step.
        sd: f64,
        /// Lower bound.
        min: f64,
        /// Upper bound.
        max: f64,
    },
    /// An integer that never falls.
    Counter {
        /// Mean of a step.
        mean: f64,
        /// Standard deviation of a step.
        sd: f64,
    },
    /// An integer that grows from zero by a counter's steps until it has reached a bound, where it stays: a gauge with a
    /// drift, clamped.
    Filling {
        /// Mean of a step.
        mean: f64,
        /// Standard deviation of a step.
        sd: f64,
        /// Upper bound.
        max: f64,
    },
    /// A constant random integer.
    Fixed {
        /// The smallest.
        min: f64,
        /// The greatest.
        max: f64,
    },
    /// Seconds since the first report.
    Uptime,
}

/// One field.
#[derive(Debug, Clone, Copy)]
pub struct Field {
    /// Its name.
    pub name: &'static str,
    /// How the field changes.
    pub kind: Kind,
}

/// One measurement.
#[derive(Debug, Clone, Copy)]
pub struct Measurement {
    /// Its name.
    pub name: &'static str,
    /// Tags in addition to those of the host.
    pub tags: &'static [&'static str],
    /// Its fields.
    pub fields: &'static [Field],
}

const fn field(name: &'static str, kind: Kind) -> Field {
    Field { name, kind }
}

const PERCENT: Kind = Kind::Float { sd: 1.0, min: 0.0, max: 100.0 };
const SHARE: Kind = Kind::Float { sd: 100.0 / 64.0, min: 0.0, max: 100.0 };
const TERABYTE: f64 = 1_099_511_627_776.0;
const MEMORY: f64 = 12_884_901_888.0;
const INODES: f64 = 268_435_456.0;
const BYTES_OF_MEMORY: Kind = Kind::Gauge { sd: MEMORY / 64.0, min: 0.0, max: MEMORY };
const SMALL_COUNTER: Kind = Kind::Counter { mean: 5.0, sd: 1.0 };
const COUNTER: Kind = Kind::Counter { mean: 50.0, sd: 1.0 };
const BYTE_COUNTER: Kind = Kind::Counter { mean: 100.0, sd: 1.0 };
const PERCENTAGE: Kind = Kind::Gauge { sd: 1.0, min: 0.0, max: 100.0 };
const UP_TO_100: Kind = Kind::Filling { mean: 5.0, sd: 1.0, max: 100.0 };
const UP_TO_1_000: Kind = Kind::Filling { mean: 5.0, sd: 1.0, max: 1_000.0 };
const UP_TO_10_000: Kind = Kind::Filling { mean: 50.0, sd: 1.0, max: 10_000.0 };
const LARGE_GAUGE: Kind = Kind::Gauge { sd: 50.0, min: 0.0, max: 17_179_869_184.0 };

/// All measurements.
pub const MEASUREMENTS: [Measurement; 9] = [
    Measurement {
        name: "cpu",
        tags: &[],
        fields: &[
            field("usage_user", PERCENT),
            field("usage_system", PERCENT),
            field("usage_idle", PERCENT),
            field("usage_nice", PERCENT),
            field("usage_iowait", PERCENT),
            field("usage_irq", PERCENT),
            field("usage_softirq", PERCENT),
            field("usage_steal", PERCENT),
            field("usage_guest", PERCENT),
            field("usage_guest_nice", PERCENT),
        ],
    },
    Measurement {
        name: "diskio",
        tags: &["serial"],
        fields: &[
            field("reads", COUNTER),
            field("writes", COUNTER),
            field("read_bytes", BYTE_COUNTER),
            field("write_bytes", BYTE_COUNTER),
            field("read_time", SMALL_COUNTER),
            field("write_time", SMALL_COUNTER),
            field("io_time", SMALL_COUNTER),
        ],
    },
    Measurement {
        name: "disk",
        tags: &["path", "fstype"],
        fields: &[
            field("total", Kind::Fixed { min: TERABYTE, max: TERABYTE }),
            field("free", Kind::Gauge { sd: 50.0, min: 0.0, max: TERABYTE }),
            field("used", Kind::Gauge { sd: 50.0, min: 0.0, max: TERABYTE }),
            field("used_percent", PERCENTAGE),
            field("inodes_total", Kind::Fixed { min: INODES, max: INODES }),
            field("inodes_free", Kind::Gauge { sd: 1.0, min: 0.0, max: INODES }),
            field("inodes_used", Kind::Gauge { sd: 1.0, min: 0.0, max: INODES }),
        ],
    },
    Measurement {
        name: "kernel",
        tags: &[],
        fields: &[
            field("boot_time", Kind::Fixed { min: 1_400_000_000.0, max: 1_500_000_000.0 }),
            field("interrupts", SMALL_COUNTER),
            field("context_switches", SMALL_COUNTER),
            field("processes_forked", SMALL_COUNTER),
            field("disk_pages_in", SMALL_COUNTER),
            field("disk_pages_out", SMALL_COUNTER),
        ],
    },
    Measurement {
        name: "mem",
        tags: &[],
        fields: &[
            field("total", Kind::Fixed { min: MEMORY, max: MEMORY }),
            field("available", BYTES_OF_MEMORY),
            field("used", BYTES_OF_MEMORY),
            field("free", BYTES_OF_MEMORY),
            field("cached", BYTES_OF_MEMORY),
            field("buffered", BYTES_OF_MEMORY),
            field("used_percent", SHARE),
            field("available_percent", SHARE),
            field("buffered_percent", SHARE),
        ],
    },
    Measurement {
        name: "net",
        tags: &["interface"],
        fields: &[
            field("bytes_sent", COUNTER),
            field("bytes_recv", COUNTER),
            field("packets_sent", COUNTER),
            field("packets_recv", COUNTER),
            field("err_in", SMALL_COUNTER),
            field("err_out", SMALL_COUNTER),
            field("drop_in", SMALL_COUNTER),
            field("drop_out", SMALL_COUNTER),
        ],
    },
    Measurement {
        name: "nginx",
        tags: &["port", "server"],
        fields: &[
            field("accepts", SMALL_COUNTER),
            field("active", UP_TO_100),
            field("handled", SMALL_COUNTER),
            field("reading", UP_TO_100),
            field("requests", SMALL_COUNTER),
            field("waiting", UP_TO_100),
            field("writing", UP_TO_100),
        ],
    },
    Measurement {
        name: "postgresl",
        tags: &[],
        fields: &[
            field("numbackends", UP_TO_1_000),
            field("xact_commit", UP_TO_1_000),
            field("xact_rollback", UP_TO_1_000),
            field("blks_read", UP_TO_1_000),
            field("blks_hit", UP_TO_1_000),
            field("tup_returned", UP_TO_1_000),
            field("tup_fetched", UP_TO_1_000),
            field("tup_inserted", UP_TO_1_000),
            field("tup_updated", UP_TO_1_000),
            field("tup_deleted", UP_TO_1_000),
            field("conflicts", UP_TO_1_000),
            field("temp_files", UP_TO_1_000),
            field("temp_bytes", LARGE_GAUGE),
            field("deadlocks", UP_TO_1_000),
            field("blk_read_time", UP_TO_1_000),
            field("blk_write_time", UP_TO_1_000),
        ],
    },
    Measurement {
        name: "redis",
        tags: &["port", "server"],
        fields: &[
            field("uptime_in_seconds", Kind::Uptime),
            field("total_connections_received", SMALL_COUNTER),
            field("expired_keys", COUNTER),
            field("evicted_keys", COUNTER),
            field("keyspace_hits", COUNTER),
            field("keyspace_misses", COUNTER),
            field("instantaneous_ops_per_sec", Kind::Gauge { sd: 1.0, min: 0.0, max: 1e9 }),
            field("instantaneous_input_kbps", Kind::Gauge { sd: 1.0, min: 0.0, max: 1e9 }),
            field("instantaneous_output_kbps", Kind::Gauge { sd: 1.0, min: 0.0, max: 1e9 }),
            field("connected_clients", UP_TO_10_000),
            field("used_memory", LARGE_GAUGE),
            field("used_memory_rss", LARGE_GAUGE),
            field("used_memory_peak", LARGE_GAUGE),
            field("used_memory_lua", LARGE_GAUGE),
            field("rdb_changes_since_last_save", UP_TO_10_000),
            field("sync_full", UP_TO_1_000),
            field("sync_partial_ok", UP_TO_1_000),
            field("sync_partial_err", UP_TO_1_000),
            field("pubsub_channels", UP_TO_1_000),
            field("pubsub_patterns", UP_TO_1_000),
            field("latest_fork_usec", UP_TO_1_000),
            field("connected_slaves", UP_TO_1_000),
            field("master_repl_offset", UP_TO_1_000),
            field("repl_backlog_active", UP_TO_1_000),
            field("repl_backlog_size", UP_TO_1_000),
            field("repl_backlog_histlen", UP_TO_1_000),
            field("mem_fragmentation_ratio", UP_TO_100),
            field("used_cpu_sys", UP_TO_1_000),
            field("used_cpu_user", UP_TO_1_000),
            field("used_cpu_sys_children", UP_TO_1_000),
            field("used_cpu_user_children", UP_TO_1_000),
        ],
    },
];
