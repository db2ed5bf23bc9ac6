//! What is kept of one target as it grows, its text and a number for each series, in memory of its own: asked of the
//! system, taken page by page as it is written, and given back whole. An allocator would keep what megabytes leave behind.

use std::fmt;

use bytes::Bytes;
use memmap2::MmapMut;

use super::TOTAL_BYTES;

/// Room for one text: all that targets may send together, and what the last bytes before the cut grow by when every line of
/// them gets its label. Only what is written takes memory.
const ROOM: usize = TOTAL_BYTES + (1 << 20);

/// A text that only grows.
#[derive(Debug, Default)]
pub(super) struct Text(Room);

/// Numbers that only become more.
#[derive(Debug, Default)]
pub(super) struct Numbers(Room);

#[derive(Debug, Default)]
struct Room {
    bytes: Option<MmapMut>,
    length: usize,
}

impl Room {
    /// Fails when the room is full, or the system has none.
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

    /// The whole, which nobody copies any more.
    pub(super) fn finish(self) -> Bytes {
        let Room { bytes, length } = self.0;
        bytes.map_or_else(Bytes::new, |bytes| Bytes::from_owner(bytes).slice(..length))
    }
}

impl fmt::Write for Text {
    /// Fails when there is no room.
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.put(text.as_bytes())
    }
}

impl Numbers {
    pub(super) const fn len(&self) -> usize {
        self.0.length / size_of::<u64>()
    }

    /// Fails when there is no room.
    pub(super) fn push(&mut self, number: u64) -> fmt::Result {
        self.0.put(&number.to_ne_bytes())
    }

    /// Whether one of them is there twice.
    pub(super) fn repeat(mut self) -> bool {
        let bytes = self.0.bytes.as_mut().and_then(|bytes| bytes.get_mut(..self.0.length));
        let (numbers, _) = bytes.unwrap_or_default().as_chunks_mut::<{ size_of::<u64>() }>();
        numbers.sort_unstable();
        numbers.windows(2).any(|pair| matches!(pair, [one, next] if one == next))
    }
}

#[cfg(test)]
mod tests {
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
            all.repeat()
        };
        assert!(!repeat(&[]) && !repeat(&[7]) && !repeat(&[7, 1 << 56, 256, 1]));
        assert!(repeat(&[7, 1, 7]));
    }
}
