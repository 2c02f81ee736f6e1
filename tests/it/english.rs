//! Comments, messages and documents use the terms of docs/glossary.md and none of the private phrases below.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// Private phrases, each with the standard term to use.
const PHRASES: [(&str, &str); 20] = [
    ("whoever", "client, caller, reader or writer"),
    ("who asks", "client or caller"),
    ("who waits", "a waiting client"),
    ("who comes", "client"),
    ("who lingers", "a waiting lane"),
    ("nobody asks", "no client requests"),
    ("is told", "receives, is reported to"),
    ("are told", "receive, are reported to"),
    ("was told", "received"),
    ("tells", "reports, returns, logs"),
    ("told of", "reported"),
    ("so many", "the number of"),
    ("is let in", "is admitted, is authenticated"),
    ("lets in", "admits, authenticates"),
    ("let in", "admitted, authenticated"),
    ("gives way", "yields"),
    ("giving way", "yielding"),
    ("goes by", "uses"),
    ("go by", "use"),
    ("comes to lie", "is stored"),
];

fn files(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() {
            // Reports are written by the load test from its own texts, which are checked as code.
            if !["target", "benchmarks", "node_modules"].contains(&name.as_str()) && !name.starts_with('.') {
                files(&path, found);
            }
        } else if [".rs", ".md", ".py", ".sh", ".tf", ".toml"].iter().any(|ending| name.ends_with(ending)) {
            found.push(path);
        }
    }
}

/// Whether `text` has the phrase as whole words.
fn has(text: &str, phrase: &str) -> bool {
    text.match_indices(phrase).any(|(at, _)| {
        let is_word = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
        !is_word(text[..at].chars().next_back()) && !is_word(text[at + phrase.len()..].chars().next())
    })
}

#[test]
fn no_comment_message_or_page_uses_a_private_phrase() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut all = Vec::new();
    files(root, &mut all);
    let mut faults = Vec::new();
    for path in all {
        // The titles of advisories are RustSec's.
        let is_exempt = ["it/english.rs", "docs/glossary.md", "dependencies/advisories.toml"]
            .iter()
            .any(|exempt| path.ends_with(exempt));
        let Ok(text) = fs::read_to_string(&path) else { continue };
        for (number, line) in text.lines().enumerate().filter(|_| !is_exempt) {
            let lower = line.to_lowercase();
            for (phrase, better) in PHRASES.iter().filter(|(phrase, _)| has(&lower, phrase)) {
                let place = path.strip_prefix(root).unwrap().display().to_string();
                faults.push(format!("{place}:{}: \"{phrase}\"; write {better}: {}", number + 1, line.trim()));
            }
        }
    }
    assert!(faults.is_empty(), "{} phrases:\n{}", faults.len(), faults.join("\n"));
}
