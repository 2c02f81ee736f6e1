//! Checks the dependencies between the top-level modules of each crate, read from `use` lines and paths.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

/// Crate → its modules in layer order: a module uses only modules before it.
const ORDER: [(&str, &[&str]); 8] = [
    (
        "format",
        &[
            // Values.
            "error",
            "ids",
            "types",
            "nearest",
            "units",
            "steps",
            "offload",
            "schema",
            "access",
            "rows",
            "layout",
            // Bytes of one object.
            "store",
            "nodes",
            "compression",
            "merge",
            "segment",
            "tags",
            "chain",
            "file",
            "rollup",
            // A root.
            "meta",
            "auth",
            "log",
            "snapshot",
            "holders",
            "garbage",
            "copy",
            "check",
        ],
    ),
    ("protocol", &["metrics", "number", "times", "sql", "settings", "http"]),
    ("ingest", &["metrics", "scalar", "decode", "config", "compact", "write", "statement", "http", "udp"]),
    (
        "ingest/import",
        &[
            "words", "progress", "ranges", "input", "lines", "table", "source", "roles", "shape", "keys", "value",
            "check", "preview", "trial",
        ],
    ),
    (
        "query",
        &[
            "type_names",
            "error",
            "libc",
            "sizes",
            "metrics",
            "pace",
            "buffer",
            "tracked",
            "budget",
            "session",
            "request",
            "writer",
            "wire",
            "visible",
            "files",
            "conditions",
            "scan",
            "functions",
            "system",
            "catalog",
            "plan",
            "frontend",
            "levels",
            "preempt",
            "engine",
            "flight",
            "http",
        ],
    ),
    ("server/node", &["memory", "settings", "serve", "local"]),
    (
        "server",
        &[
            "allocator",
            "terminal",
            "arguments",
            "client",
            "access",
            "backup",
            "check",
            "compact",
            "console",
            "demo",
            "give_up",
            "status",
            "health",
            "inspect",
            "transfer",
            "shell",
            "cli",
        ],
    ),
    ("loadtest", &["workload", "distant", "measure", "drive", "report", "cli"]),
];

/// Exceptions: crate, module, a higher module that it uses, and the reason.
const EXCEPTIONS: [(&str, &str, &str, &str); 2] = [
    (
        "format",
        "file",
        "rollup",
        "a rollup is a data file itself, and the writer of a data file makes the rollup beside it",
    ),
    ("format", "rollup", "meta", "an entry of the catalog says what a rollup must hold; the catalog is above both"),
];

/// Modules used only by tests.
const OF_TESTS: [&str; 3] = ["fixture", "testing", "tests"];

/// A source file: its path below `src`, and its text.
type Source = (String, String);

/// The source files of a crate, without those of tests.
fn sources(of: &str) -> Vec<Source> {
    fn walk(folder: &Path, base: &Path, found: &mut Vec<Source>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(base).unwrap().to_str().unwrap().to_owned();
            let is_of_tests = name.split(['/', '.']).any(|part| OF_TESTS.contains(&part));
            if path.is_dir() {
                walk(&path, base, found);
            } else if name.ends_with(".rs") && !is_of_tests {
                found.push((name, fs::read_to_string(&path).unwrap()));
            }
        }
    }
    let base = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(of).join("src");
    let mut found = Vec::new();
    walk(&base, &base, &mut found);
    found
}

/// The top-level module of a file; `None` for the crate root.
fn module_of(file: &str) -> Option<&str> {
    let top = file.split('/').next()?.trim_end_matches(".rs");
    (!["lib", "main"].contains(&top)).then_some(top)
}

/// The text without comments and without tests at its end.
fn code_of(text: &str) -> String {
    let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    text.lines().map(|line| line.split("//").next().unwrap_or_default()).collect::<Vec<_>>().join("\n")
}

/// Top-level modules of its crate that a file names.
fn named(file: &str, text: &str) -> BTreeSet<String> {
    let code = code_of(text);
    // Path to the crate root from a file at this depth: `super::` in `src/a.rs`, `super::super::` in `src/a/b.rs`.
    let depth = file.matches('/').count() + 1;
    let above = "super::".repeat(depth);
    let mut found = BTreeSet::new();
    for root in ["crate::", above.as_str()] {
        for (at, _) in code.match_indices(root) {
            let before = code[..at].chars().next_back().unwrap_or(' ');
            if before.is_alphanumeric() || before == '_' || code[..at].ends_with("super::") {
                continue;
            }
            found.extend(first_names(&code[at + root.len()..]));
        }
    }
    found
}

