//! The rules of the module, implemented independently from its design: a company as plain values, and the effect of
//! each step. Hours are in hundredths.

use std::collections::BTreeMap;

/// A member: an index into the world's list of people.
pub(super) type Who = usize;
/// A week, relative to the current one.
pub(super) type Week = i64;
/// A project: an index into the list of projects.
pub(super) type Project = usize;

/// The response to a step: its status, and the code of a refusal.
pub(super) type Answer = (u16, &'static str);

/// Hours of one entry, worked and billable.
pub(super) type Hours = (i32, i32);
/// Entries of a week by day and project.
pub(super) type Entries = BTreeMap<(u8, Project), Hours>;

/// A step of a history.
#[derive(Clone, Debug)]
pub(super) enum Step {
    Put(Who, Week, u8, Project, Hours),
    Save(Who, Week, Vec<(u8, Project, Hours)>),
    Submit(Who, Week),
    Decide(Who, &'static str, Who, Week, usize),
    Rules(bool, bool, i64),
    Active(Project, bool),
    Assign(Who, Who),
}

/// One version of a week.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Version {
    pub(super) status: &'static str,
    pub(super) assigned: Option<Who>,
    pub(super) held: Entries,
}

/// A member's week.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct MemberWeek {
    pub(super) entries: Entries,
    pub(super) versions: Vec<Version>,
}

impl MemberWeek {
    pub(super) fn status(&self) -> Option<&'static str> {
        self.versions.last().map(|version| version.status)
    }

    fn locked(&self) -> bool {
        matches!(self.status(), Some("submitted" | "approved"))
    }

    fn handed_back(&self) -> bool {
        matches!(self.status(), Some("rejected" | "reverted"))
    }
}

/// A company.
#[derive(Clone, Debug)]
pub(super) struct Model {
    within: bool,
    above: bool,
    past: i64,
    active: Vec<bool>,
    approvers: BTreeMap<Who, Who>,
    /// The people who may decide any week.
    any: Vec<Who>,
    pub(super) weeks: BTreeMap<(Who, Week), MemberWeek>,
    /// The history, oldest entry first.
    pub(super) told: Vec<(Who, &'static str)>,
}

const DONE: Answer = (200, "");
const FUTURE: i64 = 1;

impl Model {
    pub(super) fn new(projects: usize, any: Vec<Who>) -> Self {
        Self {
            within: true,
            above: false,
            past: 4,
            active: vec![true; projects],
            approvers: BTreeMap::new(),
            any,
            weeks: BTreeMap::new(),
            told: Vec::new(),
        }
    }

    /// Applies a step and returns its response.
    pub(super) fn take(&mut self, step: &Step) -> Answer {
        match step {
            Step::Put(who, week, day, project, hours) => self.put(*who, *week, *day, *project, *hours),
            Step::Save(who, week, rows) => self.save(*who, *week, rows),
            Step::Submit(who, week) => self.submit(*who, *week),
            Step::Decide(who, name, owner, week, version) => self.decide(*who, name, *owner, *week, *version),
            Step::Rules(within, above, past) => self.change_rules(*within, *above, *past),
            Step::Active(project, active) => self.change_project(*project, *active),
            Step::Assign(member, approver) => self.assign(*member, *approver),
        }
    }

    fn open(&self, who: Who, week: Week) -> Result<(), Answer> {
        let found = self.weeks.get(&(who, week)).cloned().unwrap_or_default();
        if found.locked() {
            return Err((409, "WEEK_LOCKED"));
        }
        self.in_window(&found, week)
    }

    fn in_window(&self, found: &MemberWeek, week: Week) -> Result<(), Answer> {
        let open = week <= FUTURE && (week >= -self.past || found.handed_back());
        if open { Ok(()) } else { Err((422, "WEEK_OUT_OF_WINDOW")) }
    }

    fn put(&mut self, who: Who, week: Week, day: u8, project: Project, hours: Hours) -> Answer {
        if let Err(refused) = self.open(who, week) {
            return refused;
        }
        let before = self.weeks.get(&(who, week)).cloned().unwrap_or_default().entries;
        let mut after = before.clone();
        after.insert((day, project), hours);
        let (real, billable) = day_sums(&after, day);
        let broken = [
            (!self.may_have(project, hours, before.get(&(day, project))), "PROJECT_INACTIVE"),
            (real > 2_400, "DAILY_HOURS_EXCEEDED"),
            (self.within && hours.1 > hours.0, "BILLABLE_EXCEEDS_ACTUAL"),
            (!self.above && billable > 800, "BILLABLE_ABOVE_EIGHT_HOURS"),
        ];
        if let Some((_, word)) = broken.into_iter().find(|(broken, _)| *broken) {
            return (422, word);
        }
        self.written(who, week, &before, after, "entry.upserted")
    }

    fn may_have(&self, project: Project, hours: Hours, before: Option<&Hours>) -> bool {
        self.active[project] || before.is_some_and(|before| hours.0 <= before.0 && hours.1 <= before.1)
    }

