//! Random histories: shares, roles, transfers, moves and changes in the company, some of them interrupted. An
//! unanswered call is repeated until it is answered, so that every history settles and can be compared.

use serde_json::{Value, json};
use testkit::Reply;
use uuid::Uuid;

use super::model::{Model, ROLES, Thing, With};
use crate::world::{Fault, Name, World, id};

/// The number of people; the last one has no login.
const PEOPLE: usize = 6;
const STEPS: usize = 60;

/// Random numbers that are the same for the same seed.
pub(super) struct Dice(u64);

impl Dice {
    pub(super) const fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub(super) fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).expect("31 bits") % sides.max(1)
    }

    fn one_of<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.roll(items.len())]
    }
}

struct History {
    world: World,
    model: Model,
    dice: Dice,
    positions: Vec<Uuid>,
    groups: Vec<Uuid>,
}

impl History {
    async fn of(seed: u64) -> Self {
        let world = World::of(PEOPLE).await;
        let positions = vec![world.position(Some(2)), world.position(None)];
        let groups = vec![world.group(&[2, 3]), world.group(&[])];
        let mut history = Self { world, model: Model::default(), dice: Dice::new(seed), positions, groups };
        for n in 0..3 {
            let owner = 1 + n % 3;
            let folder = history.world.folder(owner, &format!("F{n}"), None).await;
            history.model.folders.insert(folder, Thing { owner, ..Thing::default() });
            let document = history.world.document(owner, &format!("D{n}")).await;
            history.model.documents.insert(document, Thing { owner, ..Thing::default() });
        }
        history
    }

    /// Repeats a call, with failures of authz, until it is answered.
    async fn insist(&mut self, who: Name, method: &str, tail: &str, body: Option<Value>) -> Reply {
        let kinds = [Fault::None, Fault::None, Fault::None, Fault::LostBefore, Fault::LostAfter];
        let faults: Vec<Fault> = (0..self.dice.roll(5)).map(|_| *self.dice.one_of(&kinds)).collect();
        self.world.fail(&faults);
        loop {
            let reply = self.world.ask(who, method, tail, body.clone()).await;
            self.nobody_has_more_than_before_or_after();
            if reply.status != 503 {
                self.world.fail(&[]);
                return reply;
            }
        }
    }

    /// [`super::crashes`] checks this step by step; here every document must have exactly one owner tuple.
    fn nobody_has_more_than_before_or_after(&self) {
        let facts = self.world.facts();
        for document in self.model.documents.keys() {
            let owners = format!("docs_document:{document}#owner@");
            let count = facts.tuples.iter().filter(|tuple| tuple.starts_with(&owners)).count();
            assert!((1..=2).contains(&count), "{count} owners");
        }
    }

    fn thing(&mut self) -> (bool, String) {
        let is_folder = self.dice.roll(3) == 0;
        let things = if is_folder { &self.model.folders } else { &self.model.documents };
        let ids: Vec<String> = things.keys().cloned().collect();
        (is_folder, self.dice.one_of(&ids).clone())
    }

    fn model_of(&mut self, is_folder: bool, id: &str) -> &mut Thing {
        let things = if is_folder { &mut self.model.folders } else { &mut self.model.documents };
        things.get_mut(id).expect("it was made")
    }

    fn path(is_folder: bool, id: &str) -> String {
        format!("/{}/{id}", if is_folder { "folders" } else { "documents" })
    }

    async fn share(&mut self) {
        let (is_folder, target) = self.thing();
        let role = self.dice.roll(3);
        let with = match self.dice.roll(4) {
            0 => With::Position(*self.dice.one_of(&self.positions.clone())),
            1 => With::Group(*self.dice.one_of(&self.groups.clone())),
            _ => With::Person(self.dice.roll(PEOPLE - 1)),
        };
        let mut body = match with {
            With::Person(person) => json!({ "memberId": self.world.people[person].member }),
            With::Position(id) => json!({ "positionId": id }),
            With::Group(id) => json!({ "groupId": id }),
        };
        body["role"] = json!(ROLES[role]);
        let (owner, is_new) = {
            let thing = self.model_of(is_folder, &target);
            (thing.owner, !thing.shares.contains_key(&with))
        };
        let is_active = match with {
            With::Person(person) => self.world.facts().active[person],
            With::Position(_) | With::Group(_) => true,
        };
        let answer =
            self.insist(0, "POST", &format!("{}/shares", Self::path(is_folder, &target)), Some(body)).await;
        if with == With::Person(owner) || !is_active {
            assert_eq!(answer.status, 422, "{}", answer.text);
        } else if is_new {
            let share = id(&answer);
            self.model_of(is_folder, &target).shares.insert(with, (share, role));
        } else {
            assert_eq!((answer.status, answer.code()), (409, "SHARE_EXISTS"), "{}", answer.text);
        }
    }

    async fn change_or_take(&mut self, takes: bool) {
        let (is_folder, target) = self.thing();
        let shares: Vec<(With, String)> = self
            .model_of(is_folder, &target)
            .shares
            .iter()
            .map(|(with, (share, _))| (*with, share.clone()))
            .collect();
        if shares.is_empty() {
            return;
        }
        let (with, share) = self.dice.one_of(&shares).clone();
        let tail = format!("{}/shares/{share}", Self::path(is_folder, &target));
        if takes {
            let answer = self.insist(0, "DELETE", &tail, None).await;
            assert_eq!(answer.status, 200, "{}", answer.text);
            self.model_of(is_folder, &target).shares.remove(&with);
            return;
        }
        let role = self.dice.roll(3);
        let changed = self.insist(0, "PUT", &tail, Some(json!({ "role": ROLES[role] }))).await;
        assert_eq!(changed.status, 200, "{}", changed.text);
        self.model_of(is_folder, &target).shares.insert(with, (share, role));
    }

