//! Builds programs and packages them into zips.

use std::{
    ffi::OsString,
    fs::{self, File},
    io::Write as _,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, bail, ensure};
use flate2::Compression;
use object::{Object as _, ObjectSection as _};
use zip::{CompressionMethod, ZipWriter, write::SimpleFileOptions};

use crate::{cargo, target_directory};

/// A function: program, build profile and maximum size of its zip in bytes.
struct Function {
    program: &'static str,
    profile: &'static str,
    most: u64,
}

/// A direct upload is limited to 50 MB. The ingest functions start often, and small programs start fast.
const FUNCTIONS: [Function; 4] = [
    Function { program: "ingest-http", profile: "function", most: 8_000_000 },
    Function { program: "ingest-queue", profile: "function", most: 8_000_000 },
    Function { program: "compact", profile: "function", most: 8_000_000 },
    Function { program: "query-http", profile: "release", most: 50_000_000 },
];

/// Packages by build profile: server and queries for speed, the others for size.
const BUILDS: [(&str, &[&str]); 2] =
    [("release", &["tidelake", "tidelake-query-lambda"]), ("function", &["tidelake-ingest-lambda"])];

/// A version of glibc: major and minor number.
pub(crate) type Glibc = (u32, u32);

/// glibc version of Amazon Linux 2023.
pub(crate) const GLIBC: Glibc = (2, 34);

/// Build variable of jemalloc: log2 of the largest page size.
const JEMALLOC_PAGE: &str = "JEMALLOC_SYS_WITH_LG_PAGE";

/// A build and its directories.
pub(crate) struct Build {
    workspace: PathBuf,
    target: Option<String>,
    /// Whether the programs are of the profile `dev`, which has no size limit.
    dev: bool,
    tools: Tools,
}

/// Tools that build and start programs of a target.
struct Tools {
    /// Cross linker: variable and name of Debian's program.
    linker: Option<(String, String)>,
    strip: OsString,
    /// Emulator that starts the target's programs, if installed; empty for this machine.
    emulator: Option<Vec<String>>,
}

impl Tools {
    /// Tools of this machine, or those of Debian's packages such as `gcc-aarch64-linux-gnu` and `qemu-user`. Cargo's
    /// variables and STRIP take precedence.
    fn of(target: Option<&str>) -> Self {
        let chosen = std::env::var_os("STRIP");
        let machine = target.and_then(|target| target.split('-').next()).filter(|of| *of != std::env::consts::ARCH);
        let (Some(target), Some(machine)) = (target, machine) else {
            return Self { linker: None, strip: chosen.unwrap_or_else(|| "strip".into()), emulator: Some(Vec::new()) };
        };
        let variable = format!("CARGO_TARGET_{}_LINKER", target.to_uppercase().replace('-', "_"));
        let linker = std::env::var_os(&variable).is_none();
        let emulator = format!("qemu-{machine}");
        let is_installed = Command::new(&emulator).arg("--version").output().is_ok_and(|done| done.status.success());
        Self {
            linker: linker.then(|| (variable, format!("{machine}-linux-gnu-gcc"))),
            strip: chosen.unwrap_or_else(|| format!("{machine}-linux-gnu-strip").into()),
            emulator: is_installed.then(|| vec![emulator, "-L".to_owned(), format!("/usr/{machine}-linux-gnu")]),
        }
    }

    /// Command that starts a program; `None` if the target's programs cannot run here.
    fn start(&self, program: &Path) -> Option<Command> {
        Some(match self.emulator.as_ref()?.split_first() {
            None => Command::new(program),
            Some((emulator, arguments)) => {
                let mut command = Command::new(emulator);
                command.args(arguments).arg(program);
                command
            }
        })
    }
}

impl Build {
    pub(crate) fn new(target: Option<String>, dev: bool) -> Result<Self> {
        let tools = Tools::of(target.as_deref());
        Ok(Self { workspace: crate::workspace()?, target, dev, tools })
    }

    /// Builds the server and all functions.
    pub(crate) fn run(&self) -> Result<()> {
        BUILDS.iter().try_for_each(|(profile, packages)| self.build(profile, packages))
    }

    /// Builds packages with a profile, or with `dev`.
    pub(crate) fn build(&self, profile: &str, packages: &[&str]) -> Result<()> {
        let profile = if self.dev { "dev" } else { profile };
        let mut cargo = cargo(&self.workspace);
        cargo.args(["build", "--locked", "--profile", profile]);
        for package in packages {
            cargo.args(["-p", package]);
        }
        if let Some(target) = &self.target {
            cargo.args(["--target", target]);
        }
        if let Some((variable, linker)) = &self.tools.linker {
            cargo.env(variable, linker);
        }
        // arm64 kernels have pages of 4, 16 or 64 KiB; jemalloc supports pages up to the size it was built for.
        let machine = self.target.as_deref().unwrap_or(std::env::consts::ARCH);
        if machine.starts_with("aarch64") && std::env::var_os(JEMALLOC_PAGE).is_none() {
            cargo.env(JEMALLOC_PAGE, "16");
        }
        let status = cargo.status().context("start cargo")?;
        ensure!(status.success(), "cargo build --profile {profile} ended with {status}");
        Ok(())
    }

