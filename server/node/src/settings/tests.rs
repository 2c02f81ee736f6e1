//! Settings from files, variables and the command line.

use std::io::Write;

use clap::{Args as _, FromArgMatches as _};
use tidelake_protocol::settings::About;

use super::*;

/// A layer with the given settings.
fn layer(given: &[(&'static str, &str)]) -> Layer {
    let texts = given.iter().map(|(name, text)| (*name, (*text).to_owned())).collect();
    Layer { texts, ..Layer::default() }
}

/// The layer of command line arguments.
fn flags(arguments: &[&str]) -> Layer {
    let command = Layer::augment_args(clap::Command::new("x"));
    let matches = command.get_matches_from(["x"].iter().chain(arguments));
    Layer::from_arg_matches(&matches).unwrap()
}

#[test]
fn flags_stand_above_the_file_and_the_file_above_defaults() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    let text = "listen = '127.0.0.1:1'\nquery_concurrency = 3\nauto_create_database = false\ntrace_ratio = 0.5\n\
        [store_options]\nendpoint = 'http://e'\nport = 1";
    writeln!(file, "{text}").unwrap();
    let s = Settings::resolve(Some(file.path()), flags(&["--listen", "127.0.0.1:2", "--store-option=a=b=c"])).unwrap();
    assert_eq!((s.get(&declared::LISTEN).port(), s.get(&declared::QUERY_CONCURRENCY)), (2, 3));
    assert_eq!((s.get(&declared::AUTO_CREATE_DATABASE), s.get(&declared::TRACE_RATIO)), (false, 0.5));
    let options = [("endpoint", "http://e"), ("port", "1"), ("a", "b=c")];
    assert_eq!(s.store_options, options.map(|(name, value)| (name.to_owned(), value.to_owned())));
    assert_eq!((s.get(&declared::MAX_BODY), s.get(&declared::DISK_CACHE_SIZE)), (64 << 20, 10 << 30));
    assert_eq!((s.get(&declared::DISK_CACHE), s.tls), (None, None));
}

#[test]
fn defaults_are_shares_of_the_memory_and_of_the_connections() {
    let s = Settings::resolve(None, flags(&["--memory", "8GiB", "--max-connections", "9"])).unwrap();
    let sizes = [&declared::MAX_BULK, &declared::INGEST_BUFFER, &declared::QUERY_MEMORY, &declared::COMPACT_MEMORY];
    assert_eq!(sizes.map(|setting| s.get(setting)), [1 << 30, 256 << 20, 3 << 30, 2 << 30]);
    assert_eq!((s.get(&declared::QUERY_CONCURRENCY), s.get(&declared::MAX_CLIENT_CONNECTIONS)), (16, 4));
    let small = Settings::resolve(None, flags(&["--memory", "256MiB", "--max-connections", "1"])).unwrap();
    assert_eq!(sizes.map(|setting| small.get(setting)), [8 << 20, 8 << 20, 24 << 20, 64 << 20]);
    assert_eq!((small.get(&declared::QUERY_CONCURRENCY), small.get(&declared::MAX_CLIENT_CONNECTIONS)), (2, 1));
}

#[test]
fn every_setting_is_shown() {
    let options = [
        "--store-option=endpoint=e",
        "--store-option=secret_access_key=hidden",
        "--store-option=proxy=http://u:hidden@p",
    ];
    let shown = Settings::resolve(None, flags(&options)).unwrap().variables();
    for name in ALL.iter().map(|setting| setting.about().name).filter(|name| *name != "store_options") {
        assert_eq!(shown.iter().filter(|(shown, _)| shown == name).count(), 1, "SHOW VARIABLES lacks {name}");
    }
    let value = |name: &str| shown.iter().find(|(shown, _)| shown == name).map(|(_, value)| value.as_str());
    assert_eq!(value("store_options.endpoint"), Some("e"));
    assert_eq!(value("store_options.secret_access_key"), Some("…"));
    assert_eq!(value("store_options.proxy"), Some("http://***@p/"));
    assert_eq!((value("slow_query"), value("auth"), value("udp_listen")), (Some("10s"), Some("auto"), Some("")));
    assert_eq!((value("udp_precision"), value("max_line")), (Some("nano"), Some("1048576")));
}

#[test]
fn each_option_of_the_store_in_a_file_keeps_its_name_and_each_wrong_one_is_reported() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    writeln!(file, "[store_options]\n'a=b' = 'c'").unwrap();
    let settings = Settings::resolve(Some(file.path()), Layer::default()).unwrap();
    assert_eq!(settings.store_options, [("a=b".to_owned(), "c".to_owned())]);
    writeln!(file, "first = [1]\nsecond = {{}}").unwrap();
    let faults = Settings::resolve(Some(file.path()), Layer::default()).unwrap_err().to_string();
    let expected = "expected text, a number or a boolean, found";
    for (option, found) in [("first", "array"), ("second", "table")] {
        assert!(faults.contains(&format!("store_options.{option}: {expected} {found}")), "{faults}");
    }
}

