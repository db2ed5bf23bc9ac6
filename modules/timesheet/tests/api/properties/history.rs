//! Plays a random history on the module and on the model. A failure names the seed and the step.

use serde_json::{Value, json};
use testkit::Reply;

use super::model::{Entries, Hours, Model, Step, Week, Who};
use crate::support::{day_of, monday, reason};
use crate::world::{World, id};

/// Steps of a history; more find nothing new.
const STEPS: u32 = 150;
/// An administrator who is also an approver, two members, and a holder of `approver`.
const RIGHTS: [&[&str]; 4] = [&["admin"], &[], &[], &["approver"]];
const CODES: [&str; 3] = ["A", "B", "C"];
/// Weeks in the histories; the oldest is closed unless the rules open it.
const WEEKS: [Week; 3] = [-8, -1, 0];

/// Random numbers that are the same for the same seed (xorshift64*).
pub(super) struct Chance(u64);

impl Chance {
    pub(super) fn of(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(super) fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let drawn = self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33;
        usize::try_from(drawn).expect("31 bits") % end
    }

    fn of_list<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.below(list.len())]
    }

    /// Mostly valid hours of a day, sometimes too many.
    fn hours(&mut self) -> Hours {
        let real = self.of_list(&[0, 25, 400, 750, 1_000, 1_300, 2_400]);
        let billable = self.of_list(&[0, 25, 400, 400, 750, 900]);
        if self.below(4) > 0 { (real, billable.min(real)) } else { (real, billable) }
    }
}

/// A history that has been played.
pub(super) struct Played {
    pub(super) world: World,
    pub(super) model: Model,
    /// The ids of each week's versions.
    pub(super) ids: std::collections::BTreeMap<(Who, Week), Vec<String>>,
    projects: Vec<String>,
    /// The number of refused steps, so that a history of refusals only does not pass.
    pub(super) refused: u32,
}

/// Plays a history; compares every response with the model's and, after each step, the week that the step was about.
pub(super) async fn play(seed: u64) -> Played {
    let world = World::of(&RIGHTS).await;
    let mut projects = Vec::new();
    for code in CODES {
        projects.push(world.project(code).await);
    }
    let model = Model::new(CODES.len(), vec![0, 3]);
    let mut played =
        Played { world, model, ids: std::collections::BTreeMap::default(), projects, refused: 0 };
    let mut chance = Chance::of(seed);
    for at in 0..STEPS {
        let step = played.draw(&mut chance);
        let expected = played.model.take(&step);
        let answer = played.send(&step).await;
        let told = if answer.status == 409 { answer.code() } else { reason(&answer) };
        let same = expected.1 == "*" || answer.status < 300 || told == expected.1;
        let agreed = answer.status == expected.0 && same;
        assert!(
            agreed,
            "seed {seed} step {at} {step:?}: {expected:?}, not {} {}",
            answer.status, answer.text
        );
        played.refused += u32::from(answer.status >= 300);
        if let (Step::Submit(who, week), 201) = (&step, answer.status) {
            played.ids.entry((*who, *week)).or_default().push(id(&answer));
        }
        if let Step::Put(who, week, ..) | Step::Save(who, week, _) | Step::Submit(who, week) = step {
            let expected = played.model.weeks.get(&(who, week)).cloned().unwrap_or_default();
            assert_eq!(played.entries(who, week).await, expected.entries, "seed {seed} step {at} {step:?}");
        }
    }
    played
}

impl Played {
    fn draw(&self, chance: &mut Chance) -> Step {
        let who = chance.below(RIGHTS.len());
        let week = chance.of_list(&WEEKS);
        match chance.below(20) {
            0..=6 => {
                let day = u8::try_from(chance.below(3)).expect("a day");
                Step::Put(who, week, day, chance.below(CODES.len()), chance.hours())
            }
            7 | 8 => {
                let mut rows = std::collections::BTreeMap::new();
                for _ in 0..chance.below(5) {
                    let day = u8::try_from(chance.below(7)).expect("a day");
                    rows.insert((day, chance.below(CODES.len())), chance.hours());
                }
                Step::Save(
                    who,
                    week,
                    rows.into_iter().map(|((day, project), hours)| (day, project, hours)).collect(),
                )
            }
            9..=11 => Step::Submit(who, week),
            12..=16 => self.decision(chance, who).unwrap_or(Step::Submit(who, week)),
            17 => Step::Rules(chance.below(3) > 0, chance.below(3) == 0, chance.of_list(&[4, 4, 20])),
            18 => Step::Active(chance.below(CODES.len()), chance.below(3) > 0),
            _ => Step::Assign(who, chance.below(RIGHTS.len())),
        }
    }

