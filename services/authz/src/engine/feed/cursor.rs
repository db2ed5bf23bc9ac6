//! The position of a reader in the change log: the snapshot of its last statement, `xmin:xmax:` and the transactions
//! that were running between the two. Pure.

/// The bounds of a snapshot: every transaction before `xmin` had ended, none from `xmax` on had started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Bounds {
    xmin: u64,
    xmax: u64,
}

impl Bounds {
    fn parse(snapshot: &str) -> Option<Self> {
        let mut parts = snapshot.split(':');
        let mut next = || parts.next()?.parse().ok();
        Some(Self { xmin: next()?, xmax: next()? })
    }
}

/// Whether no transaction was running at the cursor (no number follows `xmin:xmax:`), so that only later ones are
/// missing.
pub(crate) fn is_quiet(cursor: &str) -> bool {
    cursor.ends_with(':')
}

/// Checks that a log trimmed up to `trimmed` and read at `snapshot` continues from `cursor`.
///
/// # Errors
/// The reason why it does not.
pub(crate) fn continues(cursor: &str, snapshot: &str, trimmed: &str) -> Result<(), &'static str> {
    let bounds = Bounds::parse(cursor).zip(Bounds::parse(snapshot));
    let Some(((cursor, now), trimmed)) = bounds.zip(trimmed.parse::<u64>().ok()) else {
        return Err("a snapshot that cannot be read");
    };
    if now.xmax < cursor.xmax || now.xmin < cursor.xmin {
        return Err("the database was put back to an earlier state");
    }
    // Rows of transactions that were running at the cursor may have been removed since.
    if trimmed > cursor.xmin {
        return Err("the change log no longer holds everything since the cursor");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_goes_on_only_forward_and_only_whole() {
        for (cursor, snapshot, trimmed, right) in [
            ("10:10:", "10:10:", "0", true),
            ("10:10:", "12:15:12,13", "10", true),
            ("10:15:10,12", "15:15:", "10", true),
            // One number back, then far back.
            ("10:15:10", "10:14:10", "0", false),
            ("10:15:10", "9:15:9", "0", false),
            ("5000:5000:", "800:800:", "0", false),
            // Trimmed up to the cursor, then one past it.
            ("10:10:", "20:20:", "10", true),
            ("10:10:", "20:20:", "11", false),
            // A transaction that was running at the cursor may have written a row that was trimmed.
            ("10:15:10", "20:20:", "11", false),
            ("", "20:20:", "0", false),
            ("10:10:", "20", "0", false),
            ("10:10:", "20:20:", "", false),
            // Transaction numbers exceed 32 bits.
            ("4294967295:4294967295:", "4294967297:4294967297:", "4294967295", true),
        ] {
            assert_eq!(continues(cursor, snapshot, trimmed).is_ok(), right, "{cursor} {snapshot} {trimmed}");
        }
    }

    #[test]
    fn a_cursor_is_quiet_when_nothing_ran_at_it() {
        assert!(is_quiet("10:10:"));
        assert!(!is_quiet("10:12:10,11"));
    }
}
