//! Growing buffers for one target's text and series hashes, each in its own memory mapping: committed page by page as
//! it is written, and unmapped as a whole. An allocator would keep the freed megabytes.

use std::fmt;

use bytes::Bytes;
use memmap2::MmapMut;

use crate::aggregate::TOTAL_BYTES;

/// Address space of one text: the maximum of all targets together, plus the labels added to the last bytes before the
/// cut. Only written pages take memory.
const ROOM: usize = TOTAL_BYTES + (1 << 20);

/// Numbers sorted in one step: some 20 us.
const SORTED_AT_ONCE: usize = 1 << 10;

/// An append-only text.
#[derive(Debug, Default)]
pub(super) struct Text(Room);

/// An append-only list of numbers.
#[derive(Debug, Default)]
pub(super) struct Numbers(Room);

#[derive(Debug, Default)]
struct Room {
    bytes: Option<MmapMut>,
    length: usize,
}

impl Room {
    /// Fails when the buffer is full, or the system has no memory.
    fn put(&mut self, more: &[u8]) -> fmt::Result {
        let bytes = match &mut self.bytes {
            Some(bytes) => bytes,
            none => none.insert(MmapMut::map_anon(ROOM).map_err(|_| fmt::Error)?),
        };
        let end = self.length.saturating_add(more.len());
        bytes.get_mut(self.length..end).ok_or(fmt::Error)?.copy_from_slice(more);
        self.length = end;
        Ok(())
    }
}

impl Text {
    pub(super) const fn len(&self) -> usize {
        self.0.length
    }

    /// Returns the whole text without copying it.
    pub(super) fn finish(self) -> Bytes {
        let Room { bytes, length } = self.0;
        bytes.map_or_else(Bytes::new, |bytes| Bytes::from_owner(bytes).slice(..length))
    }
}

impl fmt::Write for Text {
    /// Fails when the buffer is full.
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.put(text.as_bytes())
    }
}

impl Numbers {
    pub(super) const fn len(&self) -> usize {
        self.0.length / size_of::<u64>()
    }

    /// Fails when the buffer is full.
    pub(super) fn push(&mut self, number: u64) -> fmt::Result {
        self.0.put(&number.to_ne_bytes())
    }

    /// Whether any number occurs twice. Calls `between` after each step, each of which is short.
    pub(super) fn repeat(mut self, between: impl Fn()) -> bool {
        let bytes = self.0.bytes.as_mut().and_then(|bytes| bytes.get_mut(..self.0.length));
        let (numbers, _) = bytes.unwrap_or_default().as_chunks_mut::<{ size_of::<u64>() }>();
        sort(numbers, &between);
        numbers.windows(2).any(|pair| matches!(pair, [one, next] if one == next))
    }
}

/// Splits inputs that are too large for one step.
fn sort<T: Ord>(numbers: &mut [T], between: &impl Fn()) {
    if numbers.len() > SORTED_AT_ONCE {
        let (low, _, high) = numbers.select_nth_unstable(numbers.len() / 2);
        between();
        sort(low, between);
        sort(high, between);
    } else {
        numbers.sort_unstable();
        between();
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::fmt::Write;

    use super::*;

    #[test]
    fn it_holds_what_was_written_up_to_its_room_and_no_more() {
        let mut text = Text::default();
        let piece = "x".repeat(1 << 20);
        for _ in 0..ROOM >> 20 {
            text.write_str(&piece).expect("there is room");
        }
        assert_eq!(text.write_str("y"), Err(fmt::Error));
        assert_eq!(text.len(), ROOM);
        assert!(text.finish().iter().all(|byte| *byte == b'x'));
        assert!(Text::default().finish().is_empty());
    }

    #[test]
    fn a_number_that_is_there_twice_is_found() {
        let repeat = |numbers: &[u64]| {
            let mut all = Numbers::default();
            numbers.iter().try_for_each(|number| all.push(*number)).expect("there is room");
            assert_eq!(all.len(), numbers.len());
            all.repeat(|| ())
        };
        assert!(!repeat(&[]) && !repeat(&[7]) && !repeat(&[7, 1 << 56, 256, 1]));
        assert!(repeat(&[7, 1, 7]));
        // Many steps, whatever the order.
        let many: Vec<u64> =
            (0..100_000_u64).map(|number| number.wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect();
        assert!(!repeat(&many));
        for number in [0, 1, 49_999, 99_999] {
            let again = many.get(number).copied();
            assert!(repeat(&many.iter().copied().chain(again).collect::<Vec<_>>()), "{number}");
        }
    }

    #[test]
    fn many_numbers_are_looked_at_in_steps() {
        let steps = Cell::new(0);
        let mut all = Numbers::default();
        (0..100_000).try_for_each(|number| all.push(number)).expect("there is room");
        assert!(!all.repeat(|| steps.set(steps.get() + 1)));
        assert!(steps.get() >= 100_000 / SORTED_AT_ONCE, "{}", steps.get());
    }
}