    /// Links a built program of the profile `release` again, for an older glibc than that of this machine. The linker is
    /// Zig's, which has the symbols of every version of glibc; it is installed into the target directory.
    ///
    /// # Errors
    /// Python or the package registry is unavailable, cargo fails, or the program still needs a newer glibc.
    pub(crate) fn link_for(&self, program: &str, (major, minor): Glibc) -> Result<()> {
        let python = self.zig()?;
        let triple = self.triple();
        let machine = triple.split('-').next().unwrap_or_default();
        let linker = target_directory(&self.workspace).join(format!("link-{machine}-glibc-{major}.{minor}"));
        let script = format!(
            "#!/bin/sh\nexec '{}' -m ziglang cc -target {machine}-linux-gnu.{major}.{minor} \"$@\"\n",
            python.display()
        );
        fs::write(&linker, script).with_context(|| format!("write {}", linker.display()))?;
        fs::set_permissions(&linker, fs::Permissions::from_mode(0o755))?;
        let mut cargo = cargo(&self.workspace);
        cargo.args(["rustc", "--locked", "--profile", "release", "-p", program]);
        cargo.args(["--bin", program]);
        if let Some(target) = &self.target {
            cargo.args(["--target", target]);
        }
        // The option of the last crate alone: all others are as `build` left them.
        cargo.args(["--", "-C"]).arg(format!("linker={}", linker.display()));
        let status = cargo.status().context("start cargo")?;
        ensure!(status.success(), "cargo rustc -p {program} ended with {status}");
        check_glibc(&self.program(program), (major, minor)).map(|_| ())
    }

    /// The Python that has Zig; installed from `requirements.txt` if it is not.
    fn zig(&self) -> Result<PathBuf> {
        let environment = target_directory(&self.workspace).join("zig");
        let python = environment.join("bin/python");
        if Command::new(&python).args(["-m", "ziglang", "version"]).output().is_ok_and(|done| done.status.success()) {
            return Ok(python);
        }
        let requirements = self.workspace.join("infra/package/requirements.txt");
        let mut venv = Command::new("python3");
        venv.args(["-m", "venv"]).arg(&environment);
        let mut pip = Command::new(&python);
        pip.args(["-m", "pip", "install", "--quiet", "--require-hashes", "-r"]).arg(requirements);
        for mut command in [venv, pip] {
            let status = command.status().with_context(|| format!("start {command:?}"))?;
            ensure!(status.success(), "{command:?} ended with {status}");
        }
        Ok(python)
    }

    /// How well archives are compressed: quickly for tests.
    pub(crate) fn compression(&self) -> Compression {
        if self.dev { Compression::fast() } else { Compression::best() }
    }

    pub(crate) fn workspace(&self) -> &Path {
        &self.workspace
    }

    /// The target triple of the programs.
    pub(crate) fn triple(&self) -> String {
        self.target.clone().unwrap_or_else(|| format!("{}-unknown-linux-gnu", std::env::consts::ARCH))
    }

    /// The path of a built program of the profile `release`, or `dev`.
    pub(crate) fn program(&self, name: &str) -> PathBuf {
        let profile = if self.dev { "debug" } else { "release" };
        target_directory(&self.workspace).join(self.target.as_deref().unwrap_or_default()).join(profile).join(name)
    }

    /// Creates and checks the zips and the image context.
    #[expect(clippy::print_stdout, reason = "a task says what it made")]
    pub(crate) fn package(&self, out: Option<PathBuf>) -> Result<()> {
        let target = target_directory(&self.workspace);
        let out = out.unwrap_or_else(|| self.workspace.join("target/package"));
        let programs = target.join(self.target.as_deref().unwrap_or_default());
        for function in &FUNCTIONS {
            // One directory per function, as the platform unpacks it.
            let directory = out.join(function.program);
            let bootstrap = directory.join("bootstrap");
            fs::create_dir_all(&directory).with_context(|| format!("make {}", directory.display()))?;
            let profile = if self.dev { "debug" } else { function.profile };
            self.strip(&programs.join(profile).join(function.program), &bootstrap)?;
            let needs = check_glibc(&bootstrap, GLIBC)?;
            let started = match self.tools.start(&bootstrap) {
                Some(start) => check_start(start, &bootstrap).map(|()| "starts")?,
                None => "not started: no emulator installed",
            };
            let zip = out.join(format!("{}.zip", function.program));
            let bytes = zipped(&bootstrap, &zip, if self.dev { 1 } else { 9 })?;
            let most = if self.dev { u64::MAX } else { function.most };
            ensure!(bytes <= most, "{}: expected at most {most} bytes, found {bytes}", zip.display());
            println!("{}: {bytes} bytes, glibc {}.{}, {started}", zip.display(), needs.0, needs.1);
        }
        let image = out.join("image");
        fs::create_dir_all(&image).with_context(|| format!("make {}", image.display()))?;
        self.strip(&self.program("tidelake"), &image.join("tidelake"))?;
        check_glibc(&image.join("tidelake"), GLIBC)?;
        let dockerfile = self.workspace.join("infra/image/Dockerfile");
        fs::copy(&dockerfile, image.join("Dockerfile")).with_context(|| format!("copy {}", dockerfile.display()))?;
        println!("{}: docker build {0}", image.display());
        Ok(())
    }

