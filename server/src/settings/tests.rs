//! Settings from files, variables and the command line.

use std::io::Write;

use super::*;

#[test]
fn flags_stand_above_the_file_and_the_file_above_defaults() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    writeln!(file, "listen = '127.0.0.1:1'\nquery_concurrency = 3\n[store_options]\nendpoint = 'http://e'").unwrap();
    let flags = Layer { listen: Some(Text("127.0.0.1:2".into())), ..Layer::default() };
    let s = Settings::resolve(Some(file.path()), flags).unwrap();
    assert_eq!((s.listen.port(), s.query_concurrency, s.max_body), (2, 3, 64 << 20));
    assert_eq!(s.store_options, [("endpoint".to_owned(), "http://e".to_owned())]);
    assert_eq!((s.disk_cache, s.disk_cache_size), (None, 10 << 30));
    assert_eq!(s.tls, None);
}

#[test]
fn every_setting_is_told_and_stands_in_the_reference() {
    let reference = include_str!("../../../docs/configuration.md");
    let options = ["--store-option", "endpoint=e", "--store-option", "secret_access_key=hidden"];
    #[derive(clap::Parser)]
    struct Flags {
        #[command(flatten)]
        layer: Layer,
    }
    let flags = <Flags as clap::Parser>::parse_from(["x"].into_iter().chain(options)).layer;
    let told = Settings::resolve(None, flags).unwrap().variables();
    let command = <Layer as clap::Args>::augment_args(clap::Command::new("x"));
    for name in command.get_arguments().map(|a| a.get_id().as_str()).filter(|name| *name != "store_option") {
        assert!(told.iter().any(|(told, _)| told == name), "SHOW VARIABLES lacks {name}");
        assert!(reference.contains(&format!("`{name}`")), "docs/configuration.md lacks {name}");
    }
    let option = |name: &str| told.iter().find(|(told, _)| told == name).map(|(_, value)| value.as_str());
    assert_eq!(option("store_options.endpoint"), Some("e"));
    assert_eq!(option("store_options.secret_access_key"), Some("…"));
    assert_eq!((option("slow_query"), option("auth"), option("udp_listen")), (Some("10s"), Some("auto"), Some("")));
}

#[test]
fn no_secret_is_shown_by_a_variable_or_by_a_wrong_setting() {
    let text = |text: &str| Some(Text(text.to_owned()));
    let layer = Layer {
        trace_endpoint: text("https://ada:s3cret@collector:4317/?key=s3cret"),
        store: text("s3://s3cret:s3cret@bucket/prefix"),
        ..Layer::default()
    };
    let told = Settings::resolve(None, layer.clone()).unwrap().variables();
    assert!(!format!("{told:?}").contains("s3cret"), "{told:?}");
    assert!(told.iter().any(|(_, value)| value.starts_with("https://***@collector:4317/")), "{told:?}");
    let mut file = tempfile::NamedTempFile::new().unwrap();
    writeln!(file, "listen = '127.0.0.1:1'\nstore_options = {{ secret_access_key = 's3cret'").unwrap();
    let wrong = Layer {
        store_option: vec!["secret_access_key:s3cret".to_owned()],
        trace_endpoint: text("ftp://ada:s3cret@collector"),
        ..layer
    };
    for file in [None, Some(file.path())] {
        let faults = Settings::resolve(file, wrong.clone()).unwrap_err().to_string();
        assert!(!faults.contains("s3cret") && faults.contains("store-option: expected name=value"), "{faults}");
        assert!(file.is_none() || faults.contains("line 2"), "{faults}");
    }
}

/// The page of all settings, as the command line knows them.
fn page() -> String {
    let mut page = "# All settings\n\n<!-- Written from server/src/settings.rs by its test; TIDELAKE_WRITE_DOCS=1 writes it anew. -->\n\n\
        What `tidelake serve` takes, in the order of `tidelake serve --help`. [configuration.md](configuration.md) says more of each, by subject.\n\n\
        | in the file | flag | variable | default | |\n|---|---|---|---|---|\n"
        .to_owned();
    let command = <Layer as clap::Args>::augment_args(clap::Command::new("x"));
    for argument in command.get_arguments() {
        let help = argument.get_help().unwrap().to_string().replace('|', "\\|");
        let (what, default) = match help.split_once(" [default: ") {
            Some((what, default)) => (what, default.strip_suffix(']').unwrap()),
            None => (help.as_str(), "none"),
        };
        let name = match argument.get_id().as_str() {
            "store_option" => "store_options",
            name => name,
        };
        let value = argument.get_value_names().map_or(String::new(), |names| format!(" {}", names[0]));
        let variable = argument.get_env().unwrap().to_str().unwrap();
        page += &format!(
            "| `{name}` | `--{}{value}` | `{variable}` | {default} | {what} |\n",
            argument.get_long().unwrap()
        );
    }
    page
}

#[test]
fn the_page_of_all_settings_is_what_the_command_line_knows() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/settings.md");
    if std::env::var_os("TIDELAKE_WRITE_DOCS").is_some() {
        std::fs::write(path, page()).unwrap();
    }
    let found = std::fs::read_to_string(path).unwrap();
    assert_eq!(found, page(), "docs/settings.md is older than the settings: TIDELAKE_WRITE_DOCS=1 writes it anew");
}

#[test]
fn whoever_is_not_on_this_machine_is_asked_who_they_are() {
    let asks = |listen: &str, flight: Option<&str>, auth: Option<&str>| {
        let text = |text: &str| Text(text.to_owned());
        let layer = Layer {
            listen: Some(text(listen)),
            flight_listen: flight.map(text),
            auth: auth.map(text),
            ..Layer::default()
        };
        Settings::resolve(None, layer).unwrap().asks_who()
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
    let layer = |[certificate, key, ca]: [Option<&str>; 3]| Layer {
        tls_certificate: certificate.map(|s| Text(s.into())),
        tls_key: key.map(|s| Text(s.into())),
        tls_client_ca: ca.map(|s| Text(s.into())),
        ..Layer::default()
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
    let flags = Layer {
        query_memory: Some(Text("lots".into())),
        disk_cache_size: Some(Text("1MiB".into())),
        ..Layer::default()
    };
    let faults = Settings::resolve(Some(file.path()), flags).unwrap_err().to_string();
    for name in ["lissten", "fold_interval", "flush_interval", "max_body", "query_memory", "disk_cache_size"] {
        assert!(faults.contains(name), "{name} is missing in: {faults}");
    }
}
