//! Bindings: rows that mirror tuples, and the last administrator.

use std::time::Duration;

use contract::decision::ObjectRef;
use contract::grants::Tuple;
use contract::{Clock, Subject};
use helpdesk::Config;
use helpdesk::bindings::row::BindingRow;
use helpdesk::bindings::rules::MAX_BINDINGS;
use serde_json::{Value, json};
use service::module::Parts;
use service::two_store::Swept;
use testkit::module::gates;
use testkit::module::tuples::{GRANTS, LOOKUP};
use testkit::until;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::world::{ADMIN, AGENT, ALICE, BOB, EVE, World, told};

fn refusal() -> Value {
    json!({ "error": { "code": "AUTHORIZATION_DENIED", "message": "no", "details": { "reason": "ENGINE_DENIED" } } })
}

#[tokio::test]
async fn a_binding_is_a_tuple_and_a_row_and_both_go_together() {
    let world = World::start().await;
    let company = world.module.company;
    let (desk, group) = (world.position("Desk", Some(BOB)), world.group("Line", &[EVE]));
    let member = world.people[ALICE].member;
    let module = format!("company_module:{company}/helpdesk");
    for (body, kind, tuple) in [
        (json!({ "memberId": member }), "member", format!("{module}#admin@user:subject-2")),
        (json!({ "positionId": desk }), "position", format!("{module}#admin@position:{desk}#holder")),
        (
            json!({ "groupId": group, "tier": "editor" }),
            "group",
            format!("{module}#editor@group:{group}#member"),
        ),
    ] {
        let made = world.bind(ADMIN, body).await;
        assert_eq!((made.status, &made.data()["bindingKind"]), (201, &json!(kind)), "{}", made.text);
        assert!(world.tuples.all().contains(&tuple), "{tuple}");
        assert_eq!(made.data()["grantedBy"], "subject-0");
    }
    let listed = world.list(ADMIN, "/bindings").await;
    let expected = json!({ "id": listed[1]["id"], "companyId": company, "bindingKind": "position", "memberId": null,
        "positionId": desk, "groupId": null, "positionTitle": "Desk", "groupTitle": null, "tier": "admin",
        "grantedBy": "subject-0", "createdAt": listed[1]["createdAt"] });
    assert_eq!((listed.len(), &listed[1]), (3, &expected));
    // A binding takes effect at once and follows the organization.
    for (who, tier) in [(ALICE, "admin"), (BOB, "admin"), (EVE, "editor")] {
        assert_eq!(world.ask(who, "GET", "/tier", None).await.data(), &json!({ "tier": tier }));
    }
    let gone = world.ask(ALICE, "DELETE", &format!("/bindings/groups/{group}?tier=editor"), None).await;
    assert_eq!((gone.status, &gone.data()["groupTitle"]), (200, &json!("Line")));
    let own = world.unbind(ALICE, "members", member).await;
    assert_eq!(own.status, 200, "one may remove one's own while another administrator is left: {}", own.text);
    assert_eq!(world.tuples.all(), [format!("{module}#admin@position:{desk}#holder")]);
    let actions: Vec<Value> = world.module.audit().await.iter().map(|row| row["action"].clone()).collect();
    assert_eq!(
        actions,
        ["binding.created", "binding.created", "binding.created", "binding.deleted", "binding.deleted"]
    );
}

#[tokio::test]
async fn what_cannot_be_bound_is_refused_by_name() {
    let world = World::start().await;
    let (desk, gone) = (world.position("Vacant", None), world.group("Gone", &[]));
    world.company().groups.get_mut(&gone).expect("a group").1 = false;
    let unlinked = world.people[EVE].member;
    world.company().members.get_mut(&unlinked).expect("a member").subject = None;
    let before = world.contents().await;
    for (body, word) in [
        (json!({}), "BINDING_SUBJECT_AMBIGUOUS"),
        (json!({ "memberId": world.people[BOB].member, "positionId": desk }), "BINDING_SUBJECT_AMBIGUOUS"),
        (json!({ "memberId": Uuid::now_v7() }), "BINDING_SUBJECT_UNKNOWN"),
        (json!({ "groupId": gone }), "BINDING_SUBJECT_UNKNOWN"),
        (json!({ "memberId": unlinked }), "MEMBER_NOT_LINKED"),
    ] {
        assert_eq!(told(&world.bind(ADMIN, body).await), (422, word));
    }
    assert_eq!(world.contents().await, before);
    assert_eq!(
        world.bind(ADMIN, json!({ "positionId": desk })).await.status,
        201,
        "a vacant position may be bound"
    );
    assert_eq!(told(&world.bind(ADMIN, json!({ "positionId": desk })).await), (409, "BINDING_EXISTS"));
    let editor = world.bind(ADMIN, json!({ "positionId": desk, "tier": "editor" })).await;
    assert_eq!(editor.status, 201, "to another tier it is another binding");
    for who in [AGENT, ALICE] {
        assert_eq!(told(&world.bind(who, json!({ "positionId": desk })).await), (403, "ENGINE_DENIED"));
    }
}

