//! A company of several people around the module. authz decides from the tuples that the module wrote, by the relations of
//! the module's own fragment, and org answers from one directory of people, positions and groups; both may fail as a
//! test says.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};

use contract::fragment::{self, Expression, Relations};
use contract::grants::Tuple;
use serde_json::{Value, json};
use testkit::module::CAN;
use testkit::module::tuples::{GRANTS, LOOKUP, REVOKE};
use testkit::stub::Recorded;
use testkit::{ModuleApi, Reply};
use tokio::sync::oneshot;
use uuid::Uuid;

use crate::start;

/// Who asks: a place in [`World::people`].
pub(crate) type Name = usize;

/// How often [`World::insist`] asks.
const REPETITIONS: usize = 10;

/// Somebody with a login.
pub(crate) struct Person {
    pub(crate) member: Uuid,
    pub(crate) subject: String,
    token: String,
}

/// What becomes of one change of tuples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It is made and answered.
    None,
    /// It is refused.
    Refused,
    /// It is not made, and nobody learns that.
    LostBefore,
    /// It is made, and nobody learns that: the module may as well have died here.
    LostAfter,
}

/// What authz and org know.
pub(crate) struct Facts {
    company: Uuid,
    relations: Relations,
    people: Vec<(String, Uuid)>,
    pub(crate) tuples: BTreeSet<String>,
    pub(crate) active: Vec<bool>,
    pub(crate) admins: BTreeSet<Name>,
    pub(crate) positions: BTreeMap<Uuid, Option<Name>>,
    pub(crate) groups: BTreeMap<Uuid, BTreeSet<Name>>,
    /// What becomes of the next changes, in order; after them none fails.
    pub(crate) faults: VecDeque<Fault>,
}

/// A decision that a test holds back: whose, how to tell that it was made, and when to answer it.
type Held = (Name, oneshot::Sender<()>, mpsc::Receiver<()>);

/// The module and its company.
pub(crate) struct World {
    pub(crate) module: ModuleApi,
    pub(crate) people: Vec<Person>,
    facts: Arc<Mutex<Facts>>,
    held: Arc<Mutex<Option<Held>>>,
}

impl Facts {
    /// Whether somebody holds a relation on an object, by the tuples that stand.
    pub(crate) fn holds(&self, who: Name, object: &str, relation: &str) -> bool {
        self.active.get(who).copied().unwrap_or_default() && self.reaches(who, object, relation, 0)
    }

    fn reaches(&self, who: Name, object: &str, relation: &str, depth: usize) -> bool {
        assert!(depth < 40, "relations that never end at {object}#{relation}");
        let (kind, _) = object.split_once(':').expect("type:id");
        if kind == "company_module" {
            assert_eq!(object, format!("company_module:{}/docs", self.company), "another company's module");
            let is_admin = self.admins.contains(&who);
            return match relation {
                "member" => true,
                "admin" => is_admin,
                other => panic!("a question about {other} of the module"),
            };
        }
        let expression = &self.relations[kind][relation];
        self.satisfies(who, object, relation, expression, depth)
    }

    fn satisfies(
        &self,
        who: Name,
        object: &str,
        relation: &str,
        expression: &Expression,
        depth: usize,
    ) -> bool {
        match expression {
            Expression::This => self.subjects(object, relation).any(|subject| self.is(who, subject)),
            Expression::Computed(other) => self.reaches(who, object, other, depth + 1),
            Expression::TupleTo { tupleset, computed } => {
                let mut parents = self.subjects(object, tupleset);
                parents.any(|parent| self.reaches(who, parent, computed, depth + 1))
            }
            Expression::Union(children) => {
                children.iter().any(|child| self.satisfies(who, object, relation, child, depth))
            }
        }
    }

