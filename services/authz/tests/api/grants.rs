//! Grants: what each rule accepts and refuses, the order of the rules, and that a request writes all or nothing, with
//! its audit row.

use std::time::Duration;

use contract::id::CompanyId;
use serde_json::{Value, json};
use sqlx::AssertSqlSafe;
use testkit::Reply;

use crate::app::{App, in_company, with};
use crate::can::crm;
use crate::roles::{revoke, until_so_many_wait, until_somebody_waits};

const GRANTS: &str = "/internal/authz/grants";
const LOOKUP: &str = "/internal/authz/tuples/lookup";
const POSITION: &str = "01890a5d-ac96-774b-bcce-b302099a8101";
pub(crate) const GROUP: &str = "01890a5d-ac96-774b-bcce-b302099a8102";
const FOREIGN_GROUP: &str = "01890a5d-ac96-774b-bcce-b302099a8103";

/// The modules `crm` and `erp` in two companies; alice is a member of the first, boss administers its module.
pub(crate) struct World {
    pub(crate) app: App,
    pub(crate) company: CompanyId,
    foreign: CompanyId,
}

impl World {
    pub(crate) async fn start() -> Self {
        Self::start_as(false).await
    }

    /// Starts with apps instead of modules.
    pub(crate) async fn start_with_apps() -> Self {
        Self::start_as(true).await
    }

    async fn start_as(apps: bool) -> Self {
        let app = App::start().await;
        let rows = app.rows();
        let (company, foreign) = (rows.company().await, rows.company().await);
        let mut relations = crm();
        relations["crm_note"] = json!({
            "company_module": { "this": true },
            "deal": { "this": true },
            "reader": { "tupleToUserset": { "tupleset": "deal", "computedUserset": "viewer" } },
        });
        let erp = json!({ "erp_order": { "company_module": { "this": true }, "owner": { "this": true } } });
        for (key, relations) in [("crm", &relations), ("erp", &erp)] {
            if apps {
                rows.app(key, relations, &[]).await;
            } else {
                rows.module(key, relations).await;
            }
        }
        for subject in ["alice", "boss"] {
            rows.subject(subject).await;
            rows.member(company, subject).await;
        }
        for place in [company, foreign] {
            rows.defaults(place, "crm").await;
            rows.defaults(place, "erp").await;
        }
        rows.tuple(&format!("company_module:{company}/crm#admin@user:boss"), "grant").await;
        for (group, place) in [(GROUP, company), (FOREIGN_GROUP, foreign)] {
            rows.run(format!(
                "INSERT INTO org.groups(id, company_id, code, name) VALUES ('{group}', '{place}', 'G', 'A group')"
            ))
            .await;
        }
        rows.run(format!(
            "INSERT INTO org.positions(id, company_id, code, title, org_unit_id)
             VALUES ('{POSITION}', '{company}', 'P', 'A position', '{company}')"
        ))
        .await;
        Self { app, company, foreign }
    }

    /// A request body; `{c}` and `{f}` stand for the companies.
    pub(crate) fn body(&self, op: &str, tuples: &[&str]) -> Value {
        let fill = |text: &&str| {
            let text = text.replace("{c}", &self.company.to_string());
            tuple(&text.replace("{f}", &self.foreign.to_string()))
        };
        let tuples: Vec<Value> = tuples.iter().map(fill).collect();
        json!({ "op": op, "companyId": self.company, "tuples": tuples })
    }

    async fn ask(&self, subject: &str, op: &str, tuples: &[&str]) -> Reply {
        self.app.ask("POST", GRANTS, subject, Some(self.body(op, tuples))).await
    }

    /// `(count, changed)` of a request that must succeed.
    pub(crate) async fn done(&self, subject: &str, op: &str, tuples: &[&str]) -> (u64, u64) {
        let reply = self.ask(subject, op, tuples).await;
        assert_eq!(reply.status, 200, "{op} {tuples:?}: {}", reply.text);
        let number = |name: &str| reply.data()[name].as_u64().expect("a number");
        let listed = reply.data()["tuples"].as_array().map(Vec::len);
        assert_eq!(listed, usize::try_from(number("changed")).ok(), "{}", reply.text);
        assert_eq!(reply.data()["status"], if op == "grant" { "granted" } else { "revoked" });
        (number("count"), number("changed"))
    }

