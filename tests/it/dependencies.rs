//! Checks the dependencies of the workspace: each one is used, its licence is allowed, none needs a system's TLS library, and each
//! published security advisory about a locked version is accepted with a reason.
//!
//! Licences and uses come from `cargo metadata` for the platform of the tests; versions come from Cargo.lock, for all platforms;
//! advisories come from `dependencies/advisories.toml`, which `tests/advisories` makes from the database of RustSec.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
    process::Command,
};

use semver::{Version, VersionReq};
use serde_json::{Value, json};

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

/// Licences of packages that only `xtask` uses, which is not distributed. mdBook (MPL-2.0) puts its scripts, style sheets and icons
/// (CC-BY-4.0) into the site, where they are their own source and name their authors.
const ALLOWED_IN_TASKS: [&str; 2] = ["CC-BY-4.0", "MPL-2.0"];

/// Packages that must not be in the tree, with the reason.
const BANNED: [(&str, &str); 4] = [
    ("openssl-sys", "TLS is rustls with ring: one implementation, no library of the system"),
    ("native-tls", "TLS is rustls with ring"),
    ("aws-lc-sys", "TLS is rustls with ring; a second implementation costs a minute of the build"),
    ("aws-sdk-s3", "object_store sends all requests to S3"),
];

/// Advisories about locked versions that do not concern Tidelake: id, the packages that use the version, and the reason, which is
/// verified for these packages alone.
const ACCEPTED: [(&str, &[&str], &str); 3] = [
    (
        "RUSTSEC-2024-0436",
        &["foyer-memory", "tikv-jemalloc-ctl"],
        "paste is unmaintained; it runs in the compiler alone, on macros of these two packages, and has no known fault",
    ),
    ("RUSTSEC-2026-0194", &["object_store"], XML_OF_THE_STORE),
    ("RUSTSEC-2026-0195", &["object_store"], XML_OF_THE_STORE),
];

const XML_OF_THE_STORE: &str = "quick-xml parses replies of the S3 endpoint and of AWS STS alone. An attack needs a start tag with \
    tens of thousands of attributes or namespaces, which only the endpoint can send, or a machine on the way if the endpoint \
    uses plain HTTP: names of objects and other texts of clients are between tags. Both can change all data of the root anyway. \
    object_store 0.14 uses the patched quick-xml 0.41; datafusion 55 and parquet 59 need object_store 0.13, whose newest version \
    needs quick-xml 0.39";

/// The `source` of packages from crates.io in Cargo.lock. Advisories are about no other packages.
const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

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

/// Whether a SPDX expression can be met with these licences only: one side of each OR, both sides of each AND.
fn is_allowed(expression: &str, licences: &[&str]) -> bool {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let tokens: Vec<&str> = spaced.split_whitespace().collect();
    let (allowed, rest) = any_of(&tokens, licences);
    assert!(rest.is_empty(), "not a SPDX expression: {expression}");
    allowed
}

fn any_of<'a, 'b>(tokens: &'a [&'b str], licences: &[&str]) -> (bool, &'a [&'b str]) {
    let (mut allowed, mut rest) = all_of(tokens, licences);
    while let Some(after) = rest.strip_prefix(&["OR"]) {
        let (other, left) = all_of(after, licences);
        (allowed, rest) = (allowed || other, left);
    }
    (allowed, rest)
}

fn all_of<'a, 'b>(tokens: &'a [&'b str], licences: &[&str]) -> (bool, &'a [&'b str]) {
    let (mut allowed, mut rest) = one(tokens, licences);
    while let Some(after) = rest.strip_prefix(&["AND"]) {
        let (other, left) = one(after, licences);
        (allowed, rest) = (allowed && other, left);
    }
    (allowed, rest)
}

fn one<'a, 'b>(tokens: &'a [&'b str], licences: &[&str]) -> (bool, &'a [&'b str]) {
    match tokens {
        ["(", inner @ ..] => {
            let (allowed, rest) = any_of(inner, licences);
            (allowed, rest.strip_prefix(&[")"]).expect("a closing parenthesis"))
        }
        [licence, "WITH", exception, rest @ ..] => {
            (licences.contains(&format!("{licence} WITH {exception}").as_str()), rest)
        }
        [licence, rest @ ..] => (licences.contains(licence), rest),
        [] => panic!("an expression ends early"),
    }
}

/// The packages that a member of the workspace other than `xtask` uses, directly or through others, also to build and to test.
fn without_tasks(metadata: &Value) -> BTreeSet<&str> {
    let nodes = array(&metadata["resolve"], "nodes");
    let edges: BTreeMap<&str, &[Value]> = nodes.iter().map(|node| (text(node, "id"), array(node, "deps"))).collect();
    let tasks = array(metadata, "packages").iter().find(|package| text(package, "name") == "xtask").unwrap();
    let members = array(metadata, "workspace_members").iter().filter_map(Value::as_str);
    let mut next: Vec<&str> = members.filter(|member| *member != text(tasks, "id")).collect();
    let mut reached = BTreeSet::new();
    while let Some(id) = next.pop() {
        if reached.insert(id) {
            next.extend(edges[id].iter().map(|dependency| text(dependency, "pkg")));
        }
    }
    reached
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
        assert_eq!(is_allowed(expression, &ALLOWED), expected, "{expression}");
    }
}

