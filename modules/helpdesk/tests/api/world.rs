//! A company of several people, each with a login: org knows who holds which position and who is in which group at the
//! moment, and authz allows what a person's rights or the tuples that stand say.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};
use testkit::module::CAN;
use testkit::module::tuples::Tuples;
use testkit::{ModuleApi, Recorded, Reply};
use uuid::Uuid;

use crate::start;

/// Who asks: a place in [`World::people`].
pub(crate) type Name = usize;

/// An agent who administers the module, an agent, and three members without rights.
pub(crate) const STAFF: [&[&str]; 5] = [&["admin"], &["editor"], &[], &[], &[]];
pub(crate) const ADMIN: Name = 0;
pub(crate) const AGENT: Name = 1;
pub(crate) const ALICE: Name = 2;
pub(crate) const BOB: Name = 3;
pub(crate) const EVE: Name = 4;

/// How often a request is asked that the database does not answer in time; each takes seconds.
const MAX_ASKS: usize = 20;

/// Somebody with a login.
pub(crate) struct Person {
    pub(crate) member: Uuid,
    pub(crate) subject: String,
    token: String,
}

/// A member as org knows it.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    pub(crate) name: String,
    pub(crate) active: bool,
    pub(crate) subject: Option<String>,
}

/// What org knows of the company at the moment.
#[derive(Clone, Debug, Default)]
pub(crate) struct Company {
    pub(crate) members: BTreeMap<Uuid, Member>,
    /// Title and holder.
    pub(crate) positions: BTreeMap<Uuid, (String, Option<Uuid>)>,
    /// Title, whether it is active, and who is in it.
    pub(crate) groups: BTreeMap<Uuid, (String, bool, BTreeSet<Uuid>)>,
    /// Subjects whose account is suspended.
    pub(crate) suspended: BTreeSet<String>,
}

/// authz's question whether a module is in use.
pub(crate) const IN_USE: &str = "/internal/authz/companies/*";

/// The module and its people.
pub(crate) struct World {
    pub(crate) module: ModuleApi,
    pub(crate) people: Vec<Person>,
    pub(crate) tuples: Tuples,
    company: Arc<Mutex<Company>>,
    rights: Arc<Mutex<BTreeMap<String, BTreeSet<&'static str>>>>,
}

impl World {
    /// A company of [`STAFF`].
    pub(crate) async fn start() -> Self {
        Self::around(start().await, &STAFF)
    }

