//! `kill -9` loses no acknowledged write: members are created, the platform and its database are killed meanwhile, and
//! after the next start every acknowledged member exists with exactly one audit row.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use reqwest::Method;
use serde_json::json;

use crate::harness::client::Version;
use crate::harness::{Api, Together};
use crate::tour::create_company;

/// How many members the writers try to create.
const MEMBERS: usize = 200;
/// Number of concurrent writers.
const WRITERS: usize = 4;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_acknowledged_write_is_lost_by_a_kill() {
    let mut platform = Together::start("durability");
    let admin = platform.api(Version::Http2).with_token(&platform.token("admin").await);
    let company = create_company(&admin, "ACME").await;

    let acknowledged = Arc::new(AtomicUsize::new(0));
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            tokio::spawn(create_members(admin.clone(), company.clone(), writer, Arc::clone(&acknowledged)))
        })
        .collect();
    while acknowledged.load(Ordering::SeqCst) < MEMBERS / 2 {
        tokio::task::yield_now().await;
    }
    platform.kill();
    let mut journal = BTreeSet::new();
    for writer in writers {
        journal.extend(writer.await.expect("a writer ends"));
    }
    assert!(
        journal.len() >= MEMBERS / 2 && journal.len() < MEMBERS,
        "killed in the middle: {}",
        journal.len()
    );

    platform.up();
    let present = platform.audited_members(&company).await;
    for id in &journal {
        assert_eq!(present.get(id), Some(&1), "{id} was acknowledged and has exactly one audit row");
    }
    assert!(present.values().all(|rows| *rows == 1), "a row without exactly one audit row: {present:?}");
}

/// Creates this writer's share until the platform is gone; returns the acknowledged ids.
async fn create_members(
    admin: Api,
    company: String,
    writer: usize,
    acknowledged: Arc<AtomicUsize>,
) -> Vec<String> {
    let mut ids = Vec::new();
    for number in (writer..MEMBERS).step_by(WRITERS) {
        let body = json!({"companyId": company, "code": format!("M{number}"), "displayName": format!("Member {number}")});
        let Ok(reply) = admin.try_send(Method::POST, "/api/org/admin/members", Some(body)).await else {
            break;
        };
        if reply.status != 201 {
            break;
        }
        ids.push(reply.body["data"]["id"].as_str().expect("an id").to_owned());
        acknowledged.fetch_add(1, Ordering::SeqCst);
    }
    ids
}