    async fn transfer(&mut self) {
        let ids: Vec<String> = self.model.documents.keys().cloned().collect();
        let document = self.dice.one_of(&ids).clone();
        let (from, to) = (self.model.documents[&document].owner, self.dice.roll(PEOPLE - 1));
        let body = json!({ "memberId": self.world.people[to].member });
        let moved = self.insist(0, "POST", &format!("/documents/{document}/transfer"), Some(body)).await;
        if from == to || !self.world.facts().active[to] {
            assert_eq!(moved.status, 422, "{}", moved.text);
            return;
        }
        // A transfer that a repetition finished may find its own work done.
        assert!(moved.status == 200 || moved.status == 422, "{}", moved.text);
        let listed = self.world.ask(0, "GET", &format!("/documents/{document}/shares"), None).await;
        let share = listed
            .data()
            .as_array()
            .expect("a list")
            .iter()
            .find(|share| share["memberId"] == json!(self.world.people[from].member));
        let share = share.expect("the former owner's")["id"].as_str().expect("an id").to_owned();
        let thing = self.model_of(false, &document);
        thing.owner = to;
        thing.shares.remove(&With::Person(to));
        thing.shares.insert(With::Person(from), (share, 2));
    }

    async fn place(&mut self) {
        let (is_folder, child) = self.thing();
        let folders: Vec<Option<String>> =
            self.model.folders.keys().cloned().map(Some).chain([None]).collect();
        let to = self.dice.one_of(&folders).clone();
        let owner = self.model_of(is_folder, &child).owner;
        // The caller must manage the child and edit the target; an owner of both may.
        let who = owner;
        let may = to.as_ref().is_none_or(|folder| self.model.folders[folder].owner == owner);
        let is_active = self.world.facts().active[who];
        if !may || !is_active {
            return;
        }
        let name = if is_folder { "parentId" } else { "folderId" };
        let tail = format!("{}/move", Self::path(is_folder, &child));
        let moved = self.insist(who, "POST", &tail, Some(json!({ name: to }))).await;
        let is_cycle = is_folder && to.as_ref().is_some_and(|folder| self.model.lies_in(folder, &child));
        if is_cycle {
            assert_eq!(moved.status, 422, "{}", moved.text);
        } else {
            assert_eq!(moved.status, 200, "{}", moved.text);
            self.model_of(is_folder, &child).within = to;
        }
    }

    fn reorganize(&mut self) {
        let who = 1 + self.dice.roll(PEOPLE - 2);
        let (position, group) = (*self.dice.one_of(&self.positions), *self.dice.one_of(&self.groups));
        let (holder, kind) = (self.dice.roll(PEOPLE), self.dice.roll(4));
        let mut facts = self.world.facts();
        match kind {
            0 => drop(facts.positions.insert(position, (holder + 1 < PEOPLE).then_some(holder))),
            1 => drop(facts.groups.entry(group).or_default().insert(who)),
            2 => drop(facts.groups.entry(group).or_default().remove(&who)),
            _ => facts.active[who] = !facts.active[who],
        }
    }

    async fn step(&mut self) {
        match self.dice.roll(10) {
            0..=2 => self.share().await,
            3 | 4 => self.change_or_take(false).await,
            5 => self.change_or_take(true).await,
            6 => self.transfer().await,
            7 | 8 => self.place().await,
            _ => self.reorganize(),
        }
    }

    /// Tuples, rows and the model agree for everyone and every document.
    async fn is_at_rest(&self, step: usize) {
        for who in 0..PEOPLE - 1 {
            let mut expected = Vec::new();
            for document in self.model.documents.keys() {
                let facts = self.world.facts();
                let rank = self.model.rank(&facts, who, document);
                let object = format!("docs_document:{document}");
                for (at, relation) in ROLES.iter().chain(&["owner"]).enumerate() {
                    let held = facts.holds(who, &object, relation);
                    assert_eq!(held, rank > at, "step {step}: {who} as {relation} of {document}");
                }
                let manages = facts.holds(who, &object, "manager");
                assert_eq!(manages, self.model.manages(&facts, who, document), "step {step}: {who} manages");
                if rank > 0 {
                    expected.push((document.clone(), ["viewer", "commenter", "editor", "owner"][rank - 1]));
                }
            }
            if !self.world.facts().active[who] {
                continue;
            }
            let listed = self.world.ask(who, "GET", "/documents?view=visible&pageSize=100", None).await;
            let items = listed.data()["items"].as_array().expect("a page").iter();
            let mut listed: Vec<(String, &str)> = items
                .map(|item| {
                    (item["id"].as_str().expect("an id").to_owned(), item["myRole"].as_str().unwrap_or("-"))
                })
                .collect();
            listed.sort();
            expected.sort();
            assert_eq!(listed, expected, "step {step}: what {who} sees");
        }
    }
}

#[tokio::test]
async fn property_1_at_rest_authz_the_lists_and_the_model_agree() {
    for seed in 1..=u64::try_from(testkit::races().div_ceil(10)).expect("a small number") {
        let mut history = History::of(seed).await;
        for step in 0..STEPS {
            history.step().await;
            if step % 6 == 5 {
                history.is_at_rest(step).await;
            }
        }
        let unsettled = "SELECT (SELECT count(*) FROM docs.shares WHERE state <> 'active')
            + (SELECT count(*) FROM docs.placements WHERE state <> 'active')
            + (SELECT count(*) FROM docs.ownerships WHERE state <> 'active')";
        assert_eq!(history.world.count(unsettled).await, 0, "seed {seed}");
    }
}