#[tokio::test]
async fn property_5_the_last_administrator_who_can_act_stays() {
    let world = World::start().await;
    let (held, vacant) = (world.position("Desk", Some(BOB)), world.position("Night", None));
    let empty = world.group("Empty", &[]);
    let member = world.people[ALICE].member;
    assert_eq!(world.bind(ADMIN, json!({ "memberId": member })).await.status, 201);
    let last = world.unbind(ADMIN, "members", member).await;
    let details = json!({ "remaining": "none" });
    assert_eq!(
        (last.status, last.code(), &last.body["error"]["details"]),
        (409, "LAST_ADMINISTRATOR", &details)
    );
    for body in [json!({ "positionId": vacant }), json!({ "groupId": empty })] {
        assert_eq!(world.bind(ADMIN, body).await.status, 201);
    }
    let agents = json!({ "positionId": held, "tier": "editor" });
    assert_eq!(world.bind(ADMIN, agents).await.status, 201, "an agent is no administrator");
    let (before, tuples) = (world.contents().await, world.tuples.all());
    let last = world.unbind(ADMIN, "members", member).await;
    let details = json!({ "remaining": "vacant" });
    assert_eq!(
        (last.status, last.code(), &last.body["error"]["details"]),
        (409, "LAST_ADMINISTRATOR", &details)
    );
    assert_eq!((world.contents().await, world.tuples.all()), (before, tuples), "nothing was revoked");
    // A member whose login has changed cannot act any more: the tuple names the old login.
    world.company().members.get_mut(&world.people[EVE].member).expect("a member").subject =
        Some("old".to_owned());
    assert_eq!(world.bind(ADMIN, json!({ "memberId": world.people[EVE].member })).await.status, 201);
    world.company().members.get_mut(&world.people[EVE].member).expect("a member").subject =
        Some("new".to_owned());
    assert_eq!(told(&world.unbind(ADMIN, "members", member).await), (409, "LAST_ADMINISTRATOR"));
    world.hold(vacant, Some(BOB));
    assert_eq!(
        world.unbind(ADMIN, "members", member).await.status,
        200,
        "the remaining binding has a member again"
    );
    let editor = world.ask(ADMIN, "DELETE", &format!("/bindings/positions/{held}?tier=editor"), None).await;
    assert_eq!(editor.status, 200, "agents may all go");
}

#[tokio::test]
async fn property_5_whoever_cannot_act_is_no_administrator_who_can_act() {
    for kind in ["member", "position", "group"] {
        for cause in ["no login", "a suspended account", "a revoked tuple"] {
            cannot_act(kind, cause).await;
        }
    }
}

/// Makes Alice and Bob administrators, Bob through a binding of this kind. Alice cannot be removed while Bob cannot act.
async fn cannot_act(kind: &str, cause: &str) {
    let world = World::start().await;
    let (alice, bob) = (world.people[ALICE].member, world.people[BOB].member);
    let left = match kind {
        "member" => json!({ "memberId": bob }),
        "position" => json!({ "positionId": world.position("Desk", Some(BOB)) }),
        _ => json!({ "groupId": world.group("Line", &[BOB]) }),
    };
    assert_eq!(world.bind(ADMIN, json!({ "memberId": alice })).await.status, 201, "{kind}");
    let first = world.tuples.all();
    assert_eq!(world.bind(ADMIN, left).await.status, 201, "{kind}");
    let both = world.tuples.standing();
    let subject = world.people[BOB].subject.clone();
    let can_act = |can: bool| match cause {
        "no login" => {
            let login = can.then(|| subject.clone());
            world.company().members.get_mut(&bob).expect("a member").subject = login;
        }
        "a suspended account" if can => assert!(world.company().suspended.remove(&subject)),
        "a suspended account" => assert!(world.company().suspended.insert(subject.clone())),
        _ if can => both.iter().for_each(|tuple| world.tuples.add(tuple)),
        _ => {
            let revoked = both.iter().map(ToString::to_string).filter(|tuple| !first.contains(tuple));
            revoked.for_each(|tuple| world.tuples.remove(&tuple));
        }
    };
    can_act(false);
    let (before, tuples) = (world.contents().await, world.tuples.all());
    let last = world.unbind(ADMIN, "members", alice).await;
    assert_eq!(
        (last.status, last.code(), &last.body["error"]["details"]),
        (409, "LAST_ADMINISTRATOR", &json!({ "remaining": "vacant" })),
        "{kind}, {cause}"
    );
    assert_eq!((world.contents().await, world.tuples.all()), (before, tuples), "{kind}, {cause}");
    can_act(true);
    assert_eq!(world.unbind(ADMIN, "members", alice).await.status, 200, "control: {kind} without {cause}");
}