    /// The status of a refused request, with the path of the first invalid field or the reason.
    pub(crate) async fn refused(&self, subject: &str, op: &str, tuples: &[&str]) -> (u16, String) {
        let reply = self.ask(subject, op, tuples).await;
        let details = &reply.body["error"]["details"];
        let told = details["fields"][0]["path"].as_str().or_else(|| details["reason"].as_str());
        (reply.status, told.unwrap_or_default().to_owned())
    }

    /// Restores all rights and removes all deals.
    async fn as_at_the_start(&self) {
        self.app
            .rows()
            .run(format!(
                "UPDATE identity.users SET lifecycle = 'active'; UPDATE org.members SET is_active = true;
                 DELETE FROM authz.tuple WHERE object_type = 'crm_deal';
                 INSERT INTO authz.tuple VALUES ('company_module', '{}/crm', 'admin', 'user', 'boss', '', 'grant'),
                     ('crm_deal', '1', 'company_module', 'company_module', '{}/crm', '', 'grant'),
                     ('system', 'platform', 'superadmin', 'user', 'mona', '', 'role') ON CONFLICT DO NOTHING",
                self.company, self.company
            ))
            .await;
    }

    pub(crate) async fn granted(&self) -> i64 {
        let sql = "SELECT count(*) FROM authz.tuple WHERE source = 'grant'";
        sqlx::query_scalar(sql).fetch_one(&self.app.owner).await.expect("a number")
    }
}

fn tuple(text: &str) -> Value {
    let [object_type, object_id, relation, subject_type, subject_id, subject_relation] =
        crate::app::Tuple::parse(text).0;
    json!({
        "objectType": object_type, "objectId": object_id, "relation": relation,
        "subjectType": subject_type, "subjectId": subject_id, "subjectRelation": subject_relation,
    })
}

pub(crate) const ANCHOR: &str = "crm_deal:1#company_module@company_module:{c}/crm";
pub(crate) const OWNER: &str = "crm_deal:1#owner@user:alice";

#[tokio::test]
async fn an_object_is_anchored_and_given_in_one_request_and_taken_again() {
    let world = World::start().await;
    let asked = || {
        with(
            in_company(world.company),
            json!({ "moduleKey": "crm", "object": { "type": "crm_deal", "id": "1" }, "relation": "viewer" }),
        )
    };
    assert_eq!(world.app.reason("alice", asked()).await, "ENGINE_DENIED");
    assert_eq!(world.done("alice", "grant", &[ANCHOR, OWNER]).await, (2, 2));
    assert_eq!(world.app.reason("alice", asked()).await, "ALLOWED", "seen at once");
    assert_eq!(world.done("alice", "grant", &[ANCHOR, OWNER]).await, (2, 0), "repeated");
    assert_eq!(world.done("alice", "revoke", &[OWNER, OWNER]).await, (2, 1));
    assert_eq!(world.app.reason("alice", asked()).await, "ENGINE_DENIED", "gone at once");
    assert_eq!(world.done("alice", "revoke", &[ANCHOR, OWNER]).await, (2, 1));
    assert_eq!(world.done("alice", "revoke", &[ANCHOR, OWNER]).await, (2, 0), "repeated");
    let rows = world.app.audit().await;
    let rows: Vec<&Value> = rows.iter().filter(|row| row["action"] != "access.denied").collect();
    assert_eq!(rows.len(), 3, "one for each request that changed something");
    let anchor = ANCHOR.replace("{c}", &world.company.to_string());
    let expected = json!({
        "companyId": world.company, "actor": "alice", "action": "tuples.granted",
        "subject": format!("company:{}", world.company), "correlationId": "test-correlation",
        "payload": { "tuples": [anchor, OWNER], "requested": 2 },
    });
    assert_eq!(*rows[0], expected);
    assert_eq!(
        (&rows[1]["action"], &rows[1]["payload"]["tuples"]),
        (&json!("tuples.revoked"), &json!([OWNER]))
    );
}