    /// Copies a program without symbols.
    pub(crate) fn strip(&self, from: &Path, to: &Path) -> Result<()> {
        let strip = &self.tools.strip;
        let status = Command::new(strip).arg("-o").arg(to).arg(from).status();
        let status = status
            .with_context(|| format!("start {} (of binutils; set STRIP to use another program)", strip.display()))?;
        ensure!(status.success(), "{} {} ended with {status}", strip.display(), from.display());
        Ok(())
    }
}

/// Newest glibc version that a program needs.
///
/// # Errors
/// The version is newer than `most`.
pub(crate) fn check_glibc(program: &Path, most: Glibc) -> Result<Glibc> {
    let bytes = fs::read(program).with_context(|| format!("read {}", program.display()))?;
    let file = object::File::parse(&*bytes).with_context(|| format!("{} is not a program", program.display()))?;
    let names = file.section_by_name(".dynstr").context("program has no dynamic string table")?;
    let needs = newest_glibc(names.data()?).context("program names no glibc version")?;
    if needs > most {
        let (major, minor) = most;
        bail!("{}: expected glibc {major}.{minor} at most, found {}.{}", program.display(), needs.0, needs.1);
    }
    Ok(needs)
}

fn newest_glibc(names: &[u8]) -> Option<Glibc> {
    let versions = names.split(|byte| *byte == 0).filter_map(|name| {
        let mut numbers = std::str::from_utf8(name).ok()?.strip_prefix("GLIBC_")?.split('.');
        Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
    });
    versions.max()
}

/// Checks that a function starts: without settings it must end with an error that names the missing one.
fn check_start(mut start: Command, bootstrap: &Path) -> Result<()> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let output = start.env_clear().env("PATH", path).output();
    let output = output.with_context(|| format!("start {}", bootstrap.display()))?;
    let told = String::from_utf8_lossy(&output.stderr);
    ensure!(told.contains("TIDELAKE_STORE"), "{} does not start: {told}", bootstrap.display());
    Ok(())
}

/// Writes a bootstrap into a zip as an executable and returns the zip's size.
fn zipped(bootstrap: &Path, zip: &Path, level: i64) -> Result<u64> {
    let context = || format!("write {}", zip.display());
    let mut writer = ZipWriter::new(File::create(zip).with_context(context)?);
    let options = SimpleFileOptions::default()
        .compression_method(CompressionMethod::Deflated)
        .compression_level(Some(level))
        .unix_permissions(0o755);
    writer.start_file("bootstrap", options).with_context(context)?;
    writer.write_all(&fs::read(bootstrap)?).with_context(context)?;
    writer.finish().with_context(context)?;
    Ok(fs::metadata(zip)?.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_version_counts_and_numbers_are_not_text() {
        assert_eq!(newest_glibc(b"\0libc.so.6\0GLIBC_2.9\0GLIBC_2.34\0GLIBC_2.2.5\0GLIBC_PRIVATE\0"), Some((2, 34)));
        assert_eq!(newest_glibc(b"\0libc.so.6\0"), None);
        assert!((2, 36) > GLIBC && (2, 9) < GLIBC);
    }

    #[test]
    fn a_zip_holds_a_program_that_may_be_run() {
        let directory = tempfile::tempdir().unwrap();
        let (bootstrap, zip) = (directory.path().join("bootstrap"), directory.path().join("f.zip"));
        fs::write(&bootstrap, "#!/bin/sh\n".repeat(1_000)).unwrap();
        assert!(zipped(&bootstrap, &zip, 9).unwrap() < 1_000);
        let mut archive = zip::ZipArchive::new(File::open(zip).unwrap()).unwrap();
        let file = archive.by_index(0).unwrap();
        assert_eq!(
            (file.name().unwrap(), file.unix_mode().map(|mode| mode & 0o777)),
            ("bootstrap".into(), Some(0o755))
        );
    }
}
