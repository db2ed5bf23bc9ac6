//! Forgetting a member whose account is closed: whose addresses and mail go, and whose stay.

use contract::id::{CompanyId, MemberId};
use notification::former_members::Addresses;
use serde_json::{Value, json};
use service::forgetting::{Forgets, FormerMember};
use uuid::Uuid;

use crate::start;
use crate::support::{be_member, channel};

#[tokio::test]
async fn mail_to_an_address_that_others_share_stays() {
    let module = start().await;
    be_member(&module);
    let mail = channel(&module, "mail", "email", Some("Team@example.com")).await;
    let (gone, stays) = (Uuid::now_v7(), Uuid::now_v7());
    let plain = channel(&module, "plain", "email", None).await;
    for (channel, member, email) in [
        (&mail, gone, "team@example.com"),
        (&plain, gone, "gone@example.com"),
        (&plain, stays, "stays@example.com"),
    ] {
        subscribe(&module, channel, member, email).await;
    }
    let shared = channel(&module, "shared", "email", None).await;
    subscribe(&module, &shared, gone, "desk@example.com").await;
    subscribe(&module, &shared, stays, "Desk@example.com").await;
    for (channel, target) in [
        (&mail, "team@example.com"),
        (&plain, "Gone@example.com"),
        (&plain, "stays@example.com"),
        (&shared, "desk@example.com"),
    ] {
        module
            .execute(format!(
                "WITH made AS (INSERT INTO notification.messages(id, company_id, channel_id, subject_line, body, created_by) \
                   VALUES (gen_random_uuid(), '{0}', '{channel}', 's', 'b', 'x') RETURNING *) \
                 INSERT INTO notification.delivery_jobs(id, company_id, message_id, channel_id, kind, target, payload, state, \
                   next_attempt_at) \
                 SELECT gen_random_uuid(), '{0}', id, channel_id, 'email', '{target}', 'b', 'pending', \
                   now() + interval '1 day' FROM made",
                module.company
            ))
            .await;
    }

    let changed = forget(&module, gone).await;
    assert_eq!(changed, 4, "one mail and three subscriptions");
    let left = module
        .database
        .rows("SELECT to_jsonb(target) FROM notification.delivery_jobs ORDER BY target".to_owned())
        .await;
    assert_eq!(left, [json!("desk@example.com"), json!("stays@example.com"), json!("team@example.com")]);
}

#[tokio::test]
async fn mail_to_an_address_that_a_subscription_had_before_goes_too() {
    let module = start().await;
    let gone = be_member(&module);
    let mail = channel(&module, "mail", "email", None).await;
    let tail = format!("/channels/{mail}/subscription");
    let set = async |email: Value| {
        assert_eq!(module.ask("PUT", &tail, Some(json!({ "email": email }))).await.status, 200);
    };
    let former = async || {
        module
            .database
            .rows("SELECT to_jsonb(email) FROM notification.former_addresses ORDER BY email".to_owned())
            .await
    };
    for email in ["First@example.com", "first@EXAMPLE.com", "desk@example.com", "second@example.com"] {
        set(json!(email)).await;
    }
    assert_eq!(former().await, [json!("desk@example.com"), json!("first@example.com")]);
    set(Value::Null).await;
    set(json!("third@example.com")).await;
    // By now, another member subscribes with this address.
    subscribe(&module, &mail, Uuid::now_v7(), "Desk@example.com").await;
    module
        .execute(format!(
            "INSERT INTO notification.messages(id, company_id, channel_id, subject_line, body, created_by) \
               VALUES ('{mail}', '{0}', '{mail}', 's', 'b', 'x'); \
             INSERT INTO notification.delivery_jobs(id, company_id, message_id, channel_id, kind, target, payload, state, \
               settled_at) \
             SELECT gen_random_uuid(), '{0}', '{mail}', '{mail}', 'email', name || '@example.com', 'b', 'done', now() \
               FROM unnest(ARRAY['first', 'second', 'third', 'desk', 'other']) AS name",
            module.company
        ))
        .await;
    forget(&module, gone).await;
    let left = module
        .database
        .rows("SELECT to_jsonb(target) FROM notification.delivery_jobs ORDER BY target".to_owned())
        .await;
    assert_eq!(left, [json!("desk@example.com"), json!("other@example.com")]);
    assert!(former().await.is_empty(), "the addresses themselves are gone");
}

#[tokio::test]
async fn a_former_address_is_kept_as_long_as_replays_of_its_deliveries_may_remain() {
    let module = start().await;
    let mut replayed = Vec::new();
    for key in ["one", "many", "none"] {
        let mail = channel(&module, key, "email", None).await;
        module
            .execute(format!(
                "INSERT INTO notification.former_addresses(company_id, channel_id, member_id, email, until) \
                   VALUES ('{0}', '{mail}', '{0}', '{key}@example.com', now() - interval '209 days'); \
                 INSERT INTO notification.messages(id, company_id, channel_id, subject_line, body, created_by) \
                   VALUES ('{mail}', '{0}', '{mail}', 's', 'b', 'x'); \
                 INSERT INTO notification.delivery_jobs(id, company_id, message_id, channel_id, kind, target, payload, \
                   state, settled_at) \
                 VALUES ('{mail}', '{0}', '{mail}', '{mail}', 'email', '{key}@example.com', 'b', 'dead', now())",
                module.company
            ))
            .await;
        replayed.push(mail);
    }
    let one = module.ask("POST", &format!("/deliveries/{}/replay", replayed[0]), None).await;
    assert_eq!(one.status, 201, "{}", one.text);
    let since = json!({ "channelId": replayed[1], "since": "2020-01-01T00:00:00Z" });
    let many = module.ask("POST", "/deliveries/replay", Some(since)).await;
    assert_eq!((many.status, &many.data()["replayed"]), (200, &json!(1)), "{}", many.text);
    let kept = "SELECT to_jsonb(email) FROM notification.former_addresses \
                 WHERE until > now() - interval '1 hour' ORDER BY email";
    let kept = module.database.rows(kept.to_owned()).await;
    assert_eq!(kept, [json!("many@example.com"), json!("one@example.com")]);
}

async fn subscribe(module: &testkit::ModuleApi, channel: &str, member: Uuid, email: &str) {
    module
        .execute(format!(
            "INSERT INTO notification.subscriptions(company_id, channel_id, member_id, email) \
             VALUES ('{}', '{channel}', '{member}', '{email}')",
            module.company
        ))
        .await;
}

/// Forgets this member; returns the number of changed rows.
async fn forget(module: &testkit::ModuleApi, member: Uuid) -> u64 {
    let former = FormerMember {
        seq: 1,
        company_id: CompanyId::from(module.company),
        member_id: MemberId::from(member),
        kc_sub: "gone".to_owned(),
    };
    let mut conn = module.database.owner_pool().acquire().await.expect("a connection");
    Addresses::forget(&mut conn, &former).await.expect("forgotten")
}
