//! File modes of a root created by the commands under umask 0.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Command, Output},
};

use tidelake_tests::process::binary;

/// Runs a command of the binary under a umask of 0.
fn run(arguments: &[&str]) -> Output {
    let output = Command::new("sh").arg("-c").arg("umask 0; exec \"$0\" \"$@\"").arg(binary()).args(arguments).output();
    let output = output.unwrap();
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    output
}

/// Paths at and below a directory that others than the owner may access.
fn open_to_others(path: &Path, found: &mut Vec<String>) -> usize {
    let mode = fs::metadata(path).unwrap().permissions().mode() & 0o777;
    if mode & 0o077 != 0 {
        found.push(format!("{mode:o} {}", path.display()));
    }
    let below = if path.is_dir() { fs::read_dir(path).unwrap().collect() } else { Vec::new() };
    1 + below.into_iter().map(|entry| open_to_others(&entry.unwrap().path(), found)).sum::<usize>()
}

#[test]
fn a_root_a_backup_and_what_is_restored_are_their_owners_alone() {
    let directory = tempfile::tempdir().unwrap();
    let place = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let (root, copy, again) = (place("root"), place("copy"), place("again"));
    run(&["access", "--store", &root, "create user ada password 'of the store' admin"]);
    run(&["backup", "--store", &root, "--to", &copy]);
    run(&["restore", "--store", &again, "--from", &copy]);
    for made in [&root, &copy, &again] {
        let mut found = Vec::new();
        assert!(open_to_others(Path::new(made), &mut found) > 3, "{made}");
        assert!(found.is_empty(), "{found:?}");
    }
    // A command that opens a root accessible to others restricts its mode.
    for path in [root.clone(), format!("{root}/meta")] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o777)).unwrap();
    }
    run(&["check", "--store", &root]);
    let mut found = Vec::new();
    open_to_others(Path::new(&root), &mut found);
    assert!(found.is_empty(), "{found:?}");
}