#[tokio::test]
async fn property_6_what_authz_refuses_or_does_not_answer_changes_nothing_and_can_be_repeated() {
    let world = World::start().await;
    let (first, second) = (world.people[ALICE].member, world.people[BOB].member);
    assert_eq!(world.bind(ADMIN, json!({ "memberId": first })).await.status, 201);
    let shown = world.list(ADMIN, "/bindings").await;
    // Refused: the row is deleted again, with an audit row.
    world.module.authz.answer("POST", GRANTS, 403, refusal());
    assert_eq!(told(&world.bind(ADMIN, json!({ "memberId": second })).await), (403, "ENGINE_DENIED"));
    assert_eq!(world.count("SELECT count(*) FROM helpdesk.bindings").await, 1);
    let rows = world.module.audit().await;
    assert_eq!(rows.last().expect("a row")["action"], "binding.create_failed");
    // Not answered: the row stays pending and is not shown.
    world.module.authz.close("POST", GRANTS);
    gates::refused_for(&world.bind(ADMIN, json!({ "memberId": second })).await, "authz", "create");
    assert_eq!(world.list(ADMIN, "/bindings").await, shown);
    assert_eq!(world.count("SELECT count(*) FROM helpdesk.bindings WHERE state = 'pending'").await, 1);
    assert_eq!(
        world.count("SELECT active_bindings::bigint FROM helpdesk.admin_guard").await,
        1,
        "it does not count"
    );
    world.answer_grants();
    assert_eq!(
        world.bind(ADMIN, json!({ "memberId": second })).await.status,
        201,
        "the same request resumes"
    );
    assert_eq!(world.count("SELECT count(*) FROM helpdesk.bindings").await, 2);
    // The same for a removal.
    let shown = world.list(ADMIN, "/bindings").await;
    world.module.authz.answer("POST", GRANTS, 403, refusal());
    assert_eq!(told(&world.unbind(ADMIN, "members", second).await), (403, "ENGINE_DENIED"));
    assert_eq!(world.list(ADMIN, "/bindings").await, shown);
    assert_eq!(
        world.count("SELECT active_bindings::bigint FROM helpdesk.admin_guard").await,
        2,
        "counted again"
    );
    world.module.authz.close("POST", GRANTS);
    gates::refused_for(&world.unbind(ADMIN, "members", second).await, "authz", "delete");
    assert_eq!(world.list(ADMIN, "/bindings").await, shown, "its tuple still works, so it is listed");
    assert_eq!(world.count("SELECT active_bindings::bigint FROM helpdesk.admin_guard").await, 1);
    let last = world.unbind(ADMIN, "members", first).await;
    assert_eq!(told(&last), (409, "LAST_ADMINISTRATOR"), "a binding being removed does not count");
    world.answer_grants();
    assert_eq!(world.unbind(ADMIN, "members", second).await.status, 200, "the same request resumes");
    assert_eq!(world.tuples.all().len(), 1);
    assert_eq!(told(&world.unbind(ADMIN, "members", second).await), (404, "NOT_FOUND"));
}

#[tokio::test]
async fn a_binding_whose_outcome_nobody_learnt_can_be_removed() {
    let world = World::start().await;
    let bob = world.people[BOB].member;
    // The first binding of the company: no other administrator is left, and none is needed.
    world.module.authz.close("POST", GRANTS);
    gates::refused_for(&world.bind(ADMIN, json!({ "memberId": bob })).await, "authz", "create");
    world.answer_grants();
    // authz granted it, but its answer was lost.
    let module = ObjectRef::company_module(world.module.company.into(), "helpdesk");
    let subject = Subject::parse(&world.people[BOB].subject).expect("a subject");
    world.tuples.add(&Tuple::user(module, "admin", &subject));
    assert_eq!(world.ask(BOB, "GET", "/tier", None).await.data(), &json!({ "tier": "admin" }), "control");
    let gone = world.unbind(ADMIN, "members", bob).await;
    assert_eq!((gone.status, &gone.data()["memberId"]), (200, &json!(bob)), "{}", gone.text);
    assert!(world.tuples.all().is_empty());
    assert_eq!(world.count("SELECT count(*) FROM helpdesk.bindings").await, 0);
    let last = world.module.audit().await.pop().expect("an audit row");
    assert_eq!(
        [&last["action"], &last["actor"]],
        [&json!("binding.deleted"), &json!(world.people[ADMIN].subject)]
    );
    assert_eq!(
        told(&world.unbind(ADMIN, "members", bob).await),
        (404, "NOT_FOUND"),
        "control: nothing is left"
    );
}

