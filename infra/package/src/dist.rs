//! Makes the files of a release: a tarball, a Debian package, a bill of materials and their checksums.

use std::{fmt::Write as _, fs, io::Write, path::PathBuf};

use anyhow::{Context as _, Result, ensure};
use flate2::{Compression, write::GzEncoder};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::{
    cargo,
    package::{Build, GLIBC, Glibc, check_glibc},
};

/// The crate whose program is distributed.
const PROGRAM: &str = "tidelake";
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// A file of the release: its path from the root of an installation, its mode and its bytes.
struct Entry {
    path: &'static str,
    mode: u32,
    bytes: Vec<u8>,
}

/// Builds the program, for an older glibc than that of this machine if one is given.
///
/// # Errors
/// As [`Build::build`] and [`Build::link_for`].
pub(crate) fn build(build: &Build, glibc: Option<Glibc>) -> Result<()> {
    build.build("release", &[PROGRAM])?;
    glibc.map_or(Ok(()), |glibc| build.link_for(PROGRAM, glibc))
}

/// Reads a version such as `2.28`.
pub(crate) fn glibc(text: &str) -> Result<Glibc> {
    let numbers = text.split_once('.').and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?)));
    numbers.with_context(|| format!("expected a version of glibc such as 2.28, found {text}"))
}

/// Writes `tidelake-VERSION-TARGET.tar.gz`, `tidelake_VERSION_ARCHITECTURE.deb`, `tidelake-VERSION.cdx.json` and
/// `SHA256SUMS` to `out`.
///
/// # Errors
/// The program is not built, needs a newer glibc than supported, or a file cannot be read or written.
#[expect(clippy::print_stdout, reason = "a task says what it made")]
pub(crate) fn dist(build: &Build, out: Option<PathBuf>) -> Result<()> {
    let out = out.unwrap_or_else(|| build.workspace().join("target/dist"));
    fs::create_dir_all(&out).with_context(|| format!("make {}", out.display()))?;
    let program = out.join(PROGRAM);
    build.strip(&build.program(PROGRAM), &program)?;
    let glibc = check_glibc(&program, GLIBC)?;
    let packages = packages(build)?;

    let read = |path: &str| {
        let path = build.workspace().join(path);
        fs::read(&path).with_context(|| format!("read {}", path.display()))
    };
    let service = String::from_utf8(read("infra/systemd/tidelake.service")?)?.replace("/usr/local/", "/usr/");
    let entries = [
        Entry { path: "usr/bin/tidelake", mode: 0o755, bytes: fs::read(&program)? },
        Entry { path: "usr/lib/systemd/system/tidelake.service", mode: 0o644, bytes: service.into_bytes() },
        Entry { path: "usr/share/doc/tidelake/README.md", mode: 0o644, bytes: read("README.md")? },
        Entry { path: "usr/share/doc/tidelake/CHANGELOG.md", mode: 0o644, bytes: read("CHANGELOG.md")? },
        Entry { path: "usr/share/doc/tidelake/copyright", mode: 0o644, bytes: read("LICENSE")? },
        Entry { path: "usr/share/doc/tidelake/THIRD-PARTY.txt", mode: 0o644, bytes: notices(&packages).into_bytes() },
    ];
    fs::remove_file(&program)?;

    let triple = build.triple();
    let stem = format!("tidelake-{VERSION}-{triple}");
    let flat = |entry: &Entry| format!("{stem}/{}", entry.path.rsplit('/').next().unwrap_or(entry.path));
    let files = [
        (format!("{stem}.tar.gz"), tarball(&entries, build.compression(), flat)?),
        (
            format!("tidelake_{VERSION}_{}.deb", architecture(&triple)),
            debian(&entries, build.compression(), &triple, glibc)?,
        ),
        (format!("tidelake-{VERSION}.cdx.json"), serde_json::to_vec_pretty(&bill(&packages))?),
    ];
    let mut sums = String::new();
    for (name, bytes) in &files {
        fs::write(out.join(name), bytes).with_context(|| format!("write {name}"))?;
        writeln!(sums, "{}  {name}", hex(&Sha256::digest(bytes)))?;
        println!("{}: {} bytes", out.join(name).display(), bytes.len());
    }
    fs::write(out.join("SHA256SUMS"), sums)?;
    println!("needs glibc {}.{} or newer", glibc.0, glibc.1);
    Ok(())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
}

/// Debian's name of the machine in a target triple.
fn architecture(triple: &str) -> &str {
    match triple.split('-').next() {
        Some("x86_64") => "amd64",
        Some("aarch64") => "arm64",
        other => other.unwrap_or(triple),
    }
}

