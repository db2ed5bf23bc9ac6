//! Plays a random history on the module and on the model. A failure names the seed and the step.

use serde_json::{Value, json};
use testkit::Reply;
use uuid::Uuid;

use super::model::{Assignee, Model, STATUSES, Step, Who};
use crate::world::{ADMIN, AGENT, World, id, told};

/// Steps of a history; more find nothing new.
const STEPS: u32 = 150;
const PEOPLE: usize = 5;
const POSITIONS: usize = 2;
const GROUPS: usize = 2;

/// Random numbers that are the same for the same seed (xorshift64*).
pub(crate) struct Chance(u64);

impl Chance {
    pub(crate) fn of(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let drawn = self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33;
        usize::try_from(drawn).expect("31 bits") % end
    }
}

/// A history that has been played.
pub(super) struct Played {
    pub(super) world: World,
    pub(super) model: Model,
    pub(super) ids: Vec<String>,
    positions: Vec<Uuid>,
    groups: Vec<Uuid>,
    /// The number of refused steps, so that a history of refusals only does not pass.
    pub(super) refused: u32,
}

/// Plays a history; compares every response with the model's and, after each step, one ticket as each person sees it.
pub(super) async fn play(seed: u64) -> Played {
    let world = World::start().await;
    let positions: Vec<Uuid> =
        (0..POSITIONS).map(|at| world.position(&format!("Position {at}"), None)).collect();
    let groups: Vec<Uuid> = (0..GROUPS).map(|at| world.group(&format!("Group {at}"), &[])).collect();
    let model = Model::new(&[ADMIN, AGENT], POSITIONS, GROUPS);
    let mut played = Played { world, model, ids: Vec::new(), positions, groups, refused: 0 };
    let mut chance = Chance::of(seed);
    for at in 0..STEPS {
        let step = played.draw(&mut chance);
        let expected = played.model.take(&step);
        let Some(reply) = played.send(&step).await else { continue };
        assert_eq!(told(&reply), expected, "seed {seed} step {at} {step:?}: {}", reply.text);
        played.refused += u32::from(reply.status >= 300);
        if matches!(step, Step::Open(_)) {
            played.ids.push(id(&reply));
        }
        let ticket = chance.below(played.ids.len());
        played.look(ticket, &format!("seed {seed} step {at} {step:?}")).await;
    }
    played
}

impl Played {
    fn draw(&self, chance: &mut Chance) -> Step {
        let who = chance.below(PEOPLE);
        if self.ids.len() < 2 {
            return Step::Open(who);
        }
        let ticket = chance.below(self.ids.len());
        match chance.below(20) {
            0 => Step::Open(who),
            1..=5 => {
                // Mostly agents, because otherwise nothing would be assigned.
                let who = if chance.below(4) == 0 { who } else { AGENT };
                let to = match chance.below(7) {
                    0 => None,
                    1 | 2 => Some(Assignee::Member(chance.below(PEOPLE))),
                    3 | 4 => Some(Assignee::Position(chance.below(POSITIONS))),
                    _ => Some(Assignee::Group(chance.below(GROUPS))),
                };
                Step::Assign(who, ticket, to)
            }
            6..=12 => Step::Move(who, ticket, STATUSES[chance.below(STATUSES.len())]),
            13..=16 => Step::Comment(who, ticket, chance.below(3) == 0),
            17 | 18 => {
                let holder = chance.below(PEOPLE + 1);
                Step::Hold(chance.below(POSITIONS), (holder < PEOPLE).then_some(holder))
            }
            _ => Step::Join(chance.below(GROUPS), who, chance.below(3) > 0),
        }
    }

    /// Sends a step to the module; `None` for a step in org, which the module does not see.
    async fn send(&self, step: &Step) -> Option<Reply> {
        let world = &self.world;
        Some(match step {
            Step::Open(who) => {
                let body = json!({ "title": "x", "description": "" });
                world.ask(*who, "POST", "/tickets", Some(body)).await
            }
            Step::Assign(who, ticket, to) => {
                let body = match to {
                    None => json!({}),
                    Some(Assignee::Member(member)) => {
                        json!({ "assigneeMemberId": world.people[*member].member })
                    }
                    Some(Assignee::Position(at)) => json!({ "assigneePositionId": self.positions[*at] }),
                    Some(Assignee::Group(at)) => json!({ "assigneeGroupId": self.groups[*at] }),
                };
                world.assign(*who, &self.ids[*ticket], body).await
            }
            Step::Move(who, ticket, to) => world.move_to(*who, &self.ids[*ticket], to).await,
            Step::Comment(who, ticket, internal) => {
                let visibility = if *internal { "internal" } else { "public" };
                let body = json!({ "body": "x", "visibility": visibility });
                world.comment(*who, &self.ids[*ticket], body).await
            }
            Step::Hold(position, holder) => {
                world.hold(self.positions[*position], *holder);
                return None;
            }
            Step::Join(group, who, joins) => {
                let member = world.people[*who].member;
                let mut company = world.company();
                let members = &mut company.groups.get_mut(&self.groups[*group]).expect("a group").2;
                if *joins {
                    members.insert(member)
                } else {
                    members.remove(&member)
                };
                return None;
            }
        })
    }

    /// Compares the ticket as each person sees it.
    async fn look(&self, ticket: usize, when: &str) {
        for who in 0..PEOPLE {
            let reply = self.world.show(who, &self.ids[ticket]).await;
            if !self.model.sees(who, ticket) {
                assert_eq!(told(&reply), (403, "NOT_TICKET_PARTY"), "{when}: {who}");
                continue;
            }
            let (found, data) = (&self.model.tickets[ticket], reply.data());
            assert_eq!(data["status"], found.status, "{when}: {who}");
            assert_eq!(data["isReporter"], found.reporter == who, "{when}: {who}");
            assert_eq!(data["isAssignee"], self.model.is_assignee(who, ticket), "{when}: {who}");
            let kind = found.assignee.map_or(Value::Null, |assignee| match assignee {
                Assignee::Member(_) => json!("member"),
                Assignee::Position(_) => json!("position"),
                Assignee::Group(_) => json!("group"),
            });
            assert_eq!(data["assigneeKind"], kind, "{when}: {who}");
            assert_eq!(Self::agrees(data), usize::from(!kind.is_null()), "{when}: {who}");
        }
    }

    /// The number of ids that are set, and the id that the kind names, if any.
    fn agrees(data: &Value) -> usize {
        let ids = [
            ("member", "assigneeMemberId"),
            ("position", "assigneePositionId"),
            ("group", "assigneeGroupId"),
        ];
        let set = ids.iter().filter(|(_, id)| !data[*id].is_null());
        assert!(set.clone().all(|(kind, _)| data["assigneeKind"] == **kind), "{data}");
        set.count()
    }

    /// The tickets that this list shows to this person.
    pub(super) async fn listed(&self, who: Who, tail: &str) -> Vec<usize> {
        let listed = self.world.list(who, tail).await;
        let place =
            |ticket: &Value| self.ids.iter().position(|id| ticket["id"] == *id).expect("a known ticket");
        let mut found: Vec<usize> = listed.iter().map(place).collect();
        found.sort_unstable();
        found
    }

    pub(super) const fn people() -> usize {
        PEOPLE
    }
}