#[tokio::test]
async fn a_company_has_at_most_a_thousand_bindings_and_its_list_shows_them_all() {
    let world = World::start().await;
    world
        .module
        .execute(format!(
            "INSERT INTO helpdesk.bindings(id, company_id, binding_kind, group_id, tier, state, granted_by)
             SELECT gen_random_uuid(), '{}', 'group', gen_random_uuid(), 'editor', 'active', 'x'
             FROM generate_series(1, {})",
            world.module.company,
            MAX_BINDINGS - 1
        ))
        .await;
    let [first, over] = [ALICE, BOB].map(|who| json!({ "memberId": world.people[who].member }));
    world.module.authz.close("POST", GRANTS);
    gates::refused_for(&world.bind(ADMIN, first.clone()).await, "authz", "create");
    world.answer_grants();
    assert_eq!(told(&world.bind(ADMIN, over.clone()).await), (422, "TOO_MANY_BINDINGS"));
    assert_eq!(
        world.bind(ADMIN, first.clone()).await.status,
        201,
        "one that was begun is resumed at the limit"
    );
    let listed = world.list(ADMIN, "/bindings").await;
    assert_eq!((listed.len(), &listed[MAX_BINDINGS - 1]["memberId"]), (MAX_BINDINGS, &first["memberId"]));
    assert_eq!(
        told(&world.bind(ADMIN, first).await),
        (409, "BINDING_EXISTS"),
        "what exists is told at the limit"
    );
    world
        .module
        .execute(
            "DELETE FROM helpdesk.bindings WHERE id IN (SELECT id FROM helpdesk.bindings LIMIT 1)".to_owned(),
        )
        .await;
    assert_eq!(world.bind(ADMIN, over).await.status, 201, "control: one fewer");
}

/// The audit row of its last step waits for a lock while the client hangs up.
#[tokio::test]
async fn a_binding_and_a_removal_end_even_if_their_client_hangs_up() {
    let world = World::start().await;
    let (alice, bob) = (world.people[ALICE].member, world.people[BOB].member);
    assert_eq!(world.bind(ADMIN, json!({ "memberId": alice })).await.status, 201);
    let (one, both) = (world.tuples.all().len(), world.tuples.all().len() + 1);
    let path = format!("/bindings/members/{bob}");
    for (method, tail, body, tuples) in
        [("POST", "/bindings", Some(json!({ "memberId": bob })), both), ("DELETE", path.as_str(), None, one)]
    {
        let owner = world.module.database.owner_pool();
        let mut held = owner.begin().await.expect("a transaction");
        let lock = "LOCK TABLE audit.helpdesk__events IN ACCESS EXCLUSIVE MODE";
        sqlx::query(lock).execute(&mut *held).await.expect("the lock");
        tokio::select! {
            reply = world.ask(ADMIN, method, tail, body) => panic!("answered: {}", reply.text),
            () = until("the tuples are changed", async || world.tuples.all().len() == tuples) => {}
        }
        let in_flight = "http_requests_in_flight{service=\"helpdesk\"} 1\n";
        until("only the look itself is in flight", async || {
            world.module.api.get("/metrics").send().await.text.contains(in_flight)
        })
        .await;
        held.rollback().await.expect("the lock goes");
        let ended = async || {
            let listed = world.list(ADMIN, "/bindings").await;
            listed.iter().any(|binding| binding["memberId"] == json!(bob)) == (tuples == both)
        };
        until("the call has ended", ended).await;
        let unsettled = "SELECT count(*) FROM helpdesk.bindings WHERE state <> 'active'";
        until("every binding is settled", async || world.count(unsettled).await == 0).await;
        let last = world.module.audit().await.pop().expect("an audit row");
        assert_eq!(last["actor"], json!(world.people[ADMIN].subject), "{method}");
    }
}