#[tokio::test]
async fn every_subject_that_a_grant_takes() {
    let world = World::start().await;
    let (holder, member) = (
        format!("crm_deal:1#viewer@position:{}#holder", POSITION.to_uppercase()),
        format!("crm_deal:1#viewer@group:{GROUP}#member"),
    );
    let tuples = [
        ANCHOR,
        OWNER,
        &holder,
        &member,
        "crm_note:1#company_module@company_module:{c}/crm",
        "crm_note:1#deal@crm_deal:1",
    ];
    assert_eq!(world.done("alice", "grant", &tuples).await, (6, 6));
    let note = with(
        in_company(world.company),
        json!({ "moduleKey": "crm", "object": { "type": "crm_note", "id": "1" }, "relation": "reader" }),
    );
    assert_eq!(world.app.reason("alice", note).await, "ALLOWED", "the note follows its deal");
    let tiers = [
        "company_module:{c}/crm#editor@user:alice",
        &format!("company_module:{{c}}/crm#member@group:{GROUP}#member"),
    ];
    assert_eq!(world.done("boss", "grant", &tiers).await, (2, 2), "an administrator gives tiers");
    assert_eq!(world.done("root", "revoke", &tiers).await, (2, 2), "a superadmin needs no membership");
}

#[tokio::test]
async fn what_a_tuple_cannot_be_is_422_and_named() {
    let world = World::start().await;
    world.app.rows().run("UPDATE registry.modules SET enabled = false WHERE key = 'erp'").await;
    world.app.rows().catalog_changed().await;
    assert_eq!(world.done("alice", "grant", &[ANCHOR]).await, (1, 1));
    for (wrong, field) in [
        ("company:{c}#member@user:alice", "objectType"),
        ("system:platform#superadmin@user:alice", "objectType"),
        ("position:p#holder@user:alice", "objectType"),
        ("group:g#member@user:alice", "objectType"),
        ("document:1#owner@user:alice", "objectType"),
        ("unicorn:1#rider@user:alice", "objectType"),
        ("erp_order:1#owner@user:alice", "objectType"),
        ("company_module:{c}/erp#member@user:alice", "objectId"),
        ("company_module:{c}/nothing#member@user:alice", "objectId"),
        ("company_module:crm#member@user:alice", "objectId"),
        ("company_module:{c}/crm#company@company:{c}", "relation"),
        ("company_module:{c}/crm#system@system:platform", "relation"),
        ("company_module:{c}/crm#owner@user:alice", "relation"),
        ("company_module:{c}/crm#member@company:{c}#member", "subjectType"),
        ("crm_deal:1#unheard@user:alice", "relation"),
        ("crm_note:1#reader@user:alice", "relation"),
        ("crm_deal:1#owner@user:alice#member", "subjectRelation"),
        ("crm_deal:1#owner@position:01890a5d-ac96-774b-bcce-b302099a8101", "subjectRelation"),
        ("crm_deal:1#owner@group:01890a5d-ac96-774b-bcce-b302099a8102#holder", "subjectRelation"),
        ("crm_deal:1#owner@group:g#member", "subjectId"),
        ("crm_deal:1#owner@company:{c}#member", "subjectType"),
        ("crm_deal:1#owner@company_module:{c}/crm", "subjectType"),
        ("crm_deal:1#owner@company_module:{c}/crm#admin", "subjectType"),
        ("crm_deal:1#owner@erp_order:1", "subjectType"),
        ("crm_deal:1#company_module@user:alice", "subjectType"),
        ("crm_note:1#deal@crm_deal:1#viewer", "subjectRelation"),
        ("crm_deal:1#owner@crm_deal:2", "relation"),
        // The right kind, but of another company.
        ("crm_deal:2#owner@user:alice", "objectId"),
        ("crm_deal:2#company_module@company_module:{f}/crm", "objectId"),
        ("crm_deal:2#company_module@company_module:{c}/erp", "objectId"),
        ("company_module:{f}/crm#member@user:alice", "objectId"),
        ("crm_deal:1#owner@position:01890a5d-ac96-774b-bcce-b302099a8109#holder", "subjectId"),
        ("crm_deal:1#owner@group:01890a5d-ac96-774b-bcce-b302099a8103#member", "subjectId"),
    ] {
        let expected = (422, format!("tuples[1].{field}"));
        assert_eq!(world.refused("root", "grant", &[OWNER, wrong]).await, expected, "{wrong}");
    }
    let twice = ["crm_deal:1#company_module@company_module:{f}/crm"];
    assert_eq!(world.refused("root", "grant", &twice).await, (422, "tuples[0].objectId".to_owned()));
    let loose = ["crm_note:1#company_module@company_module:{c}/crm", "crm_note:1#deal@crm_deal:9"];
    assert_eq!(world.refused("root", "grant", &loose).await, (422, "tuples[1].subjectId".to_owned()));
    assert_eq!(world.granted().await, 2, "a refused request writes nothing");
    assert_eq!(world.app.audit().await.len(), 1);
}

