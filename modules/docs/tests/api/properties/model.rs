//! The reference model: the rights that follow from owners, shares, folders, general access and membership, expressed
//! without tuples, relations or SQL.

use std::collections::BTreeMap;

use uuid::Uuid;

use crate::world::{Facts, Name};

/// The roles that shares give, lowest first.
pub(super) const ROLES: [&str; 3] = ["viewer", "commenter", "editor"];

/// The grantee of a share.
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
    /// The share's id and the index of its role in [`ROLES`].
    pub(super) shares: BTreeMap<With, (String, usize)>,
    pub(super) within: Option<String>,
}

/// All folders and documents.
#[derive(Clone, Debug, Default)]
pub(super) struct Model {
    pub(super) documents: BTreeMap<String, Thing>,
    pub(super) folders: BTreeMap<String, Thing>,
}

impl Model {
    /// The rank that a person has in a document: 0 none, 1 to 3 the roles, 4 the owner.
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

    /// The rank that a folder gives: from shares of it or of folders around it, and 3 for its owner.
    fn through(&self, facts: &Facts, who: Name, folder: &str) -> usize {
        let thing = &self.folders[folder];
        let own = if thing.owner == who { 3 } else { shared(facts, thing, who) };
        own.max(thing.within.as_deref().map_or(0, |around| self.through(facts, who, around)))
    }

    /// Whether a person administers a document.
    pub(super) fn manages(&self, facts: &Facts, who: Name, document: &str) -> bool {
        facts.active[who] && (facts.admins.contains(&who) || self.documents[document].owner == who)
    }

    /// Whether a folder lies in another one or is that one.
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
