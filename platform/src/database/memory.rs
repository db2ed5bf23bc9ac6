//! How much memory the own database server gets for its pages.

use std::fs;

/// PostgreSQL's default, in MB.
const LEAST_MB: u64 = 128;
/// The pages of a company of some hundred thousand records; beyond that, the kernel's cache serves as well.
const MOST_MB: u64 = 1_024;

/// The server's `shared_buffers`: a quarter of the machine's memory or of the control group's limit, as PostgreSQL's
/// manual recommends, from 128 MB, which is also the answer where neither is known, to 1 GB.
pub(super) fn shared_buffers() -> String {
    let read = |path| fs::read_to_string(path).ok();
    let megabytes = quarter(read("/proc/meminfo").as_deref(), read("/sys/fs/cgroup/memory.max").as_deref());
    format!("{megabytes}MB")
}

fn quarter(meminfo: Option<&str>, limit: Option<&str>) -> u64 {
    let machine = meminfo.and_then(|text| text.lines().find_map(|line| line.strip_prefix("MemTotal:")));
    let machine = machine.and_then(|rest| rest.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    // Without a limit, the file says "max".
    let limit = limit.and_then(|text| text.trim().parse::<u64>().ok()).map(|bytes| bytes / 1_024);
    let kilobytes = machine.into_iter().chain(limit).min().unwrap_or_default();
    (kilobytes / 1_024 / 4).clamp(LEAST_MB, MOST_MB)
}

#[cfg(test)]
mod tests {
    use super::quarter;

    #[test]
    fn the_server_gets_a_quarter_within_bounds() {
        let machine = |kilobytes: u64| format!("MemTotal:       {kilobytes} kB\nMemFree:        12 kB\n");
        let of = |kilobytes, limit| quarter(Some(&machine(kilobytes)), limit);
        assert_eq!(of(2 * 1_048_576, None), 512);
        assert_eq!(of(2 * 1_048_576, Some("max\n")), 512);
        assert_eq!(of(24 * 1_048_576, None), 1_024, "at most");
        assert_eq!(of(262_144, None), 128, "at least");
        assert_eq!(of(24 * 1_048_576, Some("1073741824\n")), 256, "a container's limit");
        assert_eq!(of(1_048_576, Some("68719476736\n")), 256, "a limit above the machine's memory");
        assert_eq!(quarter(None, None), 128);
        assert_eq!(quarter(Some("nonsense"), Some("nonsense")), 128);
    }
}
