//! The permission flags after a random history.

use serde_json::Value;

use super::history::play;
use crate::world::id;

const MOVES: [(&str, &str); 3] =
    [("approve", "canApprove"), ("reject", "canReject"), ("revert", "canRevert")];

/// For every submission that a caller sees in any view, each flag is true exactly when the call succeeds. The rows are
/// restored after each call, so that each is tried on the same company.
#[tokio::test]
async fn p06_a_flag_is_true_exactly_when_the_call_succeeds() {
    let played = play(61).await;
    let world = &played.world;
    world.module.execute("CREATE TABLE public.twin AS TABLE timesheet.submissions".to_owned()).await;
    let back = "UPDATE timesheet.submissions s SET status = t.status, reject_reason = t.reject_reason,
        decided_by = t.decided_by, decided_at = t.decided_at FROM public.twin t WHERE t.id = s.id AND t.status <> s.status";
    let mut tried = [0, 0];
    for who in 0..world.people.len() {
        let mut shown: Vec<Value> = Vec::new();
        for view in ["mine", "approvals", "all"] {
            let reply = world.ask(who, "GET", &format!("/submissions?view={view}&pageSize=100"), None).await;
            shown.extend(reply.data()["items"].as_array().cloned().unwrap_or_default());
        }
        for submission in shown {
            let one = submission["id"].as_str().expect("an id");
            for (name, flag) in MOVES {
                let promised = submission["permissions"][flag].as_bool().expect("a flag");
                let reply = world.step(who, one, name).await;
                assert_eq!(reply.status == 200, promised, "{name} by {who}: {submission} {}", reply.text);
                if promised {
                    assert_eq!(id(&reply), one);
                    world.module.execute(back.to_owned()).await;
                }
                tried[usize::from(promised)] += 1;
            }
        }
    }
    assert!(tried[0] > 20 && tried[1] > 5, "both are tried: {tried:?}");
}