    fn save(&mut self, who: Who, week: Week, rows: &[(u8, Project, Hours)]) -> Answer {
        if let Err(refused) = self.open(who, week) {
            return refused;
        }
        let before = self.weeks.get(&(who, week)).cloned().unwrap_or_default().entries;
        let after: Entries = rows.iter().map(|(day, project, hours)| ((*day, *project), *hours)).collect();
        let rows_fit = after.iter().all(|(key, hours)| {
            self.may_have(key.1, *hours, before.get(key)) && (!self.within || hours.1 <= hours.0)
        });
        let days_fit = (0..7)
            .map(|day| day_sums(&after, day))
            .all(|(real, billable)| real <= 2_400 && (self.above || billable <= 800));
        // Which row is reported first depends on their order; other tests check that all are reported.
        if !(rows_fit && days_fit) {
            return (422, "*");
        }
        self.written(who, week, &before, after, "week.saved")
    }

    fn written(
        &mut self,
        who: Who,
        week: Week,
        before: &Entries,
        after: Entries,
        told: &'static str,
    ) -> Answer {
        if *before != after {
            self.told.push((who, told));
        }
        self.weeks.entry((who, week)).or_default().entries = after;
        DONE
    }

    fn submit(&mut self, who: Who, week: Week) -> Answer {
        let found = self.weeks.get(&(who, week)).cloned().unwrap_or_default();
        match found.status() {
            Some("submitted") => return (409, "SUBMISSION_PENDING"),
            Some("approved") => return (409, "SUBMISSION_APPROVED"),
            _ => {}
        }
        if let Err(refused) = self.in_window(&found, week) {
            return refused;
        }
        for day in 0..7 {
            let mut of_day = found.entries.iter().filter(|(key, _)| key.0 == day);
            if self.within && of_day.any(|(_, hours)| hours.1 > hours.0) {
                return (422, "BILLABLE_EXCEEDS_ACTUAL");
            }
            if !self.above && day_sums(&found.entries, day).1 > 800 {
                return (422, "BILLABLE_ABOVE_EIGHT_HOURS");
            }
        }
        let assigned = self.approvers.get(&who).copied();
        let made = Version { status: "submitted", assigned, held: found.entries };
        self.weeks.entry((who, week)).or_default().versions.push(made);
        self.told.push((who, "submission.submitted"));
        (201, "")
    }

    /// The response to a move on a version, before anything changes.
    pub(super) fn judge(&self, who: Who, name: &str, owner: Who, week: Week, version: usize) -> Answer {
        let versions = &self.weeks[&(owner, week)].versions;
        let found = &versions[version];
        let decider = who != owner && (found.assigned == Some(who) || self.any.contains(&who));
        if who != owner && !decider {
            return (403, "NOT_APPROVER");
        }
        if version + 1 < versions.len() {
            return (409, "SUBMISSION_SUPERSEDED");
        }
        match (name, found.status) {
            ("revert", "submitted") if who == owner => DONE,
            ("revert", "submitted") => (403, "NOT_SUBMITTER"),
            ("revert", "approved") | ("approve" | "reject", "submitted") if decider => DONE,
            ("revert", "approved") | ("approve" | "reject", "submitted") => (403, "SELF_APPROVAL"),
            ("revert", _) => (409, "SUBMISSION_NOT_REVERTIBLE"),
            _ => (409, "SUBMISSION_NOT_PENDING"),
        }
    }

    fn decide(&mut self, who: Who, name: &str, owner: Who, week: Week, version: usize) -> Answer {
        let answer = self.judge(who, name, owner, week, version);
        if answer == DONE {
            let (status, told) = match name {
                "approve" => ("approved", "submission.approved"),
                "reject" => ("rejected", "submission.rejected"),
                _ => ("reverted", "submission.reverted"),
            };
            let found = self.weeks.get_mut(&(owner, week)).and_then(|week| week.versions.get_mut(version));
            found.expect("it was judged").status = status;
            self.told.push((who, told));
        }
        answer
    }

    fn change_rules(&mut self, within: bool, above: bool, past: i64) -> Answer {
        if (self.within, self.above, self.past) != (within, above, past) {
            self.told.push((0, "settings.updated"));
        }
        (self.within, self.above, self.past) = (within, above, past);
        DONE
    }

    fn change_project(&mut self, project: Project, active: bool) -> Answer {
        if self.active[project] != active {
            self.told.push((0, "project.updated"));
        }
        self.active[project] = active;
        DONE
    }

    fn assign(&mut self, member: Who, approver: Who) -> Answer {
        if member == approver {
            return (422, "APPROVER_IS_SELF");
        }
        if self.approvers.insert(member, approver) == Some(approver) {
            return DONE;
        }
        for ((owner, _), week) in &mut self.weeks {
            let waiting = week.versions.last_mut().filter(|version| version.status == "submitted");
            if let Some(version) =
                waiting.filter(|version| *owner == member && version.assigned != Some(approver))
            {
                version.assigned = Some(approver);
                self.told.push((0, "submission.reassigned"));
            }
        }
        self.told.push((0, "approver.assigned"));
        DONE
    }
}

fn day_sums(entries: &Entries, day: u8) -> Hours {
    let of_day = entries.iter().filter(|(key, _)| key.0 == day);
    of_day.fold((0, 0), |sums, (_, hours)| (sums.0 + hours.0, sums.1 + hours.1))
}