#[tokio::test]
async fn rules_are_asked_in_their_order() {
    let world = World::start().await;
    world.app.rows().subject("stranger").await;
    let (unanchored, tier) = ("crm_deal:9#owner@user:alice", "company_module:{c}/crm#member@user:alice");
    let denied = |reason: &str| (403, reason.to_owned());
    let type_first = world.refused("stranger", "grant", &[unanchored, "unicorn:1#rider@user:alice"]).await;
    assert_eq!(type_first, (422, "tuples[1].objectType".to_owned()), "type before decision");
    let decision = world.refused("stranger", "grant", &[unanchored]).await;
    assert_eq!(decision, denied("COMPANY_MEMBERSHIP_REQUIRED"), "decision before anchor");
    let anchor = world.refused("alice", "grant", &[unanchored, tier]).await;
    assert_eq!(anchor, (422, "tuples[0].objectId".to_owned()), "anchor before admin");
    assert_eq!(world.refused("alice", "grant", &[tier]).await, denied("ENGINE_DENIED"), "no administrator");
    let shape = world.app.ask("POST", GRANTS, "stranger", Some(json!({ "op": "give" }))).await;
    assert_eq!((shape.status, shape.code()), (400, "VALIDATION_ERROR"), "shape before anything");
    world.app.rows().look(301).await;
    let reply = world.ask("alice", "grant", &[ANCHOR]).await;
    assert_eq!((reply.status, reply.code()), (503, "AUTHORIZATION_UNAVAILABLE"), "{}", reply.text);
    world.app.rows().look(0).await;
    for (change, reason) in [
        ("UPDATE org.members SET is_active = false", "COMPANY_ACCESS_BLOCKED"),
        ("UPDATE org.units SET is_active = false", "COMPANY_INACTIVE"),
        ("UPDATE identity.users SET lifecycle = 'suspended'", "USER_LIFECYCLE_DISABLED"),
        ("UPDATE identity.users SET idp_enabled = false", "IDP_DISABLED"),
        ("DELETE FROM identity.users", "AUTH_USER_NOT_FOUND"),
    ] {
        world.app.rows().run(change).await;
        assert_eq!(world.refused("alice", "grant", &[ANCHOR, OWNER]).await, denied(reason));
    }
    assert_eq!(world.app.audit().await, Vec::<Value>::new());
}

#[tokio::test]
async fn limits_of_the_shape() {
    let world = World::start().await;
    let long = |length: usize| json!("x".repeat(length));
    let good = || world.body("grant", &[OWNER]);
    for (path, name, value) in [
        ("op", "op", json!("give")),
        ("companyId", "companyId", json!("x")),
        ("tuples", "tuples", json!([])),
        ("tuples", "tuples", json!(vec![tuple(OWNER); 1_001])),
        ("tuples[0]", "tuples", json!([7])),
        ("correlationId", "correlationId", long(201)),
    ] {
        let reply = world.app.ask("POST", GRANTS, "root", Some(with(good(), json!({ name: value })))).await;
        assert_eq!((reply.status, reply.code()), (400, "VALIDATION_ERROR"), "{path}");
        assert_eq!(reply.body["error"]["details"]["fields"][0]["path"], path, "{}", reply.text);
    }
    for (name, limit) in [
        ("objectType", 64),
        ("objectId", 200),
        ("relation", 64),
        ("subjectType", 64),
        ("subjectId", 255),
        ("subjectRelation", 64),
    ] {
        for (value, status) in [(long(limit + 1), 400), (json!(7), 400), (long(limit), 422)] {
            let mut body = good();
            body["tuples"][0][name] = value;
            let reply = world.app.ask("POST", GRANTS, "root", Some(body)).await;
            assert_eq!(reply.status, status, "{name}: {}", reply.text);
        }
    }
    let many: Vec<String> = (0..999).map(|index| format!("crm_deal:1#viewer@user:u{index}")).collect();
    let many: Vec<&str> = [ANCHOR].into_iter().chain(many.iter().map(String::as_str)).collect();
    assert_eq!(world.done("root", "grant", &many).await, (1_000, 1_000));
}