/// A compressed tar archive. Owner and time are fixed, so equal inputs give equal bytes.
fn tarball(entries: &[Entry], level: Compression, name: impl Fn(&Entry) -> String) -> Result<Vec<u8>> {
    let mut archive = tar::Builder::new(GzEncoder::new(Vec::new(), level));
    for entry in entries {
        append(&mut archive, &name(entry), entry.mode, &entry.bytes)?;
    }
    Ok(archive.into_inner()?.finish()?)
}

fn append(archive: &mut tar::Builder<impl Write>, name: &str, mode: u32, bytes: &[u8]) -> Result<()> {
    let mut header = tar::Header::new_gnu();
    header.set_mode(mode);
    header.set_size(bytes.len() as u64);
    header.set_mtime(0);
    archive.append_data(&mut header, name, bytes).with_context(|| format!("archive {name}"))
}

/// A Debian package, version 2.0 of the format: an ar archive of the format's version, the control files and the data.
fn debian(entries: &[Entry], level: Compression, triple: &str, glibc: Glibc) -> Result<Vec<u8>> {
    let kib = entries.iter().map(|entry| entry.bytes.len().div_ceil(1_024)).sum::<usize>();
    let control = format!(
        "Package: tidelake\nVersion: {VERSION}\nArchitecture: {}\nMaintainer: Tidelake contributors\nInstalled-Size: {kib}\n\
         Depends: libc6 (>= {}.{}), libgcc-s1\nSection: database\nPriority: optional\n\
         Description: serverless time-series database on object storage\n \
         Stores metrics as Parquet files in a directory or a bucket and answers SQL\n over HTTP and Arrow Flight SQL.\n",
        architecture(triple),
        glibc.0,
        glibc.1,
    );
    let control = Entry { path: "control", mode: 0o644, bytes: control.into_bytes() };
    let members = [
        ("debian-binary", b"2.0\n".to_vec()),
        ("control.tar.gz", tarball(&[control], level, |entry| format!("./{}", entry.path))?),
        ("data.tar.gz", tarball(entries, level, |entry| format!("./{}", entry.path))?),
    ];
    let mut archive = b"!<arch>\n".to_vec();
    for (name, bytes) in members {
        // Name, time, owner, group, mode, size, end of the header; each member begins at an even offset.
        writeln!(archive, "{name:<16}{:<12}{:<6}{:<6}{:<8}{:<10}`", 0, 0, 0, "100644", bytes.len())?;
        archive.extend(&bytes);
        if bytes.len() % 2 == 1 {
            archive.push(b'\n');
        }
    }
    Ok(archive)
}

/// The packages that are linked into the program, from `cargo metadata`, in order of their names.
fn packages(build: &Build) -> Result<Vec<Value>> {
    let output = cargo(build.workspace())
        .args(["metadata", "--locked", "--format-version", "1", "--filter-platform", &build.triple()])
        .output()
        .context("start cargo")?;
    ensure!(output.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
    linked(&serde_json::from_slice(&output.stdout)?)
}

fn linked(metadata: &Value) -> Result<Vec<Value>> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let (all, nodes) = (list(&metadata["packages"]), list(&metadata["resolve"]["nodes"]));
    let program = all.iter().find(|package| package["name"] == PROGRAM).context("no package tidelake")?;
    let mut reached = vec![program["id"].clone()];
    let mut next = 0;
    while let Some(id) = reached.get(next).cloned() {
        next += 1;
        for dependency in nodes.iter().filter(|node| node["id"] == id).flat_map(|node| list(&node["deps"])) {
            // A kind that is null is a normal dependency: those for builds and tests are not in the program.
            let is_normal = list(&dependency["dep_kinds"]).iter().any(|kind| kind["kind"].is_null());
            if is_normal && !reached.contains(&dependency["pkg"]) {
                reached.push(dependency["pkg"].clone());
            }
        }
    }
    let mut packages: Vec<Value> = all.into_iter().filter(|package| reached.contains(&package["id"])).collect();
    packages.sort_by_key(|package| (package["name"].to_string(), package["version"].to_string()));
    Ok(packages)
}

fn text<'a>(package: &'a Value, key: &str) -> &'a str {
    package[key].as_str().unwrap_or_default()
}

/// The licences of the packages from other authors.
fn notices(packages: &[Value]) -> String {
    let mut notices = format!("The program tidelake {VERSION} contains these packages, under their own licences:\n\n");
    for package in packages.iter().filter(|package| !package["source"].is_null()) {
        let (name, version, licence) = (text(package, "name"), text(package, "version"), text(package, "license"));
        notices += &format!("{name} {version}: {licence}\n");
    }
    notices
}

