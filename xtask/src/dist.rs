//! Builds the release programs `platform` and `gateway`: optimised across crates with the recorded profile, stripped,
//! each with its debug information in a separate file. `--train` first records a new profile.

use std::collections::HashSet;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};

const PROGRAMS: [&str; 2] = ["platform", "gateway"];
/// The profile, compressed with xz.
const PROFILE: &str = "xtask/pgo/release.profdata.xz";
/// Output of `rustc -vV` when the profile was recorded. A profile fits no other compiler.
const COMPILER: &str = "xtask/pgo/compiler";
/// Symbols of the profile's functions in [`PROFILED`].
const FUNCTIONS: &str = "xtask/pgo/functions";
/// The crates whose functions the profile is for above all, how their symbols begin, and a program with them.
const PROFILED: [(&str, &str, &str); 2] =
    [("edge", "_ZN4edge", "gateway"), ("authz", "_ZN5authz", "platform")];

pub(crate) fn run(root: &Path, options: &[String]) -> anyhow::Result<Vec<String>> {
    match options.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        [] => {}
        ["--train"] => succeed(Command::new(root.join("xtask/pgo/train")).current_dir(root))?,
        _ => bail!("usage: cargo xtask dist [--train]"),
    }
    let mut build = Command::new("cargo");
    build
        .args(["build", "--profile", "dist", "--package", "platform", "--package", "edge"])
        .current_dir(root);
    for program in PROGRAMS {
        build.args(["--bin", program]);
    }
    let profile = profile(root)?;
    let flags = profile.as_ref().map_or_else(String::new, |path| {
        // A function that changed since the profile was recorded is compiled without it; that needs no warning.
        format!("-Cprofile-use={} -Cllvm-args=-no-pgo-warn-mismatch", path.display())
    });
    if profile.is_none() {
        crate::say("dist: the profile was recorded with another compiler; building without it");
    }
    build.env("RUSTFLAGS", flags);
    succeed(&mut build)?;
    if profile.is_some() {
        say_what_is_not_profiled(root)?;
    }
    for program in PROGRAMS {
        split_debug_information(&root.join("target/dist").join(program))?;
    }
    Ok(Vec::new())
}

/// Unpacks the profile and returns its path, or `None` if this compiler is not the one it was recorded with.
fn profile(root: &Path) -> anyhow::Result<Option<PathBuf>> {
    if crate::output(root, "rustc", &["-vV"])? != std::fs::read_to_string(root.join(COMPILER))? {
        return Ok(None);
    }
    let packed = std::fs::read(root.join(PROFILE)).with_context(|| PROFILE.to_owned())?;
    let mut reader = liblzma::write::XzDecoder::new(Vec::new());
    reader.write_all(&packed)?;
    let unpacked = reader.finish().with_context(|| format!("{PROFILE} is not an xz file"))?;
    // Cargo rebuilds everything when a flag changes, so the path names the content, and when the file is written again.
    let path = root.join("target").join(format!("release-{}.profdata", checksum(&packed)));
    if std::fs::read(&path).ok().as_ref() != Some(&unpacked) {
        std::fs::create_dir_all(root.join("target"))?;
        std::fs::write(&path, unpacked)?;
    }
    Ok(Some(path))
}

/// Names the crates that were built without the profile. A symbol ends with a hash of its crate's dependencies, features and
/// build profile: after a change of one of these the profile has none of its functions, and the compiler does not say so.
fn say_what_is_not_profiled(root: &Path) -> anyhow::Result<()> {
    let recorded = std::fs::read_to_string(root.join(FUNCTIONS)).context(FUNCTIONS)?;
    for (name, prefix, program) in PROFILED {
        let built = crate::output(root, "nm", &["--defined-only", &format!("target/dist/{program}")])?;
        if !is_profiled(&recorded, prefix, &built) {
            crate::say(&format!(
                "dist: the profile fits no function of {name}: record it again with --train"
            ));
        }
    }
    Ok(())
}

/// Whether one of the recorded symbols that begin with `prefix` is among those that `nm` printed.
fn is_profiled(recorded: &str, prefix: &str, built: &str) -> bool {
    let built: HashSet<_> = built.lines().filter_map(|line| line.split_whitespace().last()).collect();
    recorded.lines().any(|name| name.starts_with(prefix) && built.contains(name))
}

/// Identifies a recorded profile in a file name.
fn checksum(bytes: &[u8]) -> String {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

/// Moves a program's debug information to `PROGRAM.debug`, which debuggers and `addr2line` find through the debug link.
fn split_debug_information(program: &Path) -> anyhow::Result<()> {
    let debug = program.with_extension("debug");
    let objcopy = || Command::new("objcopy");
    succeed(objcopy().arg("--only-keep-debug").arg(program).arg(&debug))?;
    let link = format!("--add-gnu-debuglink={}", debug.display());
    // Cargo has the same file under another name, and needs it whole for the next time.
    let stripped = program.with_extension("stripped");
    succeed(objcopy().arg("--strip-all").arg(link).arg(program).arg(&stripped))?;
    std::fs::rename(&stripped, program)?;
    crate::say(&format!("{} and {}", program.display(), debug.display()));
    Ok(())
}

fn succeed(command: &mut Command) -> anyhow::Result<()> {
    let status = command.status().with_context(|| format!("{command:?} did not start"))?;
    if !status.success() {
        bail!("{command:?}: {status}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crate_is_profiled_if_one_of_its_recorded_symbols_was_built() {
        let recorded = "_ZN4edge3one17haE\n_ZN4edge3two17hbE\n_ZN5authz3one17hcE\n";
        let built = "0000000000001000 t _ZN4edge3two17hbE\n0000000000002000 T _ZN5authz3one17hdE\n";
        assert!(is_profiled(recorded, "_ZN4edge", built));
        assert!(!is_profiled(recorded, "_ZN5authz", built), "another hash is another symbol");
    }
}