#[tokio::test]
async fn an_apps_backend_grants_on_its_own_types_only() {
    let world = World::start_with_apps().await;
    let rows = world.app.rows();
    rows.subject("account-of-crm").await;
    let token = world.app.issuer.service_account("account-of-crm", "crm");
    let ask = async |tuples: &[&str]| {
        let reply = world.app.ask_with(&token, "POST", GRANTS, world.body("grant", tuples)).await;
        (reply.status, reply.body["error"]["details"]["reason"].as_str().unwrap_or_default().to_owned())
    };
    let denied = |reason: &str| (403, reason.to_owned());
    assert_eq!(ask(&[ANCHOR, OWNER]).await, denied("COMPANY_MEMBERSHIP_REQUIRED"), "like anybody else");
    rows.member(world.company, "account-of-crm").await;
    assert_eq!(ask(&[ANCHOR, OWNER]).await, (200, String::new()));
    for other in ["erp_order:1#owner@user:alice", "company_module:{c}/erp#member@user:alice"] {
        assert_eq!(ask(&[OWNER, other]).await, denied("TYPE_OF_ANOTHER_APP"), "{other}");
    }
    let tier = "company_module:{c}/crm#member@user:alice";
    assert_eq!(ask(&[tier]).await, denied("ENGINE_DENIED"), "its own module, without being administrator");
}

#[tokio::test]
async fn a_token_of_an_apps_client_that_is_not_its_accounts_gives_its_user_nothing() {
    let world = World::start_with_apps().await;
    let rows = world.app.rows();
    rows.subject("account-of-crm").await;
    rows.member(world.company, "account-of-crm").await;
    let ask = async |subject: &str, client: &str| {
        let token = world.app.issuer.token(subject).claim("azp", client).sign();
        let reply = world.app.ask_with(&token, "POST", GRANTS, world.body("grant", &[ANCHOR, OWNER])).await;
        (reply.status, reply.body["error"]["details"]["reason"].as_str().unwrap_or_default().to_owned())
    };
    let (done, refused) = ((200, String::new()), (403, "NOT_THE_APPS_ACCOUNT".to_owned()));
    let before = world.granted().await;
    assert_eq!(ask("alice", "crm").await, refused, "a member whom the app's client logged in");
    assert_eq!(ask("boss", "crm").await, refused, "and the module's administrator");
    assert_eq!(ask("account-of-crm", "erp").await, refused, "the account with another app's client");
    rows.run("UPDATE registry.modules SET service_subject = NULL").await;
    assert_eq!(ask("account-of-crm", "crm").await, refused, "while the account is unknown");
    assert_eq!(world.granted().await, before);
    rows.run("UPDATE registry.modules SET service_subject = 'account-of-' || key").await;
    assert_eq!(ask("account-of-crm", "crm").await, done, "the account itself");
    assert_eq!(ask("alice", "platform-frontend").await, refused, "no module asks for an app");
    assert_eq!(ask("root", "crm").await, done, "a superadmin, whatever client made the token");
}

/// Only an app's own account and superadmins grant on its objects; a member that reaches authz's port cannot.
#[tokio::test]
async fn a_users_own_bearer_gives_nothing_of_an_app() {
    let world = World::start_with_apps().await;
    let refused = (403, "NOT_THE_APPS_ACCOUNT".to_owned());
    assert_eq!(world.done("root", "grant", &[ANCHOR, OWNER]).await, (2, 2), "a superadmin");
    let before = world.granted().await;
    for (subject, op, tuple) in [
        ("alice", "grant", "crm_deal:1#viewer@user:alice"),
        ("alice", "grant", "crm_deal:2#company_module@company_module:{c}/crm"),
        ("alice", "revoke", OWNER),
        ("boss", "grant", "company_module:{c}/crm#editor@user:alice"),
        ("boss", "grant", "company_module:{c}/erp#member@user:alice"),
    ] {
        assert_eq!(world.refused(subject, op, &[tuple]).await, refused, "{subject} {op} {tuple}");
    }
    assert_eq!(world.granted().await, before);
}

