//! Bindings of a member row that org has linked to another login: the old login no longer holds their tier, and the row
//! may be bound again for its present login.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use contract::Clock;
use helpdesk::Config;
use helpdesk::bindings::relinked;
use helpdesk::bindings::row::BindingRow;
use serde_json::{Value, json};
use service::module::Parts;
use testkit::Reply;
use testkit::module::{CAN, gates, tuples::REVOKE};
use tokio_util::sync::CancellationToken;

use crate::world::{ADMIN, ALICE, BOB, EVE, Name, World, told};

const ADMINISTRATORS: &str = "SELECT coalesce(sum(active_bindings), 0)::bigint FROM helpdesk.admin_guard";

/// A company with these people bound as administrators.
async fn with_administrators(people: &[Name]) -> World {
    let world = World::start().await;
    for who in people {
        bind(&world, *who).await;
    }
    world
}

async fn bind(world: &World, who: Name) {
    let made = world.bind(ADMIN, json!({ "memberId": world.people[who].member })).await;
    assert_eq!(made.status, 201, "{}", made.text);
}

async fn tier(world: &World, who: Name) -> Reply {
    world.ask(who, "GET", "/tier", None).await
}

async fn has_tier(world: &World, who: Name, tier_name: &str) {
    let reply = tier(world, who).await;
    assert_eq!((reply.status, &reply.body["data"]["tier"]), (200, &json!(tier_name)), "{}", reply.text);
}

fn tuple(world: &World, who: Name) -> String {
    format!("company_module:{}/helpdesk#admin@user:{}", world.module.company, world.people[who].subject)
}

/// The action and reason of the audit rows of ended bindings.
async fn ended(world: &World) -> Vec<Value> {
    let rows = world.module.audit().await;
    let ended = rows.into_iter().filter(|row| row["action"] == "binding.deleted");
    ended
        .map(|row| {
            json!([row["actor"], row["payload"]["reason"], row["payload"]["administratorBindingsLeft"]])
        })
        .collect()
}

/// The parts that the worker runs with.
fn worker(world: &World) -> Parts {
    let config = Config::read(&world.module.settings).expect("the settings of a test are right");
    Parts::start(&config.module, Clock::system(), &CancellationToken::new()).expect("the parts")
}

fn by_worker(left: u64) -> Value {
    json!(["system:relinked-bindings", "MEMBER_RELINKED", left])
}

#[tokio::test]
async fn the_old_login_of_a_row_administers_nothing_on_its_next_request_and_an_unchanged_row_does() {
    let world = with_administrators(&[ALICE, BOB]).await;
    has_tier(&world, ALICE, "admin").await;
    let row = world.people[ALICE].member;
    world.relink(ALICE, EVE);
    has_tier(&world, ALICE, "member").await;
    has_tier(&world, EVE, "member").await;
    has_tier(&world, BOB, "admin").await;
    assert_eq!(world.tuples.all(), [tuple(&world, BOB)]);
    assert_eq!(ended(&world).await, [by_worker(1)]);
    assert_eq!(world.count(ADMINISTRATORS).await, 1);
    assert_eq!(world.list(BOB, "/bindings").await.len(), 1);
    let again = world.bind(BOB, json!({ "memberId": row })).await;
    assert_eq!(again.status, 201, "the row is bound for its new login: {}", again.text);
    has_tier(&world, EVE, "admin").await;
    has_tier(&world, ALICE, "member").await;
}

#[tokio::test]
async fn the_old_login_of_an_agents_row_reads_others_tickets_no_more() {
    let world = World::start().await;
    let ticket = world.open(BOB, "Printer").await;
    let agent = json!({ "memberId": world.people[ALICE].member, "tier": "editor" });
    assert_eq!(world.bind(ADMIN, agent).await.status, 201);
    assert_eq!(world.show(ALICE, &ticket).await.status, 200, "control");
    world.relink(ALICE, EVE);
    assert_eq!(told(&world.show(ALICE, &ticket).await), (403, "NOT_TICKET_PARTY"));
    assert_eq!(world.ask(ALICE, "GET", "/tickets?view=all", None).await.status, 403);
    assert_eq!(world.show(BOB, &ticket).await.status, 200);
}

#[tokio::test]
async fn nothing_is_decided_while_org_or_authz_does_not_answer() {
    let world = with_administrators(&[ALICE, BOB]).await;
    world.relink(ALICE, EVE);
    let context = format!("/internal/org/companies/{}/members/by-kcsub/*", world.module.company);
    world.module.org.close("GET", &context);
    gates::refused_for(&tier(&world, ALICE).await, "org", "closed");
    assert_eq!(world.tuples.all().len(), 2, "nothing changes before org answers");
    world.answer_as_org();
    world.module.authz.close("POST", REVOKE);
    for _ in 0..2 {
        gates::refused_for(&tier(&world, ALICE).await, "authz", "closed");
        gates::refused_for(&world.ask(ALICE, "GET", "/bindings", None).await, "authz", "closed");
    }
    let refusal = json!({ "error": { "code": "VALIDATION_FAILED", "message": "no", "details": null } });
    world.module.authz.answer("POST", REVOKE, 422, refusal);
    gates::refused_for(&tier(&world, ALICE).await, "authz", "refused");
    assert_eq!(world.tuples.all().len(), 2);
    world.answer_grants();
    has_tier(&world, ALICE, "member").await;
    assert_eq!((world.tuples.all(), world.count(ADMINISTRATORS).await), (vec![tuple(&world, BOB)], 1));
    assert_eq!(ended(&world).await, [by_worker(1)], "recorded once");
}

