//! The text that is kept of one target as it grows, in memory of its own: asked of the system, taken page by page as it is
//! written, and given back whole. An allocator would keep what megabytes leave behind.

use std::fmt;

use bytes::Bytes;
use memmap2::MmapMut;

use super::TOTAL_BYTES;

/// Room for one text: all that targets may send together, and what the last bytes before the cut grow by when every line of
/// them gets its label. Only what is written takes memory.
const ROOM: usize = TOTAL_BYTES + (1 << 20);

/// A text that only grows.
#[derive(Debug, Default)]
pub(super) struct Text {
    bytes: Option<MmapMut>,
    length: usize,
}

impl Text {
    pub(super) const fn len(&self) -> usize {
        self.length
    }

    /// The whole, which nobody copies any more.
    pub(super) fn finish(self) -> Bytes {
        let Self { bytes, length } = self;
        bytes.map_or_else(Bytes::new, |bytes| Bytes::from_owner(bytes).slice(..length))
    }
}

impl fmt::Write for Text {
    /// Fails when the room is full, or the system has none.
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let bytes = match &mut self.bytes {
            Some(bytes) => bytes,
            none => none.insert(MmapMut::map_anon(ROOM).map_err(|_| fmt::Error)?),
        };
        let end = self.length.saturating_add(text.len());
        bytes.get_mut(self.length..end).ok_or(fmt::Error)?.copy_from_slice(text.as_bytes());
        self.length = end;
        Ok(())
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
}