#[tokio::test]
async fn only_a_superadmin_takes_the_default_system_tuple_away() {
    let world = World::start().await;
    let system = ["company_module:{c}/crm#system@system:platform"];
    let denied = (403, "PLATFORM_ROLE_REQUIRED".to_owned());
    assert_eq!(world.refused("boss", "revoke", &system).await, denied);
    let tier = ["company_module:{c}/crm#member@user:alice"];
    assert_eq!(world.done("root", "grant", &tier).await, (1, 1));
    assert_eq!(world.done("root", "revoke", &system).await, (1, 1));
    assert_eq!(world.done("root", "revoke", &system).await, (1, 0), "repeated");
    assert_eq!(
        world.refused("root", "grant", &tier).await,
        (403, "ENGINE_DENIED".to_owned()),
        "now locked out"
    );
    let company = ["company_module:{c}/crm#company@company:{c}"];
    assert_eq!(world.refused("root", "revoke", &company).await, (422, "tuples[0].relation".to_owned()));
}

#[tokio::test]
async fn what_cannot_be_audited_is_not_granted() {
    let world = World::start().await;
    let before = world.granted().await;
    world.app.rows().run("REVOKE INSERT ON audit.authz__events FROM platform_authz").await;
    assert_eq!(world.ask("alice", "grant", &[ANCHOR, OWNER]).await.status, 500);
    assert_eq!(world.granted().await, before);
}

/// Two companies request the same object at once: one of them gets it, in every round.
#[tokio::test]
async fn an_object_never_gets_two_anchors() {
    let world = World::start().await;
    for round in 0..40 {
        let mine = format!("crm_deal:race{round}#company_module@company_module:{{c}}/crm");
        let mine = [mine.as_str()];
        let theirs = format!("crm_deal:race{round}#company_module@company_module:{{f}}/crm");
        let other = with(world.body("grant", &[&theirs]), json!({ "companyId": world.foreign }));
        let (first, second) = tokio::join!(
            world.ask("root", "grant", &mine),
            world.app.ask("POST", GRANTS, "root", Some(other))
        );
        let mut statuses = [first.status, second.status];
        statuses.sort_unstable();
        assert_eq!(statuses, [200, 422], "round {round}: {} {}", first.text, second.text);
    }
}

/// Requests with the same tuples in opposite orders all succeed without a deadlock, and each tuple exists once.
#[tokio::test]
async fn concurrent_grants_and_revokes_of_the_same_tuples_are_all_done() {
    let world = World::start().await;
    let many: Vec<String> =
        (0..40).map(|index| format!("crm_deal:{index}#company_module@company_module:{{c}}/crm")).collect();
    let forward: Vec<&str> = many.iter().map(String::as_str).collect();
    let backward: Vec<&str> = forward.iter().rev().copied().collect();
    let mut balance = 0_i64;
    for _ in 0..10 {
        let (a, b, c, d) = tokio::join!(
            world.done("alice", "grant", &forward),
            world.done("boss", "revoke", &backward),
            world.done("root", "grant", &backward),
            world.done("alice", "revoke", &forward),
        );
        let signed = |(_, changed): (u64, u64)| i64::try_from(changed).expect("small");
        balance += signed(a) - signed(b) + signed(c) - signed(d);
    }
    assert_eq!(world.granted().await - 1, balance, "the answers match the tuples");
}