    fn subjects<'a>(&'a self, object: &str, relation: &str) -> impl Iterator<Item = &'a str> {
        let prefix = format!("{object}#{relation}@");
        let found: Vec<&str> =
            self.tuples.range(prefix.clone()..).map_while(|tuple| tuple.strip_prefix(&prefix)).collect();
        found.into_iter()
    }

    fn is(&self, who: Name, subject: &str) -> bool {
        let id = |text: &str| text.parse::<Uuid>().expect("a UUID");
        if let Some(user) = subject.strip_prefix("user:") {
            return self.people[who].0 == user;
        }
        if let Some(position) =
            subject.strip_prefix("position:").and_then(|rest| rest.strip_suffix("#holder"))
        {
            return self.positions.get(&id(position)) == Some(&Some(who));
        }
        let group = subject.strip_prefix("group:").and_then(|rest| rest.strip_suffix("#member"));
        self.groups
            .get(&id(group.expect("a known kind of subject")))
            .is_some_and(|group| group.contains(&who))
    }

    fn decide(&self, who: Option<Name>, question: &Value) -> Value {
        let (object, relation) = (&question["object"], question["relation"].as_str().unwrap_or_default());
        let text = |name: &str| object[name].as_str().unwrap_or_default().to_owned();
        let is_here = question["companyId"] == json!(self.company);
        let allowed = is_here
            && who.is_some_and(|who| self.holds(who, &format!("{}:{}", text("type"), text("id")), relation));
        let reason = if allowed { "ALLOWED" } else { "ENGINE_DENIED" };
        json!({ "data": { "allowed": allowed, "reason": reason, "evidence": [] } })
    }

    fn change(&mut self, asked: &Value) -> (u16, Value) {
        let fault = self.faults.pop_front().unwrap_or(Fault::None);
        let refusal = |code: &str| json!({ "error": { "code": code, "message": "no", "details": null } });
        match fault {
            Fault::Refused => return (403, refusal("AUTHORIZATION_DENIED")),
            Fault::LostBefore => return (503, refusal("AUTHORIZATION_UNAVAILABLE")),
            Fault::None | Fault::LostAfter => {}
        }
        let tuples: Vec<Tuple> = serde_json::from_value(asked["tuples"].clone()).expect("tuples");
        let grants = asked["op"] == "grant";
        let mut changed = Vec::new();
        for tuple in tuples.iter().map(Tuple::to_string) {
            let is_changed =
                if grants { self.tuples.insert(tuple.clone()) } else { self.tuples.remove(&tuple) };
            if is_changed {
                changed.push(tuple);
            }
        }
        if fault == Fault::LostAfter {
            return (503, refusal("AUTHORIZATION_UNAVAILABLE"));
        }
        let status = if grants { "granted" } else { "revoked" };
        let data =
            json!({ "status": status, "count": tuples.len(), "changed": changed.len(), "tuples": changed });
        (200, json!({ "data": data }))
    }

    fn context(&self, subject: &str) -> Value {
        let has_row = |(known, row): &(String, Uuid)| known == subject && !row.is_nil();
        let Some(who) = self.people.iter().position(has_row) else {
            return json!({ "data": { "isMember": false, "isActive": false, "memberId": null, "displayName": null,
                "email": null, "positionIds": [], "groupIds": [] } });
        };
        let positions: Vec<&Uuid> =
            self.positions.iter().filter(|(_, holder)| **holder == Some(who)).map(|(id, _)| id).collect();
        let groups: Vec<&Uuid> =
            self.groups.iter().filter(|(_, members)| members.contains(&who)).map(|(id, _)| id).collect();
        json!({ "data": { "isMember": true, "isActive": self.active[who], "memberId": self.people[who].1,
            "displayName": format!("Person {who}"), "email": null, "positionIds": positions, "groupIds": groups } })
    }

    fn look_up(&self, asked: &Value) -> (u16, Value) {
        let kinds = ["memberIds", "positionIds", "groupIds"];
        if kinds.into_iter().any(|kind| asked[kind].as_array().is_some_and(|ids| ids.len() > 200)) {
            let error =
                json!({ "code": "VALIDATION_FAILED", "message": "at most 200 items", "details": null });
            return (400, json!({ "error": error }));
        }
        let wanted = |name: &str| -> Vec<Uuid> { serde_json::from_value(asked[name].clone()).expect("ids") };
        let member = |id: Uuid| {
            let who = self.people.iter().position(|(_, member)| *member == id)?;
            let subject = Some(&self.people[who].0).filter(|subject| !subject.starts_with("unlinked"));
            Some(json!({ "id": id, "displayName": format!("Person {who}"), "email": null,
                "isActive": self.active[who], "kcSub": subject }))
        };
        let members: Vec<Value> = wanted("memberIds").into_iter().filter_map(member).collect();
        let positions = wanted("positionIds").into_iter().filter(|id| self.positions.contains_key(id));
        let positions: Vec<Value> = positions
            .map(|id| json!({ "id": id, "title": "Position", "holderMemberId": null, "holderDisplayName": null }))
            .collect();
        let groups = wanted("groupIds").into_iter().filter(|id| self.groups.contains_key(id));
        let groups: Vec<Value> = groups
            .map(|id| json!({ "id": id, "title": "Group", "isActive": true, "memberCount": 0 }))
            .collect();
        (200, json!({ "data": { "members": members, "positions": positions, "groups": groups } }))
    }
}