/// The bill of materials in the format CycloneDX 1.5.
fn bill(packages: &[Value]) -> Value {
    let component = |package: &Value| {
        let (name, version) = (text(package, "name"), text(package, "version"));
        json!({
            "type": "library",
            "name": name,
            "version": version,
            "purl": format!("pkg:cargo/{name}@{version}"),
            "licenses": [{ "expression": text(package, "license").replace('/', " OR ") }],
        })
    };
    let others = packages.iter().filter(|package| text(package, "name") != PROGRAM);
    json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": { "component": { "type": "application", "name": PROGRAM, "version": VERSION } },
        "components": others.map(component).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    fn entries() -> [Entry; 2] {
        [
            Entry { path: "usr/bin/tidelake", mode: 0o755, bytes: b"program".to_vec() },
            Entry { path: "usr/share/doc/tidelake/README.md", mode: 0o644, bytes: b"read me".to_vec() },
        ]
    }

    fn unpacked(archive: &[u8]) -> Vec<(String, u32, String)> {
        let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(archive));
        let read = |file: std::io::Result<tar::Entry<'_, _>>| {
            let mut file = file.unwrap();
            let (path, mode) = (file.path().unwrap().display().to_string(), file.header().mode().unwrap());
            let mut content = String::new();
            let _: usize = file.read_to_string(&mut content).unwrap();
            (path, mode, content)
        };
        archive.entries().unwrap().map(read).collect()
    }

    #[test]
    fn a_version_of_glibc_is_two_numbers() {
        assert_eq!(glibc("2.28").unwrap(), (2, 28));
        for text in ["2", "2.x", "v2.28", "2.28.1", ""] {
            assert!(
                glibc(text).unwrap_err().to_string().contains("expected a version of glibc such as 2.28"),
                "{text}"
            );
        }
    }

    #[test]
    fn a_tarball_holds_all_files_with_their_modes_and_equal_inputs_give_equal_bytes() {
        let made = || tarball(&entries(), Compression::best(), |entry| format!("t/{}", entry.path)).unwrap();
        assert_eq!(
            unpacked(&made()),
            [
                ("t/usr/bin/tidelake".to_owned(), 0o755, "program".to_owned()),
                ("t/usr/share/doc/tidelake/README.md".to_owned(), 0o644, "read me".to_owned()),
            ]
        );
        assert_eq!(made(), made());
    }

    /// `dpkg-deb` reads the package in `tests/dist/run`.
    #[test]
    fn members_of_a_debian_package_begin_at_even_offsets() {
        let package = debian(&entries(), Compression::best(), "x86_64-unknown-linux-gnu", (2, 34)).unwrap();
        let (mut at, mut names) = (8, Vec::new());
        while at < package.len() {
            assert_eq!(at % 2, 0);
            let header = std::str::from_utf8(&package[at..at + 60]).unwrap();
            let size: usize = header[48..58].trim().parse().unwrap();
            names.push(header[..16].trim().to_owned());
            if names.len() == 2 {
                let control = unpacked(&package[at + 60..at + 60 + size]).remove(0);
                assert!(
                    control.2.contains("Architecture: amd64\n") && control.2.contains("libc6 (>= 2.34)"),
                    "{control:?}"
                );
            }
            at += 60 + size + size % 2;
        }
        assert_eq!(names, ["debian-binary", "control.tar.gz", "data.tar.gz"]);
    }

    #[test]
    fn only_packages_that_the_program_links_are_listed() {
        let dependency = |id: &str, kind: Value| json!({ "pkg": id, "dep_kinds": [{ "kind": kind }] });
        let package = |name: &str| json!({ "id": name, "name": name, "version": "1.0.0", "license": "MIT", "source": "registry" });
        let metadata = json!({
            "packages": [package("tidelake"), package("b"), package("a"), package("builder"), package("tester"), package("other")],
            "resolve": { "nodes": [
                { "id": "tidelake", "deps": [dependency("a", Value::Null), dependency("tester", "dev".into())] },
                { "id": "a", "deps": [dependency("b", Value::Null), dependency("builder", "build".into())] },
                { "id": "b", "deps": [dependency("a", Value::Null)] },
                { "id": "other", "deps": [] },
            ] },
        });
        let found = linked(&metadata).unwrap();
        assert_eq!(found.iter().map(|package| text(package, "name")).collect::<Vec<_>>(), ["a", "b", "tidelake"]);
        assert!(notices(&found).ends_with("a 1.0.0: MIT\nb 1.0.0: MIT\ntidelake 1.0.0: MIT\n"));
        let bill = bill(&found);
        assert_eq!(bill["components"].as_array().unwrap().len(), 2);
        assert_eq!(bill["components"][0]["purl"], "pkg:cargo/a@1.0.0");
    }
}