/// A module is disabled while a grant waits for its locks: the grant is judged by the new catalog.
#[tokio::test]
async fn a_catalog_that_changes_before_the_write_is_asked_again() {
    let world = World::start().await;
    let mut registry = world.app.owner.begin().await.expect("a transaction");
    for sql in [
        "SELECT pg_advisory_xact_lock(hashtextextended('platform.default_grants', 0))",
        "UPDATE registry.modules SET enabled = false WHERE key = 'crm'",
        "UPDATE registry.model_revision SET revision = revision + 1",
    ] {
        sqlx::query(sql).execute(&mut *registry).await.expect("the superuser may");
    }
    let (refused, ()) = tokio::join!(world.refused("alice", "grant", &[ANCHOR, OWNER]), async {
        until_somebody_waits(&world.app).await;
        registry.commit().await.expect("a commit");
    });
    assert_eq!(refused, (422, "tuples[0].objectType".to_owned()));
}

/// A grant is admitted before its actor loses the right, and waits for the locks until the loss is committed.
#[tokio::test]
async fn a_grant_that_waits_is_refused_once_its_actor_lost_the_right() {
    let world = World::start().await;
    world.app.rows().subject("mona").await;
    world.app.rows().tuple("system:platform#superadmin@user:mona", "role").await;
    let module = "SELECT pg_advisory_xact_lock(hashtext('authz.grants'),
        (hashtextextended('company_module:' || '{c}' || '/crm', 0) & 127)::int)";
    let object = "SELECT pg_advisory_xact_lock(hashtext('authz.grants'), (hashtextextended('crm_deal:1', 0) & 127)::int)";
    let guard = "SELECT FROM authz.superadmin_guard FOR UPDATE";
    let (tier, deal) = (&["company_module:{c}/crm#admin@user:boss"][..], &[ANCHOR, OWNER][..]);
    let nothing = "SELECT";
    let admin = "DELETE FROM authz.tuple WHERE object_type = 'company_module' AND relation = 'admin'";
    let role = "DELETE FROM authz.tuple WHERE object_type = 'system' AND subject_id = 'mona'";
    let suspended = "UPDATE identity.users SET lifecycle = 'suspended' WHERE kc_sub = 'mona'";
    let member = "UPDATE org.members SET is_active = false WHERE user_id = 'alice'";
    for (actor, tuples, lock, meanwhile, reason) in [
        ("boss", tier, module, nothing, None),
        ("boss", tier, module, admin, Some("ENGINE_DENIED")),
        ("mona", tier, guard, nothing, None),
        ("mona", tier, guard, role, Some("COMPANY_MEMBERSHIP_REQUIRED")),
        ("mona", deal, guard, nothing, None),
        ("mona", deal, guard, role, Some("COMPANY_MEMBERSHIP_REQUIRED")),
        ("mona", deal, guard, suspended, Some("USER_LIFECYCLE_DISABLED")),
        ("alice", deal, object, nothing, None),
        ("alice", deal, object, member, Some("COMPANY_ACCESS_BLOCKED")),
    ] {
        for op in ["grant", "revoke"] {
            world.as_at_the_start().await;
            let before = (world.app.audit().await.len(), world.granted().await);
            let mut revoking = world.app.owner.begin().await.expect("a transaction");
            for sql in [lock, meanwhile] {
                let sql = sql.replace("{c}", &world.company.to_string());
                sqlx::query(AssertSqlSafe(sql)).execute(&mut *revoking).await.expect("the superuser may");
            }
            let (reply, ()) = tokio::join!(world.ask(actor, op, tuples), async {
                until_somebody_waits(&world.app).await;
                revoking.commit().await.expect("a commit");
            });
            let told = reply.body["error"]["details"]["reason"].as_str();
            let status = if reason.is_none() { 200 } else { 403 };
            assert_eq!((reply.status, told), (status, reason), "{actor} {op} {meanwhile}: {}", reply.text);
            if reason.is_some() {
                let gone = i64::from(meanwhile == admin);
                let expected = (before.0, before.1 - gone);
                assert_eq!((world.app.audit().await.len(), world.granted().await), expected);
            }
        }
    }
}