#[test]
fn licences_of_all_packages_are_allowed_and_none_is_banned() {
    let metadata = metadata();
    let mut faults = Vec::new();
    let resolved: Vec<&str> = array(&metadata["resolve"], "nodes").iter().map(|node| text(node, "id")).collect();
    assert!(resolved.len() > 300, "{}", resolved.len());
    let without_tasks = without_tasks(&metadata);
    let in_tasks = [&ALLOWED[..], &ALLOWED_IN_TASKS].concat();
    for package in array(&metadata, "packages").iter().filter(|package| resolved.contains(&text(package, "id"))) {
        let (name, licence) = (text(package, "name"), text(package, "license"));
        let licences = if without_tasks.contains(text(package, "id")) { &ALLOWED[..] } else { &in_tasks };
        if licence.is_empty() || !is_allowed(licence, licences) {
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

/// Whether a version satisfies a requirement.
///
/// Cargo's rule that a pre-release satisfies only requirements that name one of its release does not apply: a pre-release of
/// 2.0.0 is after 1.9.9 and has its fixes. But it does not satisfy a limit at 2.0.0 itself, from either side: a fault that 2.0.0
/// brings or ends can be in it.
fn satisfies(version: &Version, requirement: &VersionReq) -> bool {
    let release = Version::new(version.major, version.minor, version.patch);
    requirement.comparators.iter().all(|limit| {
        let of = Version::new(limit.major, limit.minor.unwrap_or(0), limit.patch.unwrap_or(0));
        limit.matches(if of == release { version } else { &release })
    })
}

/// Whether an advisory is about a version: it satisfies no requirement of the patched and of the unaffected versions.
fn affects(advisory: &Value, version: &Version) -> bool {
    !["patched", "unaffected"].iter().flat_map(|key| array(advisory, key)).any(|requirement| {
        let requirement = requirement.as_str().expect("a requirement is text");
        satisfies(version, &VersionReq::parse(requirement).expect(requirement))
    })
}

/// Whether a package in Cargo.lock depends on a version of another one. Names with several versions are listed with the version.
fn uses(package: &Value, name: &str, version: &str) -> bool {
    array(package, "dependencies").iter().filter_map(Value::as_str).any(|dependency| {
        let (used, of) = dependency.split_once(' ').unwrap_or((dependency, version));
        (used, of.split(' ').next()) == (name, Some(version))
    })
}

/// Faults of locked packages: advisories about them that are not accepted or not for all packages that use them, packages that
/// were not looked up, and accepted advisories about none of them.
fn advisory_faults(lock: &Value, database: &Value, accepted: &[(&str, &[&str], &str)]) -> Vec<String> {
    let packages = array(lock, "package");
    let looked_up: BTreeSet<&str> = array(database, "packages").iter().filter_map(Value::as_str).collect();
    let (mut faults, mut needed) = (Vec::new(), BTreeSet::new());
    for package in packages.iter().filter(|package| text(package, "source") == REGISTRY) {
        let (name, version) = (text(package, "name"), text(package, "version"));
        let parsed = Version::parse(version).expect(version);
        if !looked_up.contains(name) {
            faults.push(format!("{name}: advisories.toml does not cover the package: run tests/advisories"));
        }
        let of_package = array(database, "advisory").iter().filter(|advisory| text(advisory, "package") == name);
        for advisory in of_package.filter(|advisory| affects(advisory, &parsed)) {
            let id = text(advisory, "id");
            let Some((_, users, reason)) = accepted.iter().find(|(accepted, ..)| *accepted == id) else {
                let (title, patched) = (text(advisory, "title"), &advisory["patched"]);
                faults.push(format!("{name} {version}: {id}: {title}; patched versions: {patched}"));
                continue;
            };
            needed.insert(id);
            let using = packages.iter().filter(|other| uses(other, name, version)).map(|other| text(other, "name"));
            for user in using.filter(|user| !users.contains(user)) {
                faults
                    .push(format!("{user} uses {name} {version}: {id} is accepted for other packages only: {reason}"));
            }
        }
    }
    for (id, ..) in accepted.iter().filter(|(id, ..)| !needed.contains(id)) {
        faults.push(format!("{id} is about no locked version: remove it from the accepted ones"));
    }
    faults
}

#[test]
fn versions_outside_the_patched_and_unaffected_ones_are_affected() {
    for (patched, unaffected, affected, others) in [
        (&[">= 1.2.3"][..], &[][..], &["0.9.0", "1.2.2"][..], &["1.2.3", "1.2.3+build", "2.0.0"][..]),
        (&[">= 1.2.3"], &["< 1.0.0"], &["1.0.0", "1.2.2+build"], &["0.9.9", "1.3.0"]),
        (&["^0.5.4", ">= 0.6.2"], &[], &["0.5.3", "0.6.0", "0.6.1"], &["0.5.4", "0.5.9", "0.6.2", "1.0.0"]),
        (&["< 1.0.0, >= 0.9.3", ">= 1.0.1"], &[], &["0.9.2", "1.0.0"], &["0.9.3", "0.10.0", "1.0.1"]),
        (&["~1.2.4"], &["= 1.1.0", "0.3"], &["1.2.3", "1.3.0", "0.2.9", "0.4.0"], &["1.2.4", "1.1.0", "0.3.7"]),
        (&[], &["<= 0.3"], &["0.4.0", "9.0.0"], &["0.3.0", "0.3.9", "0.2.0"]),
        (&[], &[], &["0.0.1", "1.0.0-rc.1"], &[]),
        (&["*"], &[], &[], &["0.0.1", "1.0.0-rc.1"]),
        // Pre-releases of a limit are affected, unless the limit is one itself.
        (&[">= 1.2.3"], &["< 1.0.0"], &["1.2.3-rc.1", "1.0.0-rc.1"], &["0.9.0-rc.1", "1.2.4-rc.1", "2.0.0-rc.1"]),
        (&["> 1.2.3"], &["<= 1.0.0"], &["1.2.3-rc.1", "1.0.0-rc.1", "1.2.3"], &["1.2.4-rc.1", "1.0.0"]),
        (&["^1.2"], &[], &["1.2.0-rc.1", "2.0.0-rc.1"], &["1.2.1-rc.1", "1.9.0-rc.1"]),
        (
            &[">= 0.103.13, < 0.104.0-alpha.1", ">= 0.104.0-alpha.7"],
            &[],
            &["0.103.12", "0.103.13-rc.1", "0.104.0-alpha.1", "0.104.0-alpha.6"],
            &["0.103.13", "0.103.14-rc.1", "0.104.0-alpha.0", "0.104.0-alpha.7", "0.104.0-beta.1", "0.104.0"],
        ),
    ] {
        let advisory = json!({"patched": patched, "unaffected": unaffected});
        for (versions, expected) in [(affected, true), (others, false)] {
            for version in versions {
                assert_eq!(affects(&advisory, &Version::parse(version).unwrap()), expected, "{version}: {advisory}");
            }
        }
    }
}

#[test]
fn advisories_are_found_unless_they_are_accepted_for_all_users_of_a_package() {
    let package = |name: &str, version: &str, dependencies: &[&str]| -> Value {
        json!({"name": name, "version": version, "source": REGISTRY, "dependencies": dependencies})
    };
    let lock = json!({"package": [
        package("a", "1.0.0", &[]),
        package("a", "2.0.0", &[]),
        package("b", "1.0.0", &["a 1.0.0", "d"]),
        {"name": "c", "version": "1.0.0", "dependencies": ["a 2.0.0", "d"]},
        package("d", "1.5.0", &["a 1.0.0"]),
    ]});
    let advisory =
        |id: &str, package: &str| json!({"id": id, "package": package, "title": "Fault", "patched": [">= 2.0.0"]});
    let database = json!({
        "packages": ["a", "c", "d"],
        "advisory": [advisory("A-1", "a"), advisory("A-2", "a"), advisory("C-1", "c"), advisory("D-1", "d")],
    });
    let accepted: [(&str, &[&str], &str); 4] = [
        ("A-2", &["b", "d"], "nothing calls it"),
        ("C-1", &[], "nothing calls it"),
        ("D-1", &["b"], "b does not call it"),
        ("E-1", &[], "nothing calls it"),
    ];
    assert_eq!(
        advisory_faults(&lock, &database, &accepted),
        [
            r#"a 1.0.0: A-1: Fault; patched versions: [">= 2.0.0"]"#,
            "b: advisories.toml does not cover the package: run tests/advisories",
            "c uses d 1.5.0: D-1 is accepted for other packages only: b does not call it",
            "C-1 is about no locked version: remove it from the accepted ones",
            "E-1 is about no locked version: remove it from the accepted ones",
        ]
    );
}

#[test]
fn every_advisory_about_a_locked_version_is_accepted_with_a_reason() {
    let read = |file: &str| -> Value {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
        toml::from_str(&fs::read_to_string(path).unwrap()).unwrap()
    };
    let (lock, database) = (read("../Cargo.lock"), read("it/dependencies/advisories.toml"));
    assert!(array(&lock, "package").len() > 300 && array(&database, "advisory").len() > 50);
    let faults = advisory_faults(&lock, &database, &ACCEPTED);
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
