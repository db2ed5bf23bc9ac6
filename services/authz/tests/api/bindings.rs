//! The rules of a grant, one row each: a request that the rule accepts and a similar one that it refuses. The test
//! prints the table.

use std::fmt::Write as _;

use crate::cases;
use crate::grants::{ANCHOR, OWNER, World};

/// The requests of a rule and the expected refusal: its status, and the field or reason that it names.
struct Row {
    rule: &'static str,
    accepted: (&'static str, &'static [&'static str]),
    refused: (&'static str, &'static [&'static str]),
    told: (u16, &'static str),
}

const MEMBER: &str = "company_module:{c}/crm#member@user:alice";
const NOTE_ANCHOR: &str = "crm_note:1#company_module@company_module:{c}/crm";

const ROWS: [Row; 11] = [
    Row {
        rule: "the object is of a type that an enabled module declares",
        accepted: ("alice", &[ANCHOR, OWNER]),
        refused: ("alice", &["unicorn:1#rider@user:alice"]),
        told: (422, "tuples[0].objectType"),
    },
    Row {
        rule: "of a module that is enabled",
        accepted: ("alice", &[ANCHOR, OWNER]),
        refused: ("root", &["old_thing:1#owner@user:alice"]),
        told: (422, "tuples[0].objectType"),
    },
    Row {
        rule: "and never of a base type",
        accepted: ("boss", &[MEMBER]),
        refused: ("root", &["company:{c}#member@user:alice"]),
        told: (422, "tuples[0].objectType"),
    },
    Row {
        rule: "it is anchored to its module in this company",
        accepted: ("alice", &[OWNER]),
        refused: ("alice", &["crm_deal:2#owner@user:alice"]),
        told: (422, "tuples[0].objectId"),
    },
    Row {
        rule: "an anchor in the same request counts",
        accepted: ("alice", &[NOTE_ANCHOR, "crm_note:1#deal@crm_deal:1"]),
        refused: (
            "alice",
            &["crm_note:2#company_module@company_module:{f}/crm", "crm_note:2#deal@crm_deal:1"],
        ),
        told: (422, "tuples[0].objectId"),
    },
    Row {
        rule: "or it is this company's module itself",
        accepted: ("boss", &["company_module:{c}/crm#editor@user:alice"]),
        refused: ("root", &["company_module:{f}/crm#editor@user:alice"]),
        told: (422, "tuples[0].objectId"),
    },
    Row {
        rule: "only an administrator of a module grants on it",
        accepted: ("boss", &[MEMBER]),
        refused: ("alice", &[MEMBER]),
        told: (403, "ENGINE_DENIED"),
    },
    Row {
        rule: "the grantor may use the module in this company",
        accepted: ("alice", &[OWNER]),
        refused: ("stranger", &[OWNER]),
        told: (403, "COMPANY_MEMBERSHIP_REQUIRED"),
    },
    Row {
        rule: "the relation can be held directly",
        accepted: ("alice", &["crm_deal:1#viewer@user:alice"]),
        refused: ("alice", &["crm_note:1#reader@user:alice"]),
        told: (422, "tuples[0].relation"),
    },
    Row {
        rule: "the relation takes this kind of subject",
        accepted: ("alice", &["crm_deal:1#viewer@group:01890a5d-ac96-774b-bcce-b302099a8102#member"]),
        refused: ("alice", &["crm_deal:1#viewer@company:{c}#member"]),
        told: (422, "tuples[0].subjectType"),
    },
    Row {
        rule: "a group or position belongs to this company",
        accepted: ("alice", &["crm_deal:1#viewer@position:01890a5d-ac96-774b-bcce-b302099a8101#holder"]),
        refused: ("alice", &["crm_deal:1#viewer@group:01890a5d-ac96-774b-bcce-b302099a8103#member"]),
        told: (422, "tuples[0].subjectId"),
    },
];

#[tokio::test]
async fn every_binding_rule_has_a_grant_that_it_accepts_and_one_that_it_refuses() {
    let world = World::start().await;
    let rows = world.app.rows();
    rows.subject("stranger").await;
    let old =
        serde_json::json!({ "old_thing": { "company_module": { "this": true }, "owner": { "this": true } } });
    rows.app("old", &old, &[]).await;
    rows.run("UPDATE registry.modules SET enabled = false WHERE key = 'old'").await;
    rows.catalog_changed().await;
    let mut table = String::new();
    for Row { rule, accepted, refused, told } in ROWS {
        let (count, _) = world.done(accepted.0, "grant", accepted.1).await;
        assert_eq!(count, u64::try_from(accepted.1.len()).expect("a number"), "{rule}");
        let before = world.granted().await;
        let (status, what) = world.refused(refused.0, "grant", refused.1).await;
        assert_eq!((status, what.as_str()), told, "{rule}");
        assert_eq!(world.granted().await, before, "{rule}: a refused request writes nothing");
        writeln!(table, "{rule:52} 200 {:6} | {status} {:8} {what}", accepted.0, refused.0).expect("text");
    }
    cases::told(&format!("{table}{} binding rules, each accepted and refused", ROWS.len()));
}
