//! Companies of several people around a module: members with their own logins, positions, groups, and rights under the
//! base model (`foundation.md` C4). Authz and org are scripted from one state, so they cannot contradict each other:
//! org answers who is a member and what a principal is; authz decides membership first and then the relation, by
//! [`holdings`](crate::holdings) over the base model, the module's own types and the existing tuples.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use contract::decision::Reason;
use contract::fragment::{self, Relations, base_model};
use contract::grants::{ANCHOR_RELATION, SYSTEM_ID, SYSTEM_RELATION, company_module_id};
use serde_json::{Value, json};
use service::permit::COMPANY_MODULE;
use uuid::Uuid;

use super::tuples::Tuples;
use super::world_org;
use super::{CAN, ModuleApi};
use crate::holdings::{Object, Tuple, holdings};
use crate::{Recorded, Reply};

/// A login that is a member of one company.
#[derive(Clone, Debug)]
pub struct Person {
    /// The company.
    pub company: Uuid,
    /// The member row.
    pub member: Uuid,
    /// The token's subject.
    pub subject: String,
    token: String,
}

/// The holder of a right.
#[derive(Clone, Copy, Debug)]
pub enum Holder<'a> {
    /// One person.
    Person(&'a Person),
    /// The position's holder.
    Position(Uuid),
    /// The members of the group.
    Group(Uuid),
}

/// A running module among companies; the module's own company is the first.
pub struct World {
    /// The module.
    pub module: ModuleApi,
    /// The tuples that the module granted.
    pub tuples: Tuples,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
pub(super) struct State {
    key: &'static str,
    model: Relations,
    /// Subjects by token.
    logins: BTreeMap<String, String>,
    companies: BTreeSet<Uuid>,
    pub(super) members: Vec<Member>,
    pub(super) positions: Vec<Position>,
    pub(super) groups: Vec<Group>,
    superadmins: BTreeSet<String>,
    rights: BTreeSet<Tuple>,
}

pub(super) struct Member {
    pub(super) company: Uuid,
    pub(super) id: Uuid,
    pub(super) subject: String,
    pub(super) name: String,
    pub(super) is_active: bool,
}

pub(super) struct Position {
    pub(super) company: Uuid,
    pub(super) id: Uuid,
    pub(super) title: String,
    pub(super) holder: Option<Uuid>,
}

pub(super) struct Group {
    pub(super) company: Uuid,
    pub(super) id: Uuid,
    pub(super) title: String,
    pub(super) members: Vec<Uuid>,
}

impl World {
    /// A world around a running module, without people. `fragment` is the module's.
    ///
    /// # Panics
    /// The fragment is invalid.
    #[must_use]
    #[expect(clippy::expect_used, reason = "a test with an unreadable fragment has failed")]
    pub fn around(module: ModuleApi, fragment: &str) -> Self {
        let mut model = base_model();
        model.extend(fragment::parse(fragment, module.key).expect("the fragment is right").relations);
        let companies = BTreeSet::from([module.company]);
        let state = State { key: module.key, model, companies, ..State::default() };
        let (state, tuples) = (Arc::new(Mutex::new(state)), module.take_tuples());
        let (decided, standing) = (Arc::clone(&state), tuples.clone());
        module
            .authz
            .answer_with("POST", CAN, move |request| (200, lock(&decided).decision(request, &standing)));
        for method in ["GET", "POST"] {
            let known = Arc::clone(&state);
            let answer = move |request: &Recorded| world_org::answer(&lock(&known), request);
            module.org.answer_with(method, "/internal/org/companies/*", answer);
        }
        Self { module, tuples, state }
    }

    /// Another company in which the module is enabled.
    #[must_use]
    pub fn company(&self) -> Uuid {
        let id = Uuid::now_v7();
        self.state().companies.insert(id);
        id
    }

    /// A new active member of the module's own company.
    #[must_use]
    pub fn person(&self, name: &str) -> Person {
        let subject = format!("subject-of-{name}");
        let token = self.module.issuer.issue(&subject);
        self.state().logins.insert(format!("Bearer {token}"), subject.clone());
        let person = Person { company: self.module.company, member: Uuid::nil(), subject, token };
        self.join(&person, self.module.company)
    }

    /// The same login as a new active member of a company.
    #[must_use]
    pub fn join(&self, person: &Person, company: Uuid) -> Person {
        let id = Uuid::now_v7();
        let mut state = self.state();
        let name = format!("Member {}", state.members.len() + 1);
        state.members.push(Member { company, id, subject: person.subject.clone(), name, is_active: true });
        Person { company, member: id, ..person.clone() }
    }

    /// A login that is not a member of any company and holds the platform role.
    #[must_use]
    pub fn operator(&self, name: &str) -> Person {
        let operator = self.stranger(name);
        self.state().superadmins.insert(operator.subject.clone());
        operator
    }

    /// A login that is not a member of any company.
    #[must_use]
    pub fn stranger(&self, name: &str) -> Person {
        let person = self.person(name);
        self.state().members.retain(|member| member.id != person.member);
        person
    }

    /// Makes the member row active or inactive.
    pub fn activate(&self, person: &Person, is_active: bool) {
        let mut state = self.state();
        for member in state.members.iter_mut().filter(|member| member.id == person.member) {
            member.is_active = is_active;
        }
    }

