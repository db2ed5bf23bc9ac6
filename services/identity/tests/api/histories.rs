//! Invariant of any history of concurrent first requests: one record and one audit row for each subject.

use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;
use serde_json::json;

use crate::support::{Identity, together};

/// The subjects of a history.
const SUBJECTS: usize = 12;

#[tokio::test]
async fn property_1_after_any_history_of_parallel_first_requests_each_subject_has_one_record_and_one_audit_row()
 {
    let identity = Identity::start().await;
    for number in 0..SUBJECTS {
        identity.provider.account(&format!("s{number}"), &format!("s{number}"), true);
    }
    // Each entry is one moment: concurrent requests of these subjects, with these names.
    let moment = proptest::collection::vec((0..SUBJECTS, 0..3_usize), 2..12);
    let history = proptest::collection::vec(moment, 20..21);
    let mut runner = TestRunner::deterministic();
    let mut created = 0;
    let mut seen = std::collections::BTreeSet::new();
    for moment in history.new_tree(&mut runner).expect("a history").current() {
        let call = |(subject, name): &(usize, usize)| {
            let body = json!({ "kcSub": format!("s{subject}"), "kind": "user", "displayName": format!("Name {name}") });
            identity.provision(body)
        };
        let replies = together(moment.iter().map(call).collect()).await;
        for reply in replies {
            assert_eq!(reply.status, 200, "{}", reply.text);
            created += usize::from(reply.data()["created"] == json!(true));
        }
        seen.extend(moment.iter().map(|(subject, _)| *subject));
        let rows = identity.audit().await;
        let provisioned = rows.iter().filter(|row| row.contains("user.provisioned")).count();
        let records: i64 = sqlx::query_scalar("SELECT count(*) FROM identity.users")
            .fetch_one(&identity.owner)
            .await
            .expect("a count");
        assert_eq!(
            (created, provisioned, records),
            (seen.len(), seen.len(), i64::try_from(seen.len()).expect("a few"))
        );
    }
    assert_eq!(seen.len(), SUBJECTS, "every subject came");
}
