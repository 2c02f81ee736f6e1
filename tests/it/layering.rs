//! Checks the dependencies between the rooms (groups of crates), read from `cargo metadata`.

use std::{
    collections::{BTreeMap, BTreeSet},
    process::Command,
};

/// Room → rooms it may depend on at run time (ARCHITECTURE.md).
const ARROWS: [(&str, &[&str]); 19] = [
    ("tidelake-format", &[]),
    ("tidelake-routes", &["tidelake-format", "tidelake-protocol"]),
    ("tidelake-protocol", &["tidelake-format"]),
    ("tidelake-ingest", &["tidelake-format", "tidelake-protocol", "tidelake-routes"]),
    ("tidelake-import", &["tidelake-format", "tidelake-ingest"]),
    ("tidelake-query", &["tidelake-format", "tidelake-protocol", "tidelake-routes"]),
    ("tidelake-lambda", &["tidelake-format", "tidelake-protocol", "tidelake-routes"]),
    ("tidelake-ingest-lambda", &["tidelake-format", "tidelake-ingest", "tidelake-lambda"]),
    ("tidelake-query-lambda", &["tidelake-format", "tidelake-query", "tidelake-lambda"]),
    (
        "tidelake",
        &[
            "tidelake-format",
            "tidelake-import",
            "tidelake-ingest",
            "tidelake-loadtest",
            "tidelake-node",
            "tidelake-protocol",
        ],
    ),
    (
        "tidelake-node",
        &[
            "tidelake-format",
            "tidelake-import",
            "tidelake-ingest",
            "tidelake-protocol",
            "tidelake-query",
            "tidelake-routes",
        ],
    ),
    ("tidelake-loadtest", &[]),
    ("tidelake-tests", &["tidelake-format", "tidelake-loadtest"]),
    (
        "tidelake-benches",
        &["tidelake-format", "tidelake-ingest", "tidelake-query", "tidelake-loadtest", "tidelake-protocol"],
    ),
    ("tidelake-powerloss", &[]),
    ("tidelake-simulation", &["tidelake-format", "tidelake-ingest", "tidelake-query"]),
    ("xtask", &[]),
    ("fastant", &[]),
    ("tidelake-fuzz", &["tidelake-format", "tidelake-ingest", "tidelake-protocol", "tidelake-query"]),
];

/// Room → crates that must not be among its transitive dependencies.
const FORBIDDEN: [(&str, &[&str]); 6] = [
    ("tidelake-format", &["datafusion", "arrow-flight", "axum", "tonic", "lambda_runtime"]),
    ("tidelake-protocol", &["datafusion", "arrow-flight", "axum", "tonic", "lambda_runtime"]),
    ("tidelake-ingest", &["datafusion", "arrow-flight", "tonic"]),
    ("tidelake-import", &["datafusion", "arrow-flight", "tonic"]),
    ("tidelake-ingest-lambda", &["datafusion", "arrow-flight", "tonic"]),
    ("tidelake-loadtest", &["datafusion"]),
];

fn metadata() -> serde_json::Value {
    let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/../Cargo.toml");
    // Dependencies of other platforms are not downloaded here.
    let rustc = Command::new("rustc").arg("-vV").output().unwrap();
    let version = String::from_utf8(rustc.stdout).unwrap();
    let host = version.lines().find_map(|line| line.strip_prefix("host: ")).unwrap();
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--locked", "--offline", "--manifest-path", manifest])
        .args(["--filter-platform", host])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn rooms_use_only_the_rooms_below_them() {
    let metadata = metadata();
    let packages = metadata["packages"].as_array().unwrap();
    for (room, allowed) in ARROWS {
        let package = packages.iter().find(|p| p["name"] == room).unwrap();
        for dependency in package["dependencies"].as_array().unwrap() {
            let name = dependency["name"].as_str().unwrap();
            if name == "tidelake" || name.starts_with("tidelake-") {
                assert!(allowed.contains(&name), "{room} must not use {name}");
            }
        }
    }
    let members = metadata["workspace_members"].as_array().unwrap();
    assert_eq!(members.len(), ARROWS.len(), "a new room needs its arrows here: {members:?}");
}

#[test]
fn rooms_are_not_built_from_what_they_must_not_know() {
    let metadata = metadata();
    let names: BTreeMap<&str, &str> = metadata["packages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|p| (p["id"].as_str().unwrap(), p["name"].as_str().unwrap()))
        .collect();
    let edges: BTreeMap<&str, Vec<&str>> = metadata["resolve"]["nodes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|node| {
            // Ignore build and development dependencies.
            let normal = node["deps"]
                .as_array()
                .unwrap()
                .iter()
                .filter(|dep| dep["dep_kinds"].as_array().unwrap().iter().any(|kind| kind["kind"].is_null()));
            (node["id"].as_str().unwrap(), normal.map(|dep| dep["pkg"].as_str().unwrap()).collect())
        })
        .collect();
    for (room, forbidden) in FORBIDDEN {
        let start = *names.iter().find(|(_, name)| **name == room).unwrap().0;
        let (mut seen, mut next) = (BTreeSet::new(), vec![start]);
        while let Some(id) = next.pop() {
            if seen.insert(id) {
                next.extend(&edges[id]);
            }
        }
        for id in seen {
            assert!(!forbidden.contains(&names[id]), "{room} is built from {}", names[id]);
        }
    }
}