#[tokio::test]
async fn a_removal_that_breaks_off_anywhere_is_finished_by_the_next_request_or_by_the_worker() {
    // Rows as a crash leaves them: nothing done; `revoking` with its tuple; `revoking` without it; `pending` and
    // granted.
    for (step, state, stands) in [
        ("begun", "revoking", true),
        ("revoked", "revoking", false),
        ("granted", "pending", true),
        ("none", "active", true),
    ] {
        for by_request in [true, false] {
            let world = with_administrators(&[ALICE, BOB]).await;
            let member = world.people[ALICE].member;
            let sql = format!(
                "UPDATE helpdesk.bindings SET state = '{state}', attempts = 1 WHERE member_id = '{member}'"
            );
            world.module.execute(sql).await;
            if state != "active" {
                world.module.execute("UPDATE helpdesk.admin_guard SET active_bindings = 1".to_owned()).await;
            }
            world.relink(ALICE, EVE);
            if !stands {
                world.tuples.remove(&tuple(&world, ALICE));
            }
            if by_request {
                has_tier(&world, ALICE, "member").await;
            } else {
                relinked::sweep(&worker(&world)).await.expect("org and authz answer");
            }
            assert_eq!(world.tuples.all(), [tuple(&world, BOB)], "{step} {by_request}");
            assert_eq!(world.count("SELECT count(*) FROM helpdesk.bindings").await, 1, "{step} {by_request}");
            assert_eq!(world.count(ADMINISTRATORS).await, 1, "{step} {by_request}");
            let told = if state == "pending" { vec![] } else { vec![by_worker(1)] };
            assert_eq!(ended(&world).await, told, "{step} {by_request}");
            has_tier(&world, BOB, "admin").await;
        }
    }
}

#[tokio::test]
async fn the_sweep_that_gives_a_removal_up_does_not_give_the_old_login_its_tier_back() {
    let world = with_administrators(&[ALICE, BOB]).await;
    world.relink(ALICE, EVE);
    world.module.authz.close("POST", REVOKE);
    assert_eq!(tier(&world, ALICE).await.status, 503);
    assert_eq!(world.count(ADMINISTRATORS).await, 1);
    let rows = worker(&world).two_store();
    assert_eq!(rows.sweep::<BindingRow>(Duration::ZERO).await.expect("authz answers").kept, 1);
    assert_eq!(world.count(ADMINISTRATORS).await, 2);
    assert_eq!(tier(&world, ALICE).await.status, 503, "the row is active again, and still another's");
    world.answer_grants();
    has_tier(&world, ALICE, "member").await;
    assert_eq!(world.count(ADMINISTRATORS).await, 1);
}

#[tokio::test]
async fn the_worker_removes_what_nobody_asks_about_and_nothing_else() {
    let world = with_administrators(&[ALICE, BOB]).await;
    let desk = world.position("Desk", Some(EVE));
    assert_eq!(world.bind(ADMIN, json!({ "positionId": desk })).await.status, 201);
    let before = (world.contents().await, world.tuples.all());
    let worker = worker(&world);
    relinked::sweep(&worker).await.expect("org and authz answer");
    assert_eq!((world.contents().await, world.tuples.all()), before, "every row has its login");
    // A row without a login keeps its binding, because the login may come back.
    world.link(BOB, None);
    relinked::sweep(&worker).await.expect("org and authz answer");
    assert_eq!((world.contents().await, world.tuples.all()), before, "a row without a login");
    world.relink(ALICE, EVE);
    let lookup = format!("/internal/org/companies/{}/lookup", world.module.company);
    world.module.org.close("POST", &lookup);
    relinked::sweep(&worker).await.expect_err("org does not answer");
    assert_eq!((world.contents().await, world.tuples.all()), before, "nothing is removed unasked");
    world.answer_as_org();
    relinked::sweep(&worker).await.expect("org and authz answer");
    assert!(!world.tuples.all().contains(&tuple(&world, ALICE)));
    assert_eq!((world.tuples.all().len(), ended(&world).await), (2, vec![by_worker(2)]));
}

