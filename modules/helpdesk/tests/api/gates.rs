//! Checks that precede every operation, and the probes.

use serde_json::json;
use testkit::ModuleApi;
use testkit::module::gates::Sample;
use uuid::Uuid;

use crate::start;

/// A member known to org, so that an operation reaches the database.
const MEMBER: Uuid = Uuid::from_u128(0x0192_f0c1_5d3e_7a10_8c11_2f6a_4d9b_2001);

fn know_org(module: &ModuleApi) {
    module.member(MEMBER, &[], &[]);
    let base = format!("/internal/org/companies/{}", module.company);
    module.org.answer(
        "POST",
        &format!("{base}/lookup"),
        200,
        json!({ "data": { "members": [{ "id": MEMBER, "displayName": "Alice", "email": null, "isActive": true,
            "kcSub": "alice-subject" }], "positions": [], "groups": [] } }),
    );
    module.org.answer("GET", &format!("{base}/assignables/*"), 200, json!({ "data": [] }));
    drop(module.take_tuples());
}

fn samples() -> Vec<Sample> {
    let one = |tail: &str| format!("/tickets/{}{tail}", Uuid::now_v7());
    let binding = |kind: &str| format!("/bindings/{kind}/{}", Uuid::now_v7());
    vec![
        Sample::of("getTier", "/tier").without_database(),
        Sample::of("listTickets", "/tickets"),
        Sample::of("createTicket", "/tickets")
            .with(json!({ "title": "The printer is on fire", "description": "Second floor." })),
        Sample::of("getTicket", one("")),
        Sample::of("listTicketHistory", one("/history")),
        Sample::of("assignTicket", one("/assignee")).with(json!({ "assigneeMemberId": MEMBER })),
        Sample::of("changeTicketStatus", one("/status")).with(json!({ "status": "closed" })),
        Sample::of("listComments", one("/comments")),
        Sample::of("addComment", one("/comments")).with(json!({ "body": "It still burns." })),
        Sample::of("listAssignablePositions", "/assignable-positions").without_database(),
        Sample::of("listAssignableGroups", "/assignable-groups").without_database(),
        Sample::of("listBindings", "/bindings"),
        Sample::of("createBinding", "/bindings").with(json!({ "memberId": MEMBER })),
        Sample::of("deletePositionBinding", binding("positions")),
        Sample::of("deleteGroupBinding", binding("groups")),
        Sample::of("deleteMemberBinding", binding("members")),
        Sample::of("searchTickets", "/tickets/search"),
        Sample::of("getSettings", "/settings"),
        Sample::of("updateSettings", "/settings").with(json!({ "reopenOnReporterComment": true })),
    ]
}

testkit::module_gates! { helpdesk, samples: samples(), prepare: know_org, list: "/tickets" }

#[tokio::test]
async fn a_malformed_id_is_told_before_the_decision() {
    let module = start().await;
    for (method, tail) in [
        ("GET", "/tickets/x"),
        ("GET", "/tickets/x/history"),
        ("PUT", "/tickets/x/status"),
        ("DELETE", "/bindings/groups/x"),
    ] {
        let reply = module.ask(method, tail, None).await;
        assert_eq!((reply.status, reply.code()), (400, "BAD_REQUEST"), "{method} {tail}");
    }
    assert!(module.questions().is_empty());
}
