//! What the C library is told before the program begins. On AMD's processors since Zen 3 the copy instruction that glibc
//! prefers for more than some kilobytes (`rep movsb`) is several times slower than its loop, unless source and target happen
//! to be aligned; the plaintext of a TLS record never is, and copying it costs more than encrypting it. glibc reads its
//! settings only at the start of a program, so the program starts itself once more. Process, arguments, descriptors and
//! the rest of the environment stay.

use std::ffi::OsStr;
use std::process::Command;

/// glibc's settings; an operator's own are left alone.
const TUNABLES: &str = "GLIBC_TUNABLES";
/// A gigabyte: no copy is long enough for the instruction.
const NO_COPY_INSTRUCTION: &str = "glibc.cpu.x86_rep_movsb_threshold=1000000000";

/// Starts the program again with the settings that it wants, or returns at once where it wants none. Call it first of all,
/// before there is a thread.
pub fn start_tuned() {
    if cfg!(all(target_os = "linux", target_env = "gnu", target_arch = "x86_64")) {
        let processor = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        if wants(&processor, std::env::var_os(TUNABLES).as_deref()) {
            start_again();
        }
    }
}

/// Whether the processor has the slow instruction, and nobody has given settings yet.
fn wants(processor: &str, tunables: Option<&OsStr>) -> bool {
    let first = processor.split("\n\n").next().unwrap_or_default();
    let prefers = first.lines().filter(|line| line.starts_with("flags")).any(|line| line.contains(" fsrm"));
    tunables.is_none() && first.contains("AuthenticAMD") && prefers
}

#[cfg(unix)]
fn start_again() {
    use std::os::unix::process::CommandExt as _;
    let mut arguments = std::env::args_os();
    let Some(name) = arguments.next() else { return };
    // It returns only when that is not possible; then everything works as it is, a little slower.
    let error =
        Command::new("/proc/self/exe").arg0(name).args(arguments).env(TUNABLES, NO_COPY_INSTRUCTION).exec();
    tracing::debug!(%error, "the program could not be started with settings for its processor");
}

#[cfg(not(unix))]
fn start_again() {}

#[cfg(test)]
mod tests {
    use super::*;

    const AMD: &str =
        "processor\t: 0\nvendor_id\t: AuthenticAMD\nflags\t\t: fpu erms fsrm\n\nprocessor\t: 1\n";

    #[test]
    fn only_where_the_instruction_is_slow_and_nobody_has_said_otherwise() {
        assert!(wants(AMD, None));
        assert!(!wants(AMD, Some(OsStr::new(NO_COPY_INSTRUCTION))), "once");
        assert!(!wants(AMD, Some(OsStr::new(""))), "an operator's own");
        assert!(!wants(&AMD.replace("AuthenticAMD", "GenuineIntel"), None));
        assert!(!wants(&AMD.replace(" fsrm", ""), None));
        assert!(!wants("", None));
    }
}
