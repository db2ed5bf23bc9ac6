//! The reference model: what owner, shares, folders, general access and the company's members imply, written down without
//! tuples, relations or SQL.

use std::collections::BTreeMap;

use uuid::Uuid;

use crate::world::{Facts, Name};

/// The roles that shares give, the least first.
pub(super) const ROLES: [&str; 3] = ["viewer", "commenter", "editor"];

/// With whom something is shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum With {
    Person(Name),
    Position(Uuid),
    Group(Uuid),
}

/// A document or a folder.
#[derive(Clone, Debug, Default)]
pub(super) struct Thing {
    pub(super) owner: Name,
    /// The share's id and the place of its role in [`ROLES`].
    pub(super) shares: BTreeMap<With, (String, usize)>,
    pub(super) within: Option<String>,
}

/// Everything that was made.
#[derive(Clone, Debug, Default)]
pub(super) struct Model {
    pub(super) documents: BTreeMap<String, Thing>,
    pub(super) folders: BTreeMap<String, Thing>,
}

impl Model {
    /// How much of a document is open to somebody: 0 nothing, 1 to 3 the roles, 4 the owner.
    pub(super) fn rank(&self, facts: &Facts, who: Name, document: &str) -> usize {
        if !facts.active[who] {
            return 0;
        }
        let thing = &self.documents[document];
        if thing.owner == who {
            return 4;
        }
        let own = shared(facts, thing, who);
        own.max(thing.within.as_deref().map_or(0, |folder| self.through(facts, who, folder)))
    }

    /// How much the folder opens: what is shared of it or of what is around it, and 3 to its owner.
    fn through(&self, facts: &Facts, who: Name, folder: &str) -> usize {
        let thing = &self.folders[folder];
        let own = if thing.owner == who { 3 } else { shared(facts, thing, who) };
        own.max(thing.within.as_deref().map_or(0, |around| self.through(facts, who, around)))
    }

    /// Whether somebody administers a document.
    pub(super) fn manages(&self, facts: &Facts, who: Name, document: &str) -> bool {
        facts.active[who] && (facts.admins.contains(&who) || self.documents[document].owner == who)
    }

    /// Whether a folder lies in another one, or is it.
    pub(super) fn lies_in(&self, folder: &str, other: &str) -> bool {
        folder == other
            || self.folders[folder].within.as_deref().is_some_and(|around| self.lies_in(around, other))
    }
}

fn shared(facts: &Facts, thing: &Thing, who: Name) -> usize {
    let is = |with: &With| match with {
        With::Person(person) => *person == who,
        With::Position(id) => facts.positions[id] == Some(who),
        With::Group(id) => facts.groups[id].contains(&who),
    };
    let ranks = thing.shares.iter().filter(|(with, _)| is(with)).map(|(_, (_, role))| role + 1);
    ranks.max().unwrap_or_default()
}