    /// The same around a module that runs, in which each person holds these relations beside `member`.
    pub(crate) fn around(module: ModuleApi, rights: &[&[&'static str]]) -> Self {
        let person = |at: usize| {
            let subject = format!("subject-{at}");
            // Longer than any number of races takes.
            let token = module.issuer.token(&subject).expires_in(86_400).sign();
            Person { member: Uuid::now_v7(), token, subject }
        };
        let people: Vec<Person> = (0..rights.len()).map(person).collect();
        let mut company = Company::default();
        for (at, person) in people.iter().enumerate() {
            let subject = Some(person.subject.clone());
            let member = Member { name: format!("Person {at}"), active: true, subject };
            company.members.insert(person.member, member);
        }
        let held = people.iter().zip(rights);
        let held = held.map(|(person, rights)| (person.subject.clone(), rights.iter().copied().collect()));
        let rights = Arc::new(Mutex::new(held.collect()));
        let tuples = module.take_tuples();
        let world = Self { module, people, tuples, company: Arc::new(Mutex::new(company)), rights };
        world.answer_as_org();
        world.answer_as_authz();
        world
    }

    /// What org knows; a change is seen by the next request.
    pub(crate) fn company(&self) -> MutexGuard<'_, Company> {
        locked(&self.company)
    }

    /// A position of the company.
    pub(crate) fn position(&self, title: &str, holder: Option<Name>) -> Uuid {
        let (id, holder) = (Uuid::now_v7(), holder.map(|who| self.people[who].member));
        self.company().positions.insert(id, (title.to_owned(), holder));
        id
    }

    /// Another holder, or none.
    pub(crate) fn hold(&self, position: Uuid, holder: Option<Name>) {
        let holder = holder.map(|who| self.people[who].member);
        self.company().positions.get_mut(&position).expect("a position").1 = holder;
    }

    /// A group of the company.
    pub(crate) fn group(&self, title: &str, people: &[Name]) -> Uuid {
        let id = Uuid::now_v7();
        let members = people.iter().map(|who| self.people[*who].member).collect();
        self.company().groups.insert(id, (title.to_owned(), true, members));
        id
    }

    /// From now on this person's member row has this person's login, or none.
    pub(crate) fn link(&self, row_of: Name, to: Option<Name>) {
        let subject = to.map(|who| self.people[who].subject.clone());
        self.company().members.get_mut(&self.people[row_of].member).expect("a member").subject = subject;
    }

    /// Org links the member row of one person to the login of another, whose own row has none then; the first one's login
    /// gets a new row. Gives it.
    pub(crate) fn relink(&self, row_of: Name, to: Name) -> Uuid {
        self.link(to, None);
        self.link(row_of, Some(to));
        self.row_for(row_of, true)
    }

    /// A new member row with this person's login, which no other row has.
    pub(crate) fn row_for(&self, who: Name, active: bool) -> Uuid {
        let (id, subject) = (Uuid::now_v7(), Some(self.people[who].subject.clone()));
        self.company().members.insert(id, Member { name: "Again".to_owned(), active, subject });
        id
    }

    /// Gives a person rights, or takes them.
    pub(crate) fn rights(&self, who: Name, rights: &[&'static str]) {
        let rights = rights.iter().copied().collect();
        locked(&self.rights).insert(self.people[who].subject.clone(), rights);
    }

    /// Asks as this person, and checks that the document allows the answer.
    pub(crate) async fn ask(&self, who: Name, method: &str, tail: &str, body: Option<Value>) -> Reply {
        self.module.ask_as(&self.people[who].token, method, tail, body, None).await
    }

    /// Posts as this person under an `Idempotency-Key`.
    pub(crate) async fn post_keyed(&self, who: Name, tail: &str, body: Option<Value>, key: &str) -> Reply {
        self.module.ask_as(&self.people[who].token, "POST", tail, body, Some(key)).await
    }

    /// Opens a ticket; its id.
    pub(crate) async fn open(&self, who: Name, title: &str) -> String {
        let body = json!({ "title": title, "description": "What happened" });
        id(&self.ask(who, "POST", "/tickets", Some(body)).await)
    }

    pub(crate) async fn show(&self, who: Name, ticket: &str) -> Reply {
        self.ask(who, "GET", &format!("/tickets/{ticket}"), None).await
    }

    pub(crate) async fn assign(&self, who: Name, ticket: &str, body: Value) -> Reply {
        self.ask(who, "PUT", &format!("/tickets/{ticket}/assignee"), Some(body)).await
    }

    pub(crate) async fn move_to(&self, who: Name, ticket: &str, status: &str) -> Reply {
        let body = json!({ "status": status });
        self.ask(who, "PUT", &format!("/tickets/{ticket}/status"), Some(body)).await
    }

    pub(crate) async fn comment(&self, who: Name, ticket: &str, body: Value) -> Reply {
        self.ask(who, "POST", &format!("/tickets/{ticket}/comments"), Some(body)).await
    }

    /// The data of a list.
    pub(crate) async fn list(&self, who: Name, tail: &str) -> Vec<Value> {
        let reply = self.ask(who, "GET", tail, None).await;
        assert_eq!(reply.status, 200, "{}", reply.text);
        reply.data().as_array().expect("a list").clone()
    }

    /// Actions of the ticket's history as this person sees it.
    pub(crate) async fn history(&self, who: Name, ticket: &str) -> Vec<String> {
        let entries = self.list(who, &format!("/tickets/{ticket}/history")).await;
        entries.iter().map(|entry| entry["action"].as_str().expect("a word").to_owned()).collect()
    }

    /// Asks as clients of bindings do: what the database did not answer in time is asked again, which resumes it. On a busy
    /// machine a request waits for another's lock longer than it may.
    pub(crate) async fn ask_until_answered(
        &self,
        who: Name,
        method: &str,
        tail: &str,
        body: Option<Value>,
    ) -> Reply {
        for _ in 0..MAX_ASKS {
            let reply = self.ask(who, method, tail, body.clone()).await;
            let waited = reply.status == 503 && reply.body["error"]["details"]["dependency"] == "postgres";
            if !waited {
                return reply;
            }
        }
        panic!("{method} {tail} is never answered")
    }

    /// Binds somebody.
    pub(crate) async fn bind(&self, who: Name, body: Value) -> Reply {
        self.ask_until_answered(who, "POST", "/bindings", Some(body)).await
    }

    pub(crate) async fn unbind(&self, who: Name, kind: &str, id: Uuid) -> Reply {
        self.ask_until_answered(who, "DELETE", &format!("/bindings/{kind}/{id}"), None).await
    }

    /// Every row of the module but its notices, which their worker changes whenever it tries them.
    pub(crate) async fn contents(&self) -> Vec<Value> {
        let rows = self.module.contents().await;
        rows.into_iter().filter(|row| row.get("claim_group").is_none()).collect()
    }

    /// One number of the database.
    pub(crate) async fn count(&self, sql: &str) -> i64 {
        let pool = self.module.database.owner_pool();
        sqlx::query_scalar(sqlx::AssertSqlSafe(sql)).fetch_one(&pool).await.expect("a count")
    }

    /// From now on authz takes changes of tuples again.
    pub(crate) fn answer_grants(&self) {
        self.module.answer_tuples(&self.tuples);
    }

    /// From now on org answers again.
    pub(crate) fn answer_as_org(&self) {
        let base = format!("/internal/org/companies/{}", self.module.company);
        let company = Arc::clone(&self.company);
        self.module.org.answer_with("GET", &format!("{base}/members/by-kcsub/*"), move |request| {
            (200, json!({ "data": locked(&company).context(subject_of(request)) }))
        });
        let company = Arc::clone(&self.company);
        self.module.org.answer_with("POST", &format!("{base}/lookup"), move |request| {
            (200, json!({ "data": locked(&company).looked_up(&request.body) }))
        });
        let company = Arc::clone(&self.company);
        self.module.org.answer_with("GET", &format!("{base}/assignables/*"), move |request| {
            (200, json!({ "data": locked(&company).assignables(request.path.ends_with("groups")) }))
        });
    }

    /// Has authz say whether the module is in use, in every company.
    pub(crate) fn answer_in_use(&self, in_use: bool) {
        let answer = json!({ "data": { "inUse": in_use } });
        self.module.authz.answer("GET", IN_USE, 200, answer);
    }

    fn answer_as_authz(&self) {
        let (company, rights, tuples) =
            (Arc::clone(&self.company), Arc::clone(&self.rights), self.tuples.clone());
        let module = format!("company_module:{}/helpdesk", self.module.company);
        let bearers: BTreeMap<String, String> = self
            .people
            .iter()
            .map(|person| (format!("Bearer {}", person.token), person.subject.clone()))
            .collect();
        let directory = format!("/internal/authz/directory/{}/", self.module.company);
        let known = Arc::clone(&self.company);
        self.module.authz.answer_with("GET", &format!("{directory}*"), move |request| {
            let subject = request.path.trim_start_matches(&directory);
            let held = locked(&known).is_active(subject);
            let reason = if held { "ALLOWED" } else { "USER_LIFECYCLE_DISABLED" };
            (200, json!({ "data": { "held": held, "reason": reason, "evidence": [] } }))
        });
        self.answer_in_use(true);
        self.module.authz.answer_with("POST", CAN, move |request| {
            let bearer = request.headers.get("authorization").and_then(|value| value.to_str().ok());
            let subject = bearers.get(bearer.unwrap_or_default()).map(String::as_str).unwrap_or_default();
            let held = locked(&rights).get(subject).cloned().unwrap_or_default();
            let standing = tuples.all();
            let company = locked(&company);
            let holds = |relation: &str| {
                held.contains(relation)
                    || company
                        .names(subject)
                        .iter()
                        .any(|name| standing.contains(&format!("{module}#{relation}@{name}")))
            };
            let allowed = match request.body["relation"].as_str().unwrap_or_default() {
                "admin" => holds("admin"),
                "editor" => holds("editor") || holds("admin"),
                _ => holds("editor") || holds("admin") || company.is_active(subject),
            };
            let reason = if allowed { "ALLOWED" } else { "ENGINE_DENIED" };
            (200, json!({ "data": { "allowed": allowed, "reason": reason, "evidence": [] } }))
        });
    }
}

impl Company {
    fn member(&self, subject: &str) -> Option<(Uuid, &Member)> {
        let mut members = self.members.iter();
        members
            .find(|(_, member)| member.subject.as_deref() == Some(subject))
            .map(|(id, member)| (*id, member))
    }

    fn is_active(&self, subject: &str) -> bool {
        self.member(subject).is_some_and(|(_, member)| member.active) && !self.suspended.contains(subject)
    }

    fn places(&self, member: Uuid) -> (Vec<Uuid>, Vec<Uuid>) {
        let positions = self.positions.iter().filter(|(_, (_, holder))| *holder == Some(member));
        let groups =
            self.groups.iter().filter(|(_, (_, active, members))| *active && members.contains(&member));
        (positions.map(|(id, _)| *id).collect(), groups.map(|(id, _)| *id).collect())
    }

    fn context(&self, subject: &str) -> Value {
        let Some((id, member)) = self.member(subject) else {
            return json!({ "isMember": false, "isActive": false, "memberId": null, "displayName": null,
                "email": null, "positionIds": [], "groupIds": [] });
        };
        let (positions, groups) = self.places(id);
        json!({ "isMember": true, "isActive": member.active, "memberId": id, "displayName": member.name,
            "email": null, "positionIds": positions, "groupIds": groups })
    }

    /// What tuples call a subject.
    fn names(&self, subject: &str) -> Vec<String> {
        let Some((id, _)) = self.member(subject).filter(|(_, member)| member.active) else {
            return Vec::new();
        };
        let (positions, groups) = self.places(id);
        let positions = positions.iter().map(|id| format!("position:{id}#holder"));
        let groups = groups.iter().map(|id| format!("group:{id}#member"));
        positions.chain(groups).chain([format!("user:{subject}")]).collect()
    }

    fn looked_up(&self, wanted: &Value) -> Value {
        let ids = |name: &str| -> Vec<Uuid> {
            let ids = wanted[name].as_array().into_iter().flatten();
            ids.map(|id| id.as_str().expect("an id").parse().expect("a UUID")).collect()
        };
        let member = |id: Uuid| {
            let found = self.members.get(&id)?;
            Some(json!({ "id": id, "displayName": found.name, "email": null, "isActive": found.active,
                "kcSub": found.subject }))
        };
        let login = |member: &Uuid| {
            self.members.get(member).filter(|member| member.active).and_then(|member| member.subject.clone())
        };
        let position = |id: Uuid| {
            let (title, holder) = self.positions.get(&id)?;
            let name = holder.and_then(|holder| Some(self.members.get(&holder)?.name.clone()));
            Some(json!({ "id": id, "title": title, "holderMemberId": holder, "holderDisplayName": name,
                "logins": holder.as_ref().and_then(login).into_iter().collect::<Vec<_>>() }))
        };
        let group = |id: Uuid| {
            let (title, active, members) = self.groups.get(&id)?;
            Some(json!({ "id": id, "title": title, "isActive": active, "memberCount": members.len(),
                "logins": members.iter().filter_map(login).collect::<Vec<_>>() }))
        };
        json!({
            "members": ids("memberIds").into_iter().filter_map(member).collect::<Vec<_>>(),
            "positions": ids("positionIds").into_iter().filter_map(position).collect::<Vec<_>>(),
            "groups": ids("groupIds").into_iter().filter_map(group).collect::<Vec<_>>(),
        })
    }

    fn assignables(&self, groups: bool) -> Vec<Value> {
        if groups {
            let active = self.groups.iter().filter(|(_, (_, active, _))| *active);
            let shown = active.map(|(id, (title, _, members))| {
                json!({ "groupId": id, "title": title, "memberCount": members.len() })
            });
            return shown.collect();
        }
        let shown = self.positions.iter().map(|(id, (title, holder))| {
            let name = holder.and_then(|holder| Some(self.members.get(&holder)?.name.clone()));
            json!({ "positionId": id, "title": title, "holderMemberId": holder, "holderDisplayName": name })
        });
        shown.collect()
    }
}

fn subject_of(request: &Recorded) -> &str {
    let tail = request.path.split("/by-kcsub/").nth(1).unwrap_or_default();
    tail.split('/').next().unwrap_or_default()
}

fn locked<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The `id` of what was made.
pub(crate) fn id(made: &Reply) -> String {
    assert!((200..300).contains(&made.status), "{}", made.text);
    made.data()["id"].as_str().expect("an id").to_owned()
}

/// The word of a refusal: the code, or the reason where the code is generic; empty for a success.
pub(crate) fn word(reply: &Reply) -> &str {
    let reason = reply.body["error"]["details"]["reason"].as_str().unwrap_or_default();
    match reply.code() {
        "AUTHORIZATION_DENIED" | "VALIDATION_FAILED" => reason,
        code => code,
    }
}

/// Status and word of an answer.
pub(crate) fn told(reply: &Reply) -> (u16, &str) {
    (reply.status, word(reply))
}