impl World {
    /// A company of this many people; the first administers the module, the last has no login.
    pub(crate) async fn of(count: usize) -> Self {
        Self::around(start().await, count)
    }

    /// The same around a module that runs.
    pub(crate) fn around(module: ModuleApi, count: usize) -> Self {
        let person = |at: usize| {
            let subject = if at + 1 == count { format!("unlinked-{at}") } else { format!("subject-{at}") };
            Person { member: Uuid::now_v7(), token: module.issuer.issue(&subject), subject }
        };
        let people: Vec<Person> = (0..count).map(person).collect();
        let fragment = fragment::parse(docs::BUNDLE.fragment, docs::KEY).expect("the fragment is right");
        let facts = Facts {
            company: module.company,
            relations: fragment.relations,
            people: people.iter().map(|person| (person.subject.clone(), person.member)).collect(),
            tuples: BTreeSet::new(),
            active: vec![true; count],
            admins: BTreeSet::from([0]),
            positions: BTreeMap::new(),
            groups: BTreeMap::new(),
            faults: VecDeque::new(),
        };
        let world = Self { module, people, facts: Arc::new(Mutex::new(facts)), held: Arc::default() };
        world.script();
        world
    }

    fn script(&self) {
        let tokens: Vec<String> = self.people.iter().map(|person| person.token.clone()).collect();
        let (facts, held) = (Arc::clone(&self.facts), Arc::clone(&self.held));
        self.module.authz.answer_with("POST", CAN, move |request| {
            let who = asked_by(request, &tokens);
            let decision = lock(&facts).decide(who, &request.body);
            let taken = lock(&held).take_if(|held| Some(held.0) == who);
            if let Some((_, made, answer)) = taken {
                made.send(()).expect("the test waits for the decision");
                tokio::task::block_in_place(|| answer.recv()).expect("the test lets the answer go");
            }
            (200, decision)
        });
        let facts = Arc::clone(&self.facts);
        self.module.authz.answer_with("POST", GRANTS, move |request| lock(&facts).change(&request.body));
        let facts = Arc::clone(&self.facts);
        self.module.authz.answer_with("POST", REVOKE, move |request| lock(&facts).change(&request.body));
        let facts = Arc::clone(&self.facts);
        self.module.authz.answer_with("POST", LOOKUP, move |request| {
            let facts = lock(&facts);
            let tuples: Vec<Tuple> = serde_json::from_value(request.body["tuples"].clone()).expect("tuples");
            let standing: Vec<bool> =
                tuples.iter().map(|tuple| facts.tuples.contains(&tuple.to_string())).collect();
            (200, json!({ "data": { "standing": standing } }))
        });
        let company = self.module.company;
        let facts = Arc::clone(&self.facts);
        let members = format!("/internal/org/companies/{company}/members/by-kcsub/*");
        self.module.org.answer_with("GET", &members, move |request| {
            let subject = request.path.split('/').rev().nth(1).unwrap_or_default().to_owned();
            (200, lock(&facts).context(&subject))
        });
        let facts = Arc::clone(&self.facts);
        let lookup = format!("/internal/org/companies/{company}/lookup");
        self.module.org.answer_with("POST", &lookup, move |request| lock(&facts).look_up(&request.body));
    }

