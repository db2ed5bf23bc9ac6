//! Maps objects and subjects (`type:id`) to numbers and back. Most of them are in one immutable block: concatenated
//! ids, with a UUID as its 16 bytes, and a hash table of numbers only. Later names are in persistent maps, so that a
//! clone is cheap and a reader's copy never changes.

use std::cmp::Ordering;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use contract::id::parse_uuid;
use hashbrown::HashTable;
use uuid::Uuid;

use crate::engine::graph::words::{Full, Word};

/// The number of an object or subject in one graph.
pub(crate) type Node = u32;

/// A buffer for a UUID as text.
type UuidText = [u8; uuid::fmt::Urn::LENGTH];

/// Converts a `u32` to an index.
pub(crate) fn at(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

/// Encodes an id: a canonical lower-case UUID takes 17 bytes, any other id its length plus one.
fn encode(id: &str) -> Vec<u8> {
    const UUID_TEXT: usize = 36;
    let uuid = if id.len() == UUID_TEXT { parse_uuid(id) } else { None };
    let mut buffer = [0; UUID_TEXT];
    match uuid {
        Some(uuid) if uuid.hyphenated().encode_lower(&mut buffer) == id => {
            [&[1_u8], uuid.as_bytes().as_slice()].concat()
        }
        _ => [&[0], id.as_bytes()].concat(),
    }
}

fn decode(bytes: &[u8]) -> String {
    match bytes.split_first() {
        Some((1, uuid)) => Uuid::from_slice(uuid).map(text).unwrap_or_default(),
        Some((_, text)) => String::from_utf8_lossy(text).into_owned(),
        None => String::new(),
    }
}

/// Formats a UUID as its `Display` does, without the cost of the formatter.
fn text(uuid: Uuid) -> String {
    uuid.hyphenated().encode_lower(&mut Uuid::encode_buffer()).to_owned()
}

/// Names in one contiguous block.
#[derive(Debug, Default)]
struct Block {
    kinds: Vec<Word>,
    ends: Vec<u32>,
    bytes: Vec<u8>,
    table: HashTable<Node>,
    state: RandomState,
}

impl Block {
    fn len(&self) -> u32 {
        u32::try_from(self.kinds.len()).unwrap_or(u32::MAX)
    }

    fn get(&self, node: Node) -> Option<(Word, &[u8])> {
        let kind = *self.kinds.get(at(node))?;
        let begin = node.checked_sub(1).map_or(Some(0), |before| self.ends.get(at(before)).copied())?;
        let end = *self.ends.get(at(node))?;
        self.bytes.get(at(begin)..at(end)).map(|bytes| (kind, bytes))
    }

    fn hash(&self, kind: Word, bytes: &[u8]) -> u64 {
        self.state.hash_one((kind, bytes))
    }

    fn find(&self, kind: Word, bytes: &[u8]) -> Option<Node> {
        let same = |node: &Node| self.get(*node) == Some((kind, bytes));
        self.table.find(self.hash(kind, bytes), same).copied()
    }

    /// Adds a name that is not in the block.
    fn push(&mut self, kind: Word, bytes: &[u8]) -> Result<Node, Full> {
        let node = u32::try_from(self.kinds.len()).map_err(|_| Full("objects"))?;
        let end = self.bytes.len().checked_add(bytes.len()).and_then(|end| u32::try_from(end).ok());
        self.ends.push(end.ok_or(Full("bytes of ids"))?);
        self.bytes.extend_from_slice(bytes);
        self.kinds.push(kind);
        let hash = self.hash(kind, bytes);
        // The table rehashes every number when it grows.
        let (kinds, ends, all, state) = (&self.kinds, &self.ends, &self.bytes, &self.state);
        let rehash = |node: &Node| {
            let begin =
                node.checked_sub(1).and_then(|before| ends.get(at(before))).map_or(0, |begin| at(*begin));
            let end = ends.get(at(*node)).map_or(begin, |end| at(*end));
            let kind = kinds.get(at(*node)).copied().unwrap_or(Word::NONE);
            state.hash_one((kind, all.get(begin..end).unwrap_or_default()))
        };
        self.table.insert_unique(hash, node, rehash);
        Ok(node)
    }

    fn shrink(&mut self) {
        self.kinds.shrink_to_fit();
        self.ends.shrink_to_fit();
        self.bytes.shrink_to_fit();
    }
}

/// The names of one graph. A clone is cheap and never changes with the original.
#[derive(Clone, Debug, Default)]
pub(crate) struct Names {
    block: Arc<Block>,
    later: imbl::HashMap<(Word, Arc<[u8]>), Node>,
    later_by_node: imbl::Vector<(Word, Arc<[u8]>)>,
}

impl Names {
    /// Number of names.
    pub(crate) fn len(&self) -> u32 {
        self.block.len().saturating_add(u32::try_from(self.later_by_node.len()).unwrap_or(u32::MAX))
    }

    /// The number of a known name.
    pub(crate) fn find(&self, kind: Word, id: &str) -> Option<Node> {
        let bytes = encode(id);
        self.block.find(kind, &bytes).or_else(|| {
            if self.later.is_empty() { None } else { self.later.get(&(kind, Arc::from(bytes))).copied() }
        })
    }

    /// The number of a name, which is added if it is new.
    pub(crate) fn intern(&mut self, kind: Word, id: &str) -> Result<Node, Full> {
        if let Some(node) = self.find(kind, id) {
            return Ok(node);
        }
        let node = self.len();
        if node == u32::MAX {
            return Err(Full("objects"));
        }
        let key = (kind, Arc::from(encode(id)));
        self.later.insert(key.clone(), node);
        self.later_by_node.push_back(key);
        Ok(node)
    }

    fn get(&self, node: Node) -> Option<(Word, &[u8])> {
        self.block.get(node).or_else(|| {
            let later = at(node.checked_sub(self.block.len())?);
            self.later_by_node.get(later).map(|(kind, bytes)| (*kind, &**bytes))
        })
    }

    /// The type of a node of this graph.
    pub(crate) fn kind(&self, node: Node) -> Word {
        match self.block.kinds.get(at(node)) {
            Some(kind) => *kind,
            None => self.get(node).map_or(Word::NONE, |(kind, _)| kind),
        }
    }

    /// The id of a node of this graph.
    pub(crate) fn id(&self, node: Node) -> String {
        self.get(node).map(|(_, bytes)| decode(bytes)).unwrap_or_default()
    }

    /// Compares two ids as text without allocating.
    pub(crate) fn compare(&self, one: Node, other: Node) -> Ordering {
        let (mut room, mut more_room) = (Uuid::encode_buffer(), Uuid::encode_buffer());
        self.id_bytes(one, &mut room).cmp(self.id_bytes(other, &mut more_room))
    }

    fn id_bytes<'a>(&'a self, node: Node, room: &'a mut UuidText) -> &'a [u8] {
        match self.get(node).and_then(|(_, bytes)| bytes.split_first()) {
            Some((1, uuid)) => Uuid::from_slice(uuid)
                .map(|uuid| uuid.hyphenated().encode_lower(room).as_bytes())
                .unwrap_or_default(),
            Some((_, text)) => text,
            None => &[],
        }
    }

    /// Moves all `live` names into one block; returns the new number of each old one.
    pub(crate) fn compacted(&self, live: impl Fn(Node) -> bool) -> Result<(Self, Vec<Option<Node>>), Full> {
        let mut block = Block::default();
        let mut numbers = Vec::with_capacity(at(self.len()));
        for node in 0..self.len() {
            let number = match self.get(node).filter(|_| live(node)) {
                Some((kind, bytes)) => Some(block.push(kind, bytes)?),
                None => None,
            };
            numbers.push(number);
        }
        block.shrink();
        Ok((Self { block: Arc::new(block), ..Self::default() }, numbers))
    }
}

/// Builds one block of names.
#[derive(Debug, Default)]
pub(crate) struct NamesBuilder(Block);

impl NamesBuilder {
    /// The number of a name, which is added if it is new.
    pub(crate) fn intern(&mut self, kind: Word, id: &str) -> Result<Node, Full> {
        let bytes = encode(id);
        match self.0.find(kind, &bytes) {
            Some(node) => Ok(node),
            None => self.0.push(kind, &bytes),
        }
    }

    /// Number of names.
    pub(crate) fn len(&self) -> u32 {
        self.0.len()
    }

    /// Completes the block.
    pub(crate) fn finish(mut self) -> Names {
        self.0.shrink();
        Names { block: Arc::new(self.0), ..Names::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_itself_again_whether_it_came_early_or_late() {
        let ids = [
            "01890a5d-ac96-774b-bcce-b302099a8057",
            "01890A5D-AC96-774B-BCCE-B302099A8057",
            "01890a5dac96774bbcceb302099a8057",
            "01890a5d-ac96-774b-bcce-b302099a8057/docs",
            "",
            "ü",
            "\u{1}0123456789abcdef",
        ];
        let mut builder = NamesBuilder::default();
        for id in &ids[..4] {
            builder.intern(Word(1), id).expect("room");
        }
        let mut names = builder.finish();
        for id in &ids[4..] {
            names.intern(Word(1), id).expect("room");
        }
        for (number, id) in (0..).zip(ids) {
            assert_eq!(names.find(Word(1), id), Some(number), "{id}");
            assert_eq!((names.kind(number), names.id(number).as_str()), (Word(1), id));
            assert_eq!(names.find(Word(2), id), None, "another type is another object");
        }
        let (compact, numbers) = names.compacted(|node| node % 2 == 0).expect("room");
        assert_eq!(numbers, [Some(0), None, Some(1), None, Some(2), None, Some(3)]);
        assert_eq!((compact.len(), compact.find(Word(1), ids[6])), (4, Some(3)));
        assert_eq!(compact.find(Word(1), ids[1]), None);
    }
}
