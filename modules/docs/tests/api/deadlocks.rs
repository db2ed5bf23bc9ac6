//! Transactions that wait for each other: none do in settling a transfer, and those that others provoke are repeated.

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
    hold(&mut other, held).await.expect("nobody has the document");
    let mut settled = Box::pin(sweep(&world));
    tokio::select! {
        () = &mut settled => panic!("the document was not awaited"),
        () = waiting(&world, 1) => {}
    }
    let row = format!("SELECT FROM docs.ownerships WHERE document_id = '{document}' FOR UPDATE NOWAIT");
    hold(&mut other, row).await.expect("nobody has the row");
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
    hold(&mut other, row).await.expect("nobody has the row");
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