    /// A move on a week that has been submitted, mostly on its last version.
    fn decision(&self, chance: &mut Chance, who: Who) -> Option<Step> {
        let submitted: Vec<_> = self.ids.iter().collect();
        let ((owner, week), versions) = *submitted.get(chance.below(submitted.len().max(1)))?;
        let last = versions.len() - 1;
        let version = if chance.below(5) == 0 { chance.below(versions.len()) } else { last };
        Some(Step::Decide(who, chance.of_list(&["approve", "reject", "revert"]), *owner, *week, version))
    }

    async fn send(&self, step: &Step) -> Reply {
        let world = &self.world;
        match step {
            Step::Put(who, week, day, project, hours) => {
                let (real, billable) = (f64::from(hours.0) / 100.0, f64::from(hours.1) / 100.0);
                world.put(*who, &self.projects[*project], &day_of(*week, *day), real, billable).await
            }
            Step::Save(who, week, rows) => {
                let row = |(day, project, hours): &(u8, usize, Hours)| {
                    json!({ "projectId": self.projects[*project], "entryDate": day_of(*week, *day),
                        "realHours": f64::from(hours.0) / 100.0, "billableHours": f64::from(hours.1) / 100.0 })
                };
                let rows: Vec<Value> = rows.iter().map(row).collect();
                let body = json!({ "weekStart": monday(*week), "entries": rows });
                world.ask(*who, "PUT", "/time-entries/week", Some(body)).await
            }
            Step::Submit(who, week) => world.submit(*who, &monday(*week)).await,
            Step::Decide(who, name, owner, week, version) => {
                world.step(*who, &self.ids[&(*owner, *week)][*version], name).await
            }
            Step::Rules(within, above, past) => {
                let body = json!({ "enforceBillableWithinActual": within, "allowBillableAboveEightHours": above,
                    "allowedPreviousWeeks": past });
                world.rules(body).await
            }
            Step::Active(project, active) => {
                let status = if *active { "active" } else { "inactive" };
                let body = json!({ "code": CODES[*project], "name": "n", "status": status });
                world.ask(0, "PUT", &format!("/projects/{}", self.projects[*project]), Some(body)).await
            }
            Step::Assign(member, approver) => world.assign(*member, *approver).await,
        }
    }

    /// The entries of a week according to the module.
    pub(super) async fn entries(&self, who: Who, week: Week) -> Entries {
        let reply =
            self.world.ask(who, "GET", &format!("/time-entries?weekStart={}", monday(week)), None).await;
        self.read(&reply, week)
    }

    /// The entries of a version according to the module.
    pub(super) async fn held(&self, who: Who, week: Week, version: usize) -> Entries {
        let tail = format!("/submissions/{}/entries", self.ids[&(who, week)][version]);
        let reply = self.world.ask(who, "GET", &tail, None).await;
        self.read(&reply, week)
    }

    fn read(&self, reply: &Reply, week: Week) -> Entries {
        assert_eq!(reply.status, 200, "{}", reply.text);
        let hundredths = |hours: &Value| {
            let text = format!("{:.0}", hours.as_f64().expect("a number") * 100.0);
            text.parse::<i32>().expect("hundredths")
        };
        let entry = |item: &Value| {
            let day = (0..7).find(|day| item["entryDate"] == day_of(week, *day)).expect("a day of the week");
            let project = self.projects.iter().position(|id| item["projectId"] == *id).expect("a project");
            ((day, project), (hundredths(&item["realHours"]), hundredths(&item["billableHours"])))
        };
        reply.data()["items"].as_array().expect("a list").iter().map(entry).collect()
    }
}