/// The first name of each path in `a::b` or `{a::{b, c}, d}`.
fn first_names(text: &str) -> Vec<String> {
    let name_of =
        |text: &str| -> String { text.trim_start().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect() };
    let Some(list) = text.strip_prefix('{') else { return vec![name_of(text)] };
    let (mut depth, mut names, mut start) = (1, Vec::new(), 0);
    for (at, c) in list.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 1 => {
                names.push(name_of(&list[start..at]));
                start = at + 1;
            }
            _ => {}
        }
        if depth == 0 {
            names.push(name_of(&list[start..at]));
            break;
        }
    }
    names
}

/// Faults of a crate's dependencies: uses of modules that are not lower, modules without a layer, unused exceptions.
fn faults(of: &str, order: &[&str], exceptions: &[(&str, &str)], files: &[Source]) -> Vec<String> {
    let places: BTreeMap<&str, usize> = order.iter().enumerate().map(|(place, name)| (*name, place)).collect();
    let (mut faults, mut needed) = (Vec::new(), BTreeSet::new());
    let modules: BTreeSet<&str> = files.iter().filter_map(|(file, _)| module_of(file)).collect();
    for (file, text) in files {
        let Some(module) = module_of(file) else { continue };
        let Some(place) = places.get(module) else {
            faults.push(format!("{of}: {module} has no place in the order"));
            continue;
        };
        for used in named(file, text) {
            if used == module || !modules.contains(used.as_str()) {
                continue;
            }
            if exceptions.contains(&(module, used.as_str())) {
                needed.insert((module.to_owned(), used));
            } else if places.get(used.as_str()).is_none_or(|other| other >= place) {
                faults.push(format!("{of}: {file} uses {used}, which is not below {module}"));
            }
        }
    }
    for name in order {
        if !modules.contains(name) {
            faults.push(format!("{of}: there is no module {name}"));
        }
    }
    for (from, to) in exceptions {
        if !needed.contains(&((*from).to_owned(), (*to).to_owned())) {
            faults.push(format!("{of}: {from} does not use {to} any more"));
        }
    }
    faults
}

#[test]
fn modules_use_only_the_modules_below_them() {
    let mut found = Vec::new();
    for (of, order) in ORDER {
        let exceptions: Vec<(&str, &str)> =
            EXCEPTIONS.iter().filter(|(name, ..)| *name == of).map(|(_, from, to, _)| (*from, *to)).collect();
        found.extend(faults(of, order, &exceptions, &sources(of)));
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn an_arrow_against_the_order_is_found() {
    let file = |name: &str, text: &str| (name.to_owned(), text.to_owned());
    let files = [
        file("lib.rs", "pub mod low; pub mod high;"),
        file("low.rs", "//! Not crate::high.\npub fn low() {}\n"),
        file("low/part.rs", "use crate::high::{self, x};"),
        file("high.rs", "use crate::{low::{self, y}, high::x};\nuse super::low;"),
    ];
    let order = ["low", "high"];
    assert_eq!(faults("c", &order, &[], &files), ["c: low/part.rs uses high, which is not below low"]);
    assert_eq!(faults("c", &order, &[("low", "high")], &files), Vec::<String>::new());
    let without = [files[0].clone(), files[1].clone(), files[3].clone()];
    assert_eq!(faults("c", &order, &[("low", "high")], &without), ["c: low does not use high any more"]);
    assert_eq!(faults("c", &["low"], &[], &without), ["c: high has no place in the order"]);
    assert_eq!(faults("c", &["low", "middle", "high"], &[], &without), ["c: there is no module middle"]);
    for (text, expected) in [
        ("super::super::high::x();", true),
        ("super::high::x();", false),
        ("use super::super::{low, high::{a, b}};", true),
        ("let x = crate::high::X;", true),
        ("// crate::high", false),
        ("mycrate::high::x()", false),
        ("#[cfg(test)]\nmod tests {\n use crate::high;\n}", false),
    ] {
        let found = faults("c", &order, &[], &[files[1].clone(), file("low/part.rs", text), files[3].clone()]);
        assert_eq!(!found.is_empty(), expected, "{text}: {found:?}");
    }
}
