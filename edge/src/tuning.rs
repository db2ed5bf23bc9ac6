//! Settings of the C library and the allocator. Both read them from the environment before `main`, so the program
//! executes itself once more with them set; process, arguments, descriptors and the rest of the environment stay. Also
//! raises the limit of open files as far as the system allows: a usual shell sets it to about a thousand, fewer than
//! the connections that the program may have.

use std::process::Command;

/// A variable and its value.
type Setting = (&'static str, &'static str);

/// mimalloc commits a gigabyte at startup, which the kernel backs with pages of two megabytes: a fresh gateway then
/// takes 22 MB instead of 12, and requests are no cheaper for it.
const COMMIT_AS_NEEDED: Setting = ("MIMALLOC_ARENA_EAGER_COMMIT", "0");
/// On AMD processors since Zen 3 the copy instruction that glibc prefers above a few kilobytes (`rep movsb`) is several
/// times slower than its loop unless source and target happen to be aligned. The plaintext of a TLS record never is,
/// and copying it costs more than encrypting it. No copy is as long as this gigabyte.
const NO_COPY_INSTRUCTION: Setting = ("GLIBC_TUNABLES", "glibc.cpu.x86_rep_movsb_threshold=1000000000");

/// Executes the program again with the settings that are missing, or returns at once if none is. Call it first, before
/// any thread exists.
pub fn start_tuned() {
    open_as_many_files_as_allowed();
    if cfg!(target_os = "linux") {
        let processor = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let missing = missing(&processor, |variable| std::env::var_os(variable).is_some());
        if !missing.is_empty() {
            start_again(&missing);
        }
    }
}

/// Raises the soft limit of open files. Everything works with fewer, only with fewer connections. Child processes
/// inherit the limit, and some iterate over all descriptors up to it, so the limit is capped even on a system that
/// allows a billion.
#[cfg(unix)]
fn open_as_many_files_as_allowed() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    const MOST: u64 = 1 << 20;
    let allowed = getrlimit(Resource::Nofile);
    let most = allowed.maximum.map_or(MOST, |maximum| maximum.min(MOST));
    if allowed.current.is_some_and(|current| current < most) {
        let wanted = Rlimit { current: Some(most), maximum: allowed.maximum };
        if let Err(error) = setrlimit(Resource::Nofile, wanted) {
            tracing::debug!(%error, "cannot raise the limit of open files");
        }
    }
}

#[cfg(not(unix))]
fn open_as_many_files_as_allowed() {}

/// The settings that suit this processor and that the operator has not set.
fn missing(processor: &str, is_set: impl Fn(&str) -> bool) -> Vec<Setting> {
    let first = processor.split("\n\n").next().unwrap_or_default();
    let prefers = first.lines().filter(|line| line.starts_with("flags")).any(|line| line.contains(" fsrm"));
    let slow =
        cfg!(all(target_env = "gnu", target_arch = "x86_64")) && first.contains("AuthenticAMD") && prefers;
    let wanted = [Some(COMMIT_AS_NEEDED), slow.then_some(NO_COPY_INSTRUCTION)];
    wanted.into_iter().flatten().filter(|(variable, _)| !is_set(variable)).collect()
}

#[cfg(unix)]
fn start_again(settings: &[Setting]) {
    use std::os::unix::process::CommandExt as _;
    let mut arguments = std::env::args_os();
    let Some(name) = arguments.next() else { return };
    let mut program = Command::new("/proc/self/exe");
    // `exec` returns only on failure; the program then works as it is, using slightly more memory and CPU.
    let error = program.arg0(name).args(arguments).envs(settings.iter().copied()).exec();
    tracing::debug!(%error, "cannot restart the program with settings for its machine");
}

#[cfg(not(unix))]
fn start_again(_: &[Setting]) {}

#[cfg(test)]
mod tests {
    use super::*;

    const AMD: &str =
        "processor\t: 0\nvendor_id\t: AuthenticAMD\nflags\t\t: fpu erms fsrm\n\nprocessor\t: 1\n";

    #[test]
    fn a_setting_is_missing_where_it_is_wanted_and_nobody_has_said_otherwise() {
        let variables = |processor: &str, set: &[&str]| -> Vec<_> {
            missing(processor, |variable| set.contains(&variable)).into_iter().map(|(name, _)| name).collect()
        };
        let (memory, copies) = (COMMIT_AS_NEEDED.0, NO_COPY_INSTRUCTION.0);
        if cfg!(all(target_env = "gnu", target_arch = "x86_64")) {
            assert_eq!(variables(AMD, &[]), [memory, copies]);
            assert_eq!(variables(AMD, &[memory]), [copies], "an operator's own");
        }
        assert!(variables(AMD, &[memory, copies]).is_empty(), "once");
        for other in [AMD.replace("AuthenticAMD", "GenuineIntel"), AMD.replace(" fsrm", ""), String::new()] {
            assert_eq!(variables(&other, &[]), [memory]);
            assert!(variables(&other, &[memory]).is_empty());
        }
    }
}