#[tokio::test]
async fn without_org_no_administrator_is_removed() {
    let world = World::start().await;
    for who in [ALICE, BOB] {
        assert_eq!(world.bind(ADMIN, json!({ "memberId": world.people[who].member })).await.status, 201);
    }
    let lookup = format!("/internal/org/companies/{}/lookup", world.module.company);
    let before = world.contents().await;
    world.module.org.close("POST", &lookup);
    gates::refused_for(&world.unbind(ADMIN, "members", world.people[BOB].member).await, "org", "closed");
    world.module.org.hang("POST", &lookup);
    gates::refused_for(&world.unbind(ADMIN, "members", world.people[BOB].member).await, "org", "hanging");
    assert_eq!(world.contents().await, before);
}

#[tokio::test]
async fn the_sweep_makes_rows_that_a_crash_left_agree_with_their_tuples_and_the_guard_with_the_rows() {
    let world = World::start().await;
    let config = Config::read(&world.module.settings).expect("the settings of a test are right");
    let worker = Parts::start(&config.module, Clock::system(), &CancellationToken::new()).expect("the parts");
    let sweep = async || worker.two_store().sweep::<BindingRow>(Duration::ZERO).await.expect("authz answers");
    for who in [ALICE, BOB, EVE] {
        assert_eq!(world.bind(ADMIN, json!({ "memberId": world.people[who].member })).await.status, 201);
    }
    // Rows as crashes leave them: granted but not settled; revoking but not revoked.
    let member = world.people[ALICE].member;
    world
        .module
        .execute(format!(
            "UPDATE helpdesk.bindings SET state = 'pending', attempts = 1 WHERE member_id = '{member}';
         UPDATE helpdesk.bindings SET state = 'revoking', attempts = 1 WHERE member_id = '{}';
         UPDATE helpdesk.admin_guard SET active_bindings = 1",
            world.people[BOB].member
        ))
        .await;
    assert_eq!(sweep().await, Swept { kept: 2, ..Swept::default() });
    assert_eq!(world.count("SELECT active_bindings::bigint FROM helpdesk.admin_guard").await, 3);
    // Requested but never granted; revoked but not settled.
    world.module.authz.close("POST", GRANTS);
    let desk = world.position("Desk", None);
    assert_eq!(world.bind(ADMIN, json!({ "positionId": desk })).await.status, 503);
    world.answer_grants();
    world.tuples.clear();
    world
        .module
        .execute(format!(
            "UPDATE helpdesk.bindings SET state = 'revoking', attempts = 1 WHERE member_id = '{member}';
         UPDATE helpdesk.admin_guard SET active_bindings = 2"
        ))
        .await;
    assert_eq!(sweep().await, Swept { removed: 2, ..Swept::default() });
    assert_eq!(world.count("SELECT active_bindings::bigint FROM helpdesk.admin_guard").await, 2);
    assert_eq!(world.count("SELECT count(*) FROM helpdesk.bindings").await, 2);
}

#[tokio::test]
async fn a_row_that_cannot_be_settled_holds_up_no_other() {
    let world = World::start().await;
    let config = Config::read(&world.module.settings).expect("the settings of a test are right");
    let worker = Parts::start(&config.module, Clock::system(), &CancellationToken::new()).expect("the parts");
    let sweep = async || worker.two_store().sweep::<BindingRow>(Duration::ZERO).await;
    for who in [ALICE, BOB, EVE] {
        assert_eq!(world.bind(ADMIN, json!({ "memberId": world.people[who].member })).await.status, 201);
    }
    let desk = world.position("Desk", None);
    assert_eq!(world.bind(ADMIN, json!({ "positionId": desk })).await.status, 201);
    let pending = "UPDATE helpdesk.bindings SET state = 'pending', attempts = 1 WHERE member_id IS NOT NULL;
                   UPDATE helpdesk.admin_guard SET active_bindings = 1";
    world.module.execute(pending.to_owned()).await;
    // authz answers about all tuples but that of the row which is settled first.
    let first = world.people[ALICE].subject.clone();
    world.module.authz.answer_with("POST", LOOKUP, move |request| {
        if request.body.to_string().contains(&first) {
            return (
                503,
                json!({ "error": { "code": "AUTHORIZATION_UNAVAILABLE", "message": "no", "details": {} } }),
            );
        }
        (200, json!({ "data": { "standing": [true] } }))
    });
    assert_eq!(sweep().await.expect("two rows are settled"), Swept { kept: 2, left: 1, ..Swept::default() });
    assert!(sweep().await.is_err(), "an outage for all rows is told");
    world.answer_grants();
    assert_eq!(sweep().await.expect("authz answers"), Swept { kept: 1, ..Swept::default() });
}