/// A stream of grants by the platform role does not starve a revocation of the role.
#[tokio::test]
async fn a_revoke_of_the_role_goes_before_the_grants_that_come_after_it() {
    let world = World::start().await;
    world.app.rows().subject("mona").await;
    world.as_at_the_start().await;
    let deal = |id: u32| world.body("grant", &[&ANCHOR.replace(":1#", &format!(":{id}#"))]);
    let give = |id: u32| world.app.ask("POST", GRANTS, "mona", Some(deal(id)));
    assert_eq!(give(2).await.status, 200, "control");
    let mut holding = world.app.owner.begin().await.expect("a transaction");
    let object = "SELECT pg_advisory_xact_lock(hashtext('authz.grants'), (hashtextextended('crm_deal:1', 0) & 127)::int)";
    sqlx::query(object).execute(&mut *holding).await.expect("held");
    let second = async {
        until_so_many_wait(&world.app, 2).await;
        give(3).await
    };
    let revoking = async {
        until_so_many_wait(&world.app, 1).await;
        revoke(&world.app, "root", "mona").await
    };
    let letting_go = async {
        until_so_many_wait(&world.app, 3).await;
        holding.rollback().await.expect("let go");
    };
    let in_order = async { tokio::join!(give(1), revoking, second, letting_go) };
    let in_order = tokio::time::timeout(Duration::from_secs(20), in_order).await;
    let (first, revoked, second, ()) = in_order.expect("the second waits behind the revoke");
    assert_eq!((first.status, revoked.status, second.status), (200, 200, 403), "{}", second.text);
}

#[tokio::test]
async fn an_answer_lists_what_changed_and_a_lookup_what_stands() {
    let world = World::start().await;
    let tuples = [ANCHOR, OWNER, "crm_deal:1#viewer@user:alice"];
    let listed = async |op: &str, tuples: &[&str]| {
        let reply = world.ask("alice", op, tuples).await;
        let mut told: Vec<String> =
            serde_json::from_value(reply.data()["tuples"].clone()).expect("a list of texts");
        told.sort_unstable();
        told
    };
    let standing = async |tuples: &[&str]| {
        let tuples = world.body("grant", tuples)["tuples"].take();
        let call = world.app.api.post(LOOKUP).service().json(json!({ "tuples": tuples }));
        let reply = call.send().await;
        world.app.document().check("POST", LOOKUP, &reply);
        assert_eq!(reply.status, 200, "{}", reply.text);
        reply.data()["standing"].clone()
    };
    assert_eq!(standing(&tuples).await, json!([false, false, false]));
    let anchor = ANCHOR.replace("{c}", &world.company.to_string());
    assert_eq!(listed("grant", &[ANCHOR, OWNER]).await, [anchor, OWNER.to_owned()]);
    assert_eq!(listed("grant", &[OWNER, tuples[2]]).await, [tuples[2]], "what was there is not listed");
    assert_eq!(standing(&tuples).await, json!([true, true, true]));
    assert_eq!(listed("revoke", &[OWNER]).await, [OWNER]);
    assert_eq!(listed("revoke", &[OWNER]).await, Vec::<String>::new());
    assert_eq!(standing(&tuples).await, json!([true, false, true]));
    let twice = [tuples[2], OWNER, tuples[2]];
    assert_eq!(standing(&twice).await, json!([true, false, true]), "in the order of the request");
}

#[tokio::test]
async fn a_lookup_is_a_services_own_question() {
    let world = World::start().await;
    let question = || world.app.api.post(LOOKUP).json(json!({ "tuples": [tuple(OWNER)] }));
    let ask = async |call: testkit::Call| {
        let reply = call.send().await;
        world.app.document().check("POST", LOOKUP, &reply);
        (reply.status, reply.code().to_owned())
    };
    assert_eq!(ask(question()).await, (401, "AUTH_TOKEN_MISSING".to_owned()));
    let user = question().bearer(&world.app.issuer.issue("root"));
    assert_eq!(ask(user).await, (401, "AUTH_TOKEN_INVALID".to_owned()));
    assert_eq!(ask(question().service()).await.0, 200);
}

#[tokio::test]
async fn a_lookup_has_the_limits_of_a_grant() {
    let world = World::start().await;
    for (tuples, status) in [
        (json!(vec![tuple(OWNER); 1_000]), 200),
        (json!(vec![tuple(OWNER); 1_001]), 400),
        (json!([]), 400),
        (json!([7]), 400),
        (Value::Null, 400),
    ] {
        let reply = world.app.api.post(LOOKUP).service().json(json!({ "tuples": tuples })).send().await;
        world.app.document().check("POST", LOOKUP, &reply);
        assert_eq!(reply.status, status, "{}", reply.text);
    }
}