    /// Carries out `meanwhile` when authz has decided the next question of this person and before it answers. The test
    /// needs a runtime of several threads.
    pub(crate) async fn meanwhile(
        &self,
        who: Name,
        call: impl Future<Output = Reply>,
        meanwhile: impl Future<Output = Reply>,
    ) -> (Reply, Reply) {
        let ((made, decided), (answer, go)) = (oneshot::channel(), mpsc::channel());
        *lock(&self.held) = Some((who, made, go));
        let changed = async {
            decided.await.expect("a decision");
            let changed = meanwhile.await;
            answer.send(()).expect("authz waits");
            changed
        };
        tokio::join!(call, changed)
    }

    /// The number of questions that authz has been asked for decisions.
    pub(crate) fn decisions(&self) -> usize {
        self.module.authz.requests().iter().filter(|request| request.path == CAN).count()
    }

    /// What authz and org know.
    pub(crate) fn facts(&self) -> MutexGuard<'_, Facts> {
        lock(&self.facts)
    }

    /// What becomes of the next changes of tuples.
    pub(crate) fn fail(&self, faults: &[Fault]) {
        self.facts().faults = faults.iter().copied().collect();
    }

    /// Org links the member row of one person to the login of another; the first one's login gets a new row. Gives it.
    pub(crate) fn relink(&self, row_of: Name, to: Name) -> Uuid {
        let (mut facts, new) = (self.facts(), Uuid::now_v7());
        facts.people[to].1 = facts.people[row_of].1;
        facts.people[row_of].1 = new;
        new
    }

    /// Org takes a person's login away from the member row, which stays.
    pub(crate) fn unlink(&self, row_of: Name) {
        let mut facts = self.facts();
        let row = facts.people[row_of].1;
        facts.people[row_of].1 = Uuid::nil();
        facts.people.push((format!("unlinked-{row}"), row));
        facts.active.push(true);
    }

    /// Org gives the login of a person without a row a new one.
    pub(crate) fn row_for(&self, who: Name) {
        self.facts().people[who].1 = Uuid::now_v7();
    }

    /// A new position that this person holds.
    pub(crate) fn position(&self, holder: Option<Name>) -> Uuid {
        let id = Uuid::now_v7();
        self.facts().positions.insert(id, holder);
        id
    }

    /// A new group of these people.
    pub(crate) fn group(&self, members: &[Name]) -> Uuid {
        let id = Uuid::now_v7();
        self.facts().groups.insert(id, members.iter().copied().collect());
        id
    }

    /// Asks as this person, and checks that the document allows the answer.
    pub(crate) async fn ask(&self, who: Name, method: &str, tail: &str, body: Option<Value>) -> Reply {
        self.ask_keyed(who, method, tail, body, None).await
    }

    /// The same with an `Idempotency-Key`.
    pub(crate) async fn ask_keyed(
        &self,
        who: Name,
        method: &str,
        tail: &str,
        body: Option<Value>,
        key: Option<&str>,
    ) -> Reply {
        self.module.ask_as(&self.people[who].token, method, tail, body, key).await
    }

    /// Asks until there is an answer: what was not answered is resumed by the same request.
    pub(crate) async fn insist(&self, who: Name, method: &str, tail: &str, body: Option<Value>) -> Reply {
        for _ in 0..REPETITIONS {
            let reply = self.ask(who, method, tail, body.clone()).await;
            if reply.status != 503 {
                return reply;
            }
        }
        panic!("{method} {tail} is never answered")
    }

    /// A new document of this person's.
    pub(crate) async fn document(&self, owner: Name, title: &str) -> String {
        let body = json!({ "title": title, "body": format!("text of {title}") });
        id(&self.ask(owner, "POST", "/documents", Some(body)).await)
    }

    /// A new folder of this person's.
    pub(crate) async fn folder(&self, owner: Name, name: &str, parent: Option<&str>) -> String {
        let body = json!({ "name": name, "parentId": parent });
        id(&self.ask(owner, "POST", "/folders", Some(body)).await)
    }

    /// Asks as this person for `/documents/<document><tail>`.
    pub(crate) async fn on(
        &self,
        who: Name,
        method: &str,
        document: &str,
        tail: &str,
        body: Option<Value>,
    ) -> Reply {
        self.ask(who, method, &format!("/documents/{document}{tail}"), body).await
    }

    /// Shares a document with a person.
    pub(crate) async fn share(&self, who: Name, document: &str, with: Name, role: &str) -> Reply {
        let body = json!({ "memberId": self.people[with].member, "role": role });
        self.on(who, "POST", document, "/shares", Some(body)).await
    }

    /// The titles and roles of a list, as `title: role`.
    pub(crate) async fn listed(&self, who: Name, query: &str) -> Vec<String> {
        let reply = self.ask(who, "GET", &format!("/documents?pageSize=100&{query}"), None).await;
        assert_eq!(reply.status, 200, "{}", reply.text);
        let items = reply.data()["items"].as_array().expect("a page");
        assert_eq!(reply.data()["total"], items.len(), "the total is the list's length");
        let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
        items.iter().map(|item| format!("{}: {}", text(&item["title"]), text(&item["myRole"]))).collect()
    }

    /// The statuses of reading, changing, sharing with nobody, and trashing: what somebody may do.
    pub(crate) async fn may_read(&self, who: Name, document: &str) -> bool {
        let reply = self.on(who, "GET", document, "", None).await;
        assert!(matches!(reply.status, 200 | 403), "{}", reply.text);
        reply.status == 200
    }

    /// One number of the database.
    pub(crate) async fn count(&self, sql: &str) -> i64 {
        let pool = self.module.database.owner_pool();
        sqlx::query_scalar(sqlx::AssertSqlSafe(sql.to_owned())).fetch_one(&pool).await.expect("a count")
    }

    /// Shares a document with this many empty groups.
    pub(crate) async fn fill_shares(&self, document: &str, count: usize) {
        let company = self.module.company;
        self.module
            .execute(format!(
                "INSERT INTO docs.shares(id, company_id, document_id, principal_kind, group_id, role, state, granted_by)
                 SELECT gen_random_uuid(), '{company}', '{document}', 'group', gen_random_uuid(), 'viewer', 'active',
                   'subject-1' FROM generate_series(1, {count})"
            ))
            .await;
    }

    /// The actions of the audit rows about a subject.
    pub(crate) async fn actions(&self, subject: &str) -> Vec<String> {
        let rows = self.module.audit().await;
        let about = rows.iter().filter(|row| row["subject"] == subject);
        about.map(|row| row["action"].as_str().unwrap_or_default().to_owned()).collect()
    }
}

fn asked_by(request: &Recorded, tokens: &[String]) -> Option<Name> {
    let bearer = request.headers.get("authorization")?.to_str().ok()?.strip_prefix("Bearer ")?;
    tokens.iter().position(|token| token == bearer)
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The `id` of what was made.
pub(crate) fn id(made: &Reply) -> String {
    assert_eq!(made.status, 201, "{}", made.text);
    made.data()["id"].as_str().expect("an id").to_owned()
}

/// `details.reason` of a refusal.
pub(crate) fn reason(reply: &Reply) -> &str {
    reply.body["error"]["details"]["reason"].as_str().unwrap_or_default()
}
