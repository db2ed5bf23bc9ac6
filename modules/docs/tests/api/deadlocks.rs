//! Calls that wait for each other. None do in settling a transfer; a deadlock that others provoke is repeated; changes of
//! one document's rights all succeed, and one person's reads leave connections for others.

use serde_json::json;
use sqlx::{AssertSqlSafe, PgConnection};

use crate::narrowed::waiting;
use crate::properties::sweep;
use crate::world::{Fault, World};

async fn hold(conn: &mut PgConnection, sql: String) -> sqlx::Result<()> {
    sqlx::raw_sql(AssertSqlSafe(sql)).execute(conn).await.map(drop)
}

/// A new transfer locks the document, then the row of its new owner. One that is settled takes both in this order, too.
#[tokio::test]
async fn a_transfer_that_is_settled_waits_for_the_document_before_it_holds_its_row() {
    let world = World::of(4).await;
    let document = world.document(1, "Plan").await;
    world.fail(&[Fault::LostAfter]);
    let body = json!({ "memberId": world.people[2].member });
    assert_eq!(world.on(1, "POST", &document, "/transfer", Some(body)).await.status, 503);
    let mut other = world.module.database.owner_pool().begin().await.expect("a transaction");
    let held = format!("SELECT FROM docs.documents WHERE id = '{document}' FOR UPDATE");
    hold(&mut other, held).await.expect("the document is free");
    let mut settled = Box::pin(sweep(&world));
    tokio::select! {
        () = &mut settled => panic!("the document was not awaited"),
        () = waiting(&world, 1) => {}
    }
    let row = format!("SELECT FROM docs.ownerships WHERE document_id = '{document}' FOR UPDATE NOWAIT");
    hold(&mut other, row).await.expect("the row is free");
    other.rollback().await.expect("both are free");
    settled.await;
    let owned = format!(
        "SELECT count(*) FROM docs.documents WHERE id = '{document}' AND owner_kc_sub = '{}'",
        world.people[2].subject
    );
    assert_eq!(world.count(&owned).await, 1, "the transfer is settled");
}

/// The owner's member row was linked anew, which the request commits first; its second transaction then gives way.
#[tokio::test]
async fn a_deadlock_after_a_first_commit_is_tried_again() {
    let world = World::of(5).await;
    let document = world.document(1, "Plan").await;
    world.fail(&[Fault::LostBefore]);
    let to = || Some(json!({ "memberId": world.people[2].member }));
    assert_eq!(world.on(1, "POST", &document, "/transfer", to()).await.status, 503);
    world.relink(1, 3);
    let mut other = world.module.database.owner_pool().begin().await.expect("a transaction");
    // PostgreSQL must abort the request's transaction, not this one.
    hold(&mut other, "SET LOCAL deadlock_timeout = '1min'".to_owned()).await.expect("the superuser may");
    let row = format!("SELECT FROM docs.ownerships WHERE document_id = '{document}' FOR UPDATE");
    hold(&mut other, row).await.expect("the row is free");
    let circle = async {
        waiting(&world, 1).await;
        let held = format!("SELECT FROM docs.documents WHERE id = '{document}' FOR UPDATE");
        hold(&mut other, held).await.expect("the request gives way");
        other.rollback().await.expect("both are free");
    };
    let (moved, ()) = tokio::join!(world.on(0, "POST", &document, "/transfer", to()), circle);
    assert_eq!(moved.status, 200, "{}", moved.text);
    let actions = world.actions(&format!("document:{document}")).await;
    let expected =
        ["document.created", "ownership.member_changed", "ownership.transferred", "ownership.ended"];
    assert_eq!(actions, expected, "each once");
}

#[tokio::test]
async fn changes_of_one_documents_rights_at_once_all_succeed() {
    let world = World::of(4).await;
    let document = world.document(1, "Plan").await;
    let set = |access: &'static str| {
        world.on(1, "PUT", &document, "/access", Some(json!({ "generalAccess": access })))
    };
    for _ in 0..5 {
        let all =
            ["company_view", "company_edit", "restricted", "company_edit", "company_view", "restricted"];
        for reply in futures_util::future::join_all(all.map(set)).await {
            assert_eq!(reply.status, 200, "{}", reply.text);
        }
    }
}

/// The module has five connections.
#[tokio::test]
async fn one_persons_reads_of_long_texts_leave_connections_for_others() {
    let world = World::of(4).await;
    let document = world.document(1, "Plan").await;
    assert_eq!(world.share(1, &document, 2, "viewer").await.status, 201);
    let mut other = world.module.database.owner_pool().begin().await.expect("a transaction");
    hold(&mut other, "LOCK TABLE docs.documents IN ACCESS EXCLUSIVE MODE".to_owned())
        .await
        .expect("the table");
    let read = |who: usize, tail: &'static str| world.on(who, "GET", &document, tail, None);
    let many = async {
        let tails = ["", "/versions/1", "", "/versions/1", "", "/versions/1", "", "/versions/1"];
        futures_util::future::join_all(tails.map(|tail| read(1, tail))).await
    };
    let one = async {
        waiting(&world, 2).await;
        read(2, "").await
    };
    let counted = async {
        waiting(&world, 3).await;
        let all = "SELECT count(*) FROM pg_stat_activity
            WHERE datname = current_database() AND wait_event_type = 'Lock'";
        let count = world.count(all).await;
        other.rollback().await.expect("the table is free");
        count
    };
    let (many, one, count) = tokio::join!(many, one, counted);
    assert_eq!(count, 3, "two of the first person's, one of the second's");
    assert!(many.iter().chain([&one]).all(|reply| reply.status == 200));
}