#[test]
fn no_secret_is_shown_by_a_variable_or_by_a_wrong_setting() {
    let given = [
        ("trace_endpoint", "https://ada:s3cret@collector:4317/?key=s3cret"),
        ("store", "s3://s3cret:s3cret@bucket/prefix"),
    ];
    let shown = Settings::resolve(None, layer(&given)).unwrap().variables();
    assert!(!format!("{shown:?}").contains("s3cret"), "{shown:?}");
    assert!(shown.iter().any(|(_, value)| value.starts_with("https://***@collector:4317/")), "{shown:?}");
    let mut file = tempfile::NamedTempFile::new().unwrap();
    writeln!(file, "listen = '127.0.0.1:1'\nstore_options = {{ secret_access_key = 's3cret'").unwrap();
    let wrong = Layer {
        options: flags(&["--store-option", "secret_access_key:s3cret"]).options,
        ..layer(&[("trace_endpoint", "ftp://ada:s3cret@collector"), given[1]])
    };
    for file in [None, Some(file.path())] {
        let faults = Settings::resolve(file, wrong.clone()).unwrap_err().to_string();
        assert!(!faults.contains("s3cret") && faults.contains("store-option: expected name=value"), "{faults}");
        assert!(file.is_none() || faults.contains("line 2"), "{faults}");
    }
}

/// The table of docs/settings.md, generated from the declarations.
fn table() -> String {
    let head = "| in the file | flag | variable | default | range | what it is | higher | lower |\n|---|---|---|---|---|---|---|---|\n";
    let rows = ALL.iter().map(|setting| {
        let About { name, flag, variable, value_name, default, range, help, raised, lowered } = setting.about();
        let (default, range) = (default.words(), range.words().unwrap_or_default());
        let cells = format!(
            "`{name}` | `--{flag} {value_name}` | `{variable}` | {default} | {range} | {help} | {raised} | {lowered}"
        );
        format!("| {cells} |\n")
    });
    rows.fold(head.to_owned(), |table, row| table + &row)
}

#[test]
fn the_table_of_the_page_is_made_from_the_declarations() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/settings.md");
    let (begin, end) = ("TIDELAKE_WRITE_DOCS=1 writes it anew. -->\n\n", "\n<!-- End of the table. -->");
    let page = std::fs::read_to_string(path).unwrap();
    let (before, rest) = page.split_once(begin).unwrap();
    let (found, after) = rest.split_once(end).unwrap();
    let expected = table();
    if std::env::var_os("TIDELAKE_WRITE_DOCS").is_some() {
        return std::fs::write(path, [before, begin, &expected, end, after].concat()).unwrap();
    }
    assert!(
        found == expected,
        "the table of docs/settings.md is older than the declarations: TIDELAKE_WRITE_DOCS=1 writes it anew, as\n{expected}"
    );
}

#[test]
fn whoever_is_not_on_this_machine_is_asked_who_they_are() {
    let asks = |listen: &str, flight: Option<&str>, auth: Option<&str>| {
        let given = [("listen", Some(listen)), ("flight_listen", flight), ("auth", auth)];
        let given: Vec<_> = given.into_iter().filter_map(|(name, text)| Some((name, text?))).collect();
        Settings::resolve(None, layer(&given)).unwrap().asks_who()
    };
    for own in ["127.0.0.1:1", "127.9.9.9:1", "[::1]:1", "[::ffff:127.0.0.1]:1"] {
        assert!(!asks(own, None, None) && asks(own, None, Some("on")), "{own}");
        assert!(asks(own, Some("0.0.0.0:2"), None), "{own}");
    }
    for other in ["0.0.0.0:1", "[::]:1", "10.0.0.1:1"] {
        assert!(asks(other, None, None) && !asks(other, None, Some("off")), "{other}");
    }
}

#[test]
fn tls_needs_a_certificate_and_its_key() {
    let layer = |texts: [Option<&str>; 3]| {
        let names = ["tls_certificate", "tls_key", "tls_client_ca"];
        let given: Vec<_> = names.into_iter().zip(texts).filter_map(|(name, text)| Some((name, text?))).collect();
        layer(&given)
    };
    let files = TlsFiles { certificate: "c".into(), key: "k".into(), client_ca: None };
    let found = |given| Settings::resolve(None, layer(given)).map(|s| s.tls);
    assert_eq!(found([Some("c"), Some("k"), None]).unwrap(), Some(files));
    assert_eq!(found([Some(""), None, None]).unwrap(), None);
    for (given, lacking) in [
        ([Some("c"), None, None], "tls_key"),
        ([None, Some("k"), Some("a")], "tls_certificate"),
        ([None, None, Some("a")], "tls_certificate"),
    ] {
        let fault = found(given).unwrap_err().to_string();
        assert!(fault.contains(&format!("{lacking}: expected a file")), "{given:?}: {fault}");
    }
}

#[test]
fn every_fault_is_listed_at_once() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    writeln!(file, "lissten = 'x'\nfold_interval = '5 parsecs'\nmax_body = [1]\nflush_interval = '11s'").unwrap();
    let wrong = layer(&[("query_memory", "lots"), ("disk_cache_size", "1MiB")]);
    let faults = Settings::resolve(Some(file.path()), wrong).unwrap_err().to_string();
    assert!(faults.starts_with("6 invalid settings:\n"), "{faults}");
    for fault in [
        ": lissten: unknown setting; did you mean listen?",
        "  fold_interval: expected a duration such as 500ms, 5s, 5m or 1h, found \"5 parsecs\"",
        "  flush_interval: expected at most 10s, found \"11s\"",
        ": max_body: expected text, a number or a boolean, found array",
        "  query_memory: expected a size such as 64MiB (B, KiB, MiB, GiB), found \"lots\"",
        "  disk_cache_size: expected 16MiB or more, found \"1MiB\"",
    ] {
        assert!(faults.contains(fault), "{fault} is missing in: {faults}");
    }
}
