//! The public items of the libraries, as lists in `tests/api`: a change of an interface between packages shows in a commit.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, ensure};

use crate::{cargo, target_directory, workspace};

/// The packages whose items other packages use.
const PACKAGES: [&str; 8] = [
    "tidelake-format",
    "tidelake-import",
    "tidelake-ingest",
    "tidelake-lambda",
    "tidelake-node",
    "tidelake-protocol",
    "tidelake-query",
    "tidelake-routes",
];

/// Compares the public items of the libraries, which rustdoc wrote as JSON into the directory `documents`, with the lists in
/// `tests/api`; `write` replaces the lists instead.
pub(crate) fn api(write: bool, documents: Option<PathBuf>) -> anyhow::Result<()> {
    let workspace = workspace()?;
    let documents = documents.map_or_else(|| document(&workspace), Ok)?;
    let lists = workspace.join("tests/api");
    let mut differences = Vec::new();
    for package in PACKAGES {
        let items = items(&documents.join(package.replace('-', "_")).with_extension("json"))?;
        let list = lists.join(package).with_extension("txt");
        if write {
            fs::create_dir_all(&lists)?;
            fs::write(&list, items).with_context(|| list.display().to_string())?;
            continue;
        }
        let known = fs::read_to_string(&list).with_context(|| list.display().to_string())?;
        let (before, now): (BTreeSet<&str>, BTreeSet<&str>) = (known.lines().collect(), items.lines().collect());
        differences.extend(before.difference(&now).map(|item| format!("{package}: removed: {item}")));
        differences.extend(now.difference(&before).map(|item| format!("{package}: added: {item}")));
    }
    ensure!(
        differences.is_empty(),
        "the public items differ from the lists in tests/api; if that is intended, run `cargo xtask api --write`\n{}",
        differences.join("\n")
    );
    Ok(())
}

/// Has rustdoc describe the packages as JSON, and returns the directory of its files.
fn document(workspace: &Path) -> anyhow::Result<PathBuf> {
    let mut cargo = cargo(workspace);
    cargo.args(["doc", "--locked", "--no-deps", "--lib"]);
    // The features of the whole test build: without it, the dependencies would be compiled for these features too.
    cargo.args(["--workspace", "--features", "tidelake-simulation/virtual-time"]);
    cargo.env("RUSTDOC", workspace.join("infra/package/rustdoc-unstable"));
    cargo.env("RUSTDOCFLAGS", "-A rustdoc::private_intra_doc_links -Z unstable-options --output-format json");
    cargo.env_remove("RUSTC_WORKSPACE_WRAPPER");
    ensure!(cargo.status()?.success(), "cargo doc failed");
    Ok(target_directory(workspace).join("doc"))
}

/// The public items of a package, one a line.
fn items(document: &Path) -> anyhow::Result<String> {
    let api = public_api::Builder::from_rustdoc_json(document)
        .omit_blanket_impls(true)
        .omit_auto_trait_impls(true)
        .omit_auto_derived_impls(true)
        .build()
        .with_context(|| document.display().to_string())?;
    Ok(api.to_string())
}