/// The old row has no login any more, but another row has it: only the worker removes the tuple for programs that read
/// tuples directly.
#[tokio::test]
async fn the_worker_removes_the_binding_of_a_login_that_another_row_has() {
    for active in [true, false] {
        let world = with_administrators(&[ALICE, BOB]).await;
        let worker = worker(&world);
        world.link(ALICE, None);
        world.link(BOB, None);
        relinked::sweep(&worker).await.expect("org and authz answer");
        assert_eq!(world.tuples.all().len(), 2, "control: a login that nobody has may come back");
        world.row_for(ALICE, active);
        let context = format!("/internal/org/companies/{}/members/by-kcsub/*", world.module.company);
        world.module.org.close("GET", &context);
        relinked::sweep(&worker).await.expect_err("org does not answer");
        assert_eq!(world.tuples.all().len(), 2, "nothing is removed unasked");
        world.answer_as_org();
        relinked::sweep(&worker).await.expect("org and authz answer");
        assert_eq!(world.tuples.all(), [tuple(&world, BOB)], "its new row is active: {active}");
        assert_eq!((ended(&world).await, world.count(ADMINISTRATORS).await), (vec![by_worker(1)], 1));
        world.link(BOB, Some(BOB));
        relinked::sweep(&worker).await.expect("org and authz answer");
        has_tier(&world, BOB, "admin").await;
    }
}

#[tokio::test]
async fn the_last_administrators_old_login_goes_too_and_a_superadmin_binds_the_next() {
    let world = with_administrators(&[ALICE]).await;
    world.relink(ALICE, EVE);
    has_tier(&world, ALICE, "member").await;
    assert_eq!((world.tuples.all(), world.count(ADMINISTRATORS).await), (vec![], 0));
    assert_eq!(ended(&world).await, [by_worker(0)], "the audit row says that no administrator is left");
    bind(&world, BOB).await;
    assert_eq!(world.count(ADMINISTRATORS).await, 1);
    assert_eq!(
        told(&world.unbind(BOB, "members", world.people[BOB].member).await),
        (409, "LAST_ADMINISTRATOR")
    );
}

#[tokio::test]
async fn a_stale_administrator_is_none_to_the_guard() {
    let world = with_administrators(&[ALICE, BOB]).await;
    let before = world.tuples.all();
    world.relink(ALICE, EVE);
    let last = world.unbind(BOB, "members", world.people[BOB].member).await;
    assert_eq!(told(&last), (409, "LAST_ADMINISTRATOR"));
    assert_eq!(world.tuples.all(), before);
    let gone = world.unbind(BOB, "members", world.people[ALICE].member).await;
    assert_eq!(gone.status, 200, "BOB is left: {}", gone.text);
    assert_eq!(world.tuples.all(), [tuple(&world, BOB)]);
    assert_eq!(
        told(&world.unbind(BOB, "members", world.people[BOB].member).await),
        (409, "LAST_ADMINISTRATOR")
    );
}

#[tokio::test]
async fn a_login_that_is_bound_by_its_new_row_keeps_its_tier() {
    let world = with_administrators(&[ALICE, BOB]).await;
    let new = world.relink(ALICE, EVE);
    let bound = world.bind(BOB, json!({ "memberId": new })).await;
    assert_eq!(bound.status, 201, "{}", bound.text);
    has_tier(&world, ALICE, "admin").await;
    relinked::sweep(&worker(&world)).await.expect("org and authz answer");
    has_tier(&world, ALICE, "admin").await;
    assert_eq!(world.count("SELECT count(*) FROM helpdesk.bindings").await, 2);
    assert_eq!((world.count(ADMINISTRATORS).await, world.tuples.all().len()), (2, 2));
}

#[tokio::test]
async fn what_was_begun_for_the_old_login_is_not_given_to_it_when_the_row_is_bound_again() {
    let world = with_administrators(&[BOB]).await;
    world.module.authz.close("POST", testkit::module::tuples::GRANTS);
    let body = json!({ "memberId": world.people[ALICE].member });
    assert_eq!(world.bind(BOB, body.clone()).await.status, 503);
    world.relink(ALICE, EVE);
    world.answer_grants();
    assert_eq!(world.bind(BOB, body).await.status, 201);
    has_tier(&world, EVE, "admin").await;
    has_tier(&world, ALICE, "member").await;
}

#[tokio::test]
async fn a_call_that_authz_allowed_just_before_another_removed_the_binding_is_decided_again() {
    let world = with_administrators(&[ALICE, BOB]).await;
    let company = world.module.company;
    // The effect of the other call between this one's decision and its check of the bindings.
    let (tuples, stale, answered) = (world.tuples.clone(), tuple(&world, ALICE), AtomicUsize::new(0));
    let pool = world.module.database.owner_pool();
    let member = world.people[ALICE].member;
    sqlx::query("DELETE FROM helpdesk.bindings WHERE member_id = $1")
        .bind(member)
        .execute(&pool)
        .await
        .expect("gone");
    sqlx::query("INSERT INTO helpdesk.unbound_logins VALUES ($1, $2, now())")
        .bind(company)
        .bind(&world.people[ALICE].subject)
        .execute(&pool)
        .await
        .expect("noted");
    world.module.authz.answer_with("POST", CAN, move |_| {
        let allowed = answered.fetch_add(1, Ordering::SeqCst) == 0;
        tuples.remove(&stale);
        let reason = if allowed { "ALLOWED" } else { "ENGINE_DENIED" };
        (200, json!({ "data": { "allowed": allowed, "reason": reason, "evidence": [] } }))
    });
    assert_eq!(told(&world.ask(ALICE, "GET", "/bindings", None).await), (403, "ENGINE_DENIED"));
}
