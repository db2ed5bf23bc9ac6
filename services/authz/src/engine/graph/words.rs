//! Types and relations as small numbers. They are few: a model has dozens, and tuples may still name words that are no
//! longer in any model. Number 0 is the empty relation of a subject that stands for itself.

use std::collections::HashMap;
use std::sync::Arc;

/// A type or relation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Word(pub(crate) u16);

impl Word {
    /// No relation.
    pub(crate) const NONE: Self = Self(0);
    /// The first relation.
    pub(crate) const FIRST: Self = Self(1);
    /// The last number.
    pub(crate) const LAST: Self = Self(u16::MAX);
}

/// The graph ran out of numbers; the engine then falls back to SQL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the graph in memory cannot hold more {0}")]
pub struct Full(pub &'static str);

/// The words of one graph.
#[derive(Clone, Debug)]
pub(crate) struct Words {
    known: HashMap<Arc<str>, Word>,
    texts: Vec<Arc<str>>,
}

impl Default for Words {
    fn default() -> Self {
        let none: Arc<str> = Arc::from("");
        Self { known: HashMap::from([(Arc::clone(&none), Word::NONE)]), texts: vec![none] }
    }
}

impl Words {
    /// The number of a known word.
    pub(crate) fn find(&self, text: &str) -> Option<Word> {
        self.known.get(text).copied()
    }

    /// The number of a word, which is added if it is new.
    pub(crate) fn intern(&mut self, text: &str) -> Result<Word, Full> {
        if let Some(word) = self.find(text) {
            return Ok(word);
        }
        let word = Word(u16::try_from(self.texts.len()).map_err(|_| Full("types and relations"))?);
        let text: Arc<str> = Arc::from(text);
        self.known.insert(Arc::clone(&text), word);
        self.texts.push(text);
        Ok(word)
    }

    /// The text of a word of this graph.
    pub(crate) fn text(&self, word: Word) -> &str {
        self.texts.get(usize::from(word.0)).map_or("", |text| text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_room_for_every_number_and_no_more() {
        let mut words = Words::default();
        for number in 1..=u32::from(u16::MAX) {
            assert_eq!(words.intern(&number.to_string()).map(|word| u32::from(word.0)), Ok(number));
        }
        assert_eq!(words.intern("one more"), Err(Full("types and relations")));
        assert_eq!(words.intern("7"), Ok(Word(7)), "known words keep their number");
        assert_eq!((words.text(Word::NONE), words.text(Word(65_535))), ("", "65535"));
    }
}