    /// A new position of the module's own company.
    #[must_use]
    pub fn position(&self, title: &str, holder: Option<&Person>) -> Uuid {
        let (company, id) = (self.module.company, Uuid::now_v7());
        let holder = holder.map(|person| person.member);
        self.state().positions.push(Position { company, id, title: title.to_owned(), holder });
        id
    }

    /// A new group of the module's own company.
    #[must_use]
    pub fn group(&self, title: &str, members: &[&Person]) -> Uuid {
        let (company, id) = (self.module.company, Uuid::now_v7());
        let members = members.iter().map(|person| person.member).collect();
        self.state().groups.push(Group { company, id, title: title.to_owned(), members });
        id
    }

    /// Grants a relation on the module in its own company, as an administrator would.
    pub fn grant(&self, relation: &str, holder: Holder<'_>) {
        let object = self.state().module_in(self.module.company);
        let (subject, subject_relation) = match holder {
            Holder::Person(person) => (user(&person.subject), ""),
            Holder::Position(id) => (("position".to_owned(), id.to_string()), "holder"),
            Holder::Group(id) => (("group".to_owned(), id.to_string()), "member"),
        };
        self.state().rights.insert(tuple(object, relation, subject, subject_relation));
    }

    /// Sends a request as this person in their company, and checks that the document allows the response.
    ///
    /// # Panics
    /// The document does not allow the response, or `method` is not a valid method.
    #[expect(clippy::expect_used, reason = "the methods of a test are constants")]
    pub async fn ask(&self, who: &Person, method: &str, tail: &str, body: Option<Value>) -> Reply {
        let path = self.module.path(who.company, tail);
        let call = self.module.api.call(method.parse().expect("a method"), path).bearer(&who.token);
        let call = match body {
            Some(body) => call.json(body),
            None => call,
        };
        self.module.send(method, tail, call).await
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl State {
    fn module_in(&self, company: Uuid) -> Object {
        (COMPANY_MODULE.to_owned(), company_module_id(company.into(), self.key))
    }

    pub(super) fn is_active(&self, id: Uuid) -> bool {
        self.members.iter().any(|member| member.id == id && member.is_active)
    }

    fn decision(&self, request: &Recorded, granted: &Tuples) -> Value {
        let reason = self.reason(request, granted);
        json!({ "data": { "allowed": reason == Reason::Allowed, "reason": reason, "evidence": [] } })
    }

    fn reason(&self, request: &Recorded, granted: &Tuples) -> Reason {
        let text = |pointer: &str| request.body.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let bearer = request.headers.get("authorization").and_then(|value| value.to_str().ok());
        let Some(subject) = bearer.and_then(|bearer| self.logins.get(bearer)) else {
            return Reason::AuthUserNotFound;
        };
        let Some(company) = self.companies.iter().find(|id| id.to_string() == text("/companyId")) else {
            return Reason::CompanyInactive;
        };
        let is_operator = self.superadmins.contains(subject)
            && request.body.get("allowPlatformOperatorCompanyScope") == Some(&json!(true));
        let mut rows = self.members.iter().filter(|row| row.company == *company && row.subject == *subject);
        match rows.next() {
            _ if is_operator => {}
            None => return Reason::CompanyMembershipRequired,
            Some(member) if !member.is_active => return Reason::CompanyAccessBlocked,
            Some(_) => {}
        }
        let object = (text("/object/type").to_owned(), text("/object/id").to_owned());
        let held = holdings(&self.model, &self.facts(granted), &user(subject), "");
        if held.contains(&(object, text("/relation").to_owned())) {
            Reason::Allowed
        } else {
            Reason::EngineDenied
        }
    }

    /// Every existing tuple: those derived from org's rows, those written when the module was enabled, and those
    /// granted.
    fn facts(&self, granted: &Tuples) -> BTreeSet<Tuple> {
        let mut facts = self.rights.clone();
        facts.extend(granted.standing().iter().map(Tuple::from));
        let system = || ("system".to_owned(), SYSTEM_ID.to_owned());
        for company in &self.companies {
            let named = ("company".to_owned(), company.to_string());
            facts.insert(tuple(self.module_in(*company), ANCHOR_RELATION, named, ""));
            facts.insert(tuple(self.module_in(*company), SYSTEM_RELATION, system(), ""));
        }
        facts.extend(self.superadmins.iter().map(|it| tuple(system(), "superadmin", user(it), "")));
        for member in self.members.iter().filter(|member| member.is_active) {
            let of = |kind: &str, id: Uuid, relation| {
                tuple((kind.to_owned(), id.to_string()), relation, user(&member.subject), "")
            };
            facts.insert(of("company", member.company, "member"));
            let held = self.positions.iter().filter(|position| position.holder == Some(member.id));
            facts.extend(held.map(|position| of("position", position.id, "holder")));
            let joined = self.groups.iter().filter(|group| group.members.contains(&member.id));
            facts.extend(joined.map(|group| of("group", group.id, "member")));
        }
        facts
    }
}

fn user(subject: &str) -> Object {
    ("user".to_owned(), subject.to_owned())
}

fn tuple(object: Object, relation: &str, subject: Object, subject_relation: &str) -> Tuple {
    Tuple { object, relation: relation.to_owned(), subject, subject_relation: subject_relation.to_owned() }
}
