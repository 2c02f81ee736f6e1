//! Checks the dependencies of the workspace: each one is used, its licence is allowed, and none needs a system's TLS library.
//!
//! The lists come from `cargo metadata` for the platform of the tests.

use std::{collections::BTreeMap, fs, path::Path, process::Command};

use serde_json::Value;

/// Licences whose terms a distributor of the binary can meet with a list of notices.
const ALLOWED: [&str; 12] = [
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "CDLA-Permissive-2.0",
    "ISC",
    "MIT",
    "Unicode-3.0",
    "Zlib",
];

/// Packages that must not be in the tree, with the reason.
const BANNED: [(&str, &str); 4] = [
    ("openssl-sys", "TLS is rustls with ring: one implementation, no library of the system"),
    ("native-tls", "TLS is rustls with ring"),
    ("aws-lc-sys", "TLS is rustls with ring; a second implementation costs a minute of the build"),
    ("aws-sdk-s3", "object_store sends all requests to S3"),
];

fn metadata() -> Value {
    let triple = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--locked", "--offline", "--format-version", "1", "--filter-platform", &triple])
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn array<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value[key].as_array().map_or(&[], Vec::as_slice)
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

/// Whether a SPDX expression can be met with allowed licences only: one side of each OR, both sides of each AND.
fn is_allowed(expression: &str) -> bool {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let tokens: Vec<&str> = spaced.split_whitespace().collect();
    let (allowed, rest) = any_of(&tokens);
    assert!(rest.is_empty(), "not a SPDX expression: {expression}");
    allowed
}

fn any_of<'a, 'b>(tokens: &'a [&'b str]) -> (bool, &'a [&'b str]) {
    let (mut allowed, mut rest) = all_of(tokens);
    while let Some(after) = rest.strip_prefix(&["OR"]) {
        let (other, left) = all_of(after);
        (allowed, rest) = (allowed || other, left);
    }
    (allowed, rest)
}

fn all_of<'a, 'b>(tokens: &'a [&'b str]) -> (bool, &'a [&'b str]) {
    let (mut allowed, mut rest) = one(tokens);
    while let Some(after) = rest.strip_prefix(&["AND"]) {
        let (other, left) = one(after);
        (allowed, rest) = (allowed && other, left);
    }
    (allowed, rest)
}

fn one<'a, 'b>(tokens: &'a [&'b str]) -> (bool, &'a [&'b str]) {
    match tokens {
        ["(", inner @ ..] => {
            let (allowed, rest) = any_of(inner);
            (allowed, rest.strip_prefix(&[")"]).expect("a closing parenthesis"))
        }
        [licence, "WITH", exception, rest @ ..] => {
            (ALLOWED.contains(&format!("{licence} WITH {exception}").as_str()), rest)
        }
        [licence, rest @ ..] => (ALLOWED.contains(licence), rest),
        [] => panic!("an expression ends early"),
    }
}

#[test]
fn spdx_expressions_are_evaluated() {
    for (expression, expected) in [
        ("MIT", true),
        ("GPL-3.0-only", false),
        ("GPL-3.0-only OR MIT", true),
        ("GPL-3.0-only AND MIT", false),
        ("MIT/GPL-2.0", true),
        ("(MIT OR GPL-2.0) AND BSD-3-Clause", true),
        ("MIT OR GPL-2.0 AND GPL-3.0", true),
        ("(MIT OR ISC) AND GPL-3.0", false),
        ("Apache-2.0 WITH LLVM-exception", true),
        ("GPL-3.0 WITH GCC-exception", false),
    ] {
        assert_eq!(is_allowed(expression), expected, "{expression}");
    }
}

#[test]
fn licences_of_all_packages_are_allowed_and_none_is_banned() {
    let metadata = metadata();
    let mut faults = Vec::new();
    let resolved: Vec<&str> = array(&metadata["resolve"], "nodes").iter().map(|node| text(node, "id")).collect();
    assert!(resolved.len() > 300, "{}", resolved.len());
    for package in array(&metadata, "packages").iter().filter(|package| resolved.contains(&text(package, "id"))) {
        let (name, licence) = (text(package, "name"), text(package, "license"));
        if licence.is_empty() || !is_allowed(licence) {
            faults.push(format!("{name}: the licence is not allowed: {licence:?}"));
        }
        if let Some((_, reason)) = BANNED.iter().find(|(banned, _)| *banned == name) {
            faults.push(format!("{name} is banned: {reason}"));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// The Rust sources under a directory, without those of other packages of the workspace.
fn sources(directory: &Path, others: &[&Path], into: &mut String) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() {
            let is_other = others.contains(&path.as_path()) || name == "target" || name.starts_with('.');
            if !is_other {
                sources(&path, others, into);
            }
        } else if name.ends_with(".rs") {
            into.push_str(&fs::read_to_string(&path).unwrap());
        }
    }
}

/// Whether a source names a crate: in a path, an import or a macro call.
fn names(source: &str, krate: &str) -> bool {
    source.match_indices(krate).any(|(at, _)| {
        let before = source[..at].chars().next_back();
        let after = &source[at + krate.len()..];
        !before.is_some_and(|c| c.is_alphanumeric() || c == '_')
            && ["::", ";", " as ", "!"].iter().any(|follows| after.starts_with(follows))
    })
}

#[test]
fn every_dependency_of_a_crate_is_named_in_its_sources() {
    let metadata = metadata();
    let members: Vec<&str> = array(&metadata, "workspace_members").iter().filter_map(Value::as_str).collect();
    let packages: BTreeMap<&Path, &Value> = array(&metadata, "packages")
        .iter()
        .filter(|package| members.contains(&text(package, "id")))
        .map(|package| (Path::new(text(package, "manifest_path")).parent().unwrap(), package))
        .collect();
    let directories: Vec<&Path> = packages.keys().copied().collect();
    let mut unused = Vec::new();
    for (directory, package) in &packages {
        let mut source = String::new();
        sources(directory, &directories, &mut source);
        for dependency in array(package, "dependencies") {
            let name = dependency["rename"].as_str().unwrap_or(text(dependency, "name")).replace('-', "_");
            if !names(&source, &name) {
                unused.push(format!("{}: {name}", directory.join("Cargo.toml").display()));
            }
        }
    }
    assert!(unused.is_empty(), "dependencies that no source of their crate names:\n{}", unused.join("\n"));
}
