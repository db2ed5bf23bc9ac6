//! What modules learn from org; anything but a complete answer is a refusal.

use contract::CorrelationId;
use contract::id::{CompanyId, MemberId, PositionId};
use serde_json::{Value, json};
use service::clients::org::{OrgClient, Wanted};
use service::{ApiError, Inside};
use testkit::Stub;

struct Asked {
    org: Stub,
    client: OrgClient,
    company: CompanyId,
}

async fn asked() -> Asked {
    let org = Stub::start().await;
    let client = OrgClient::new(&org.url(), &Inside::of(Some(testkit::SERVICE), None));
    Asked { org, client, company: CompanyId::mint() }
}

impl Asked {
    fn answer(&self, method: &str, tail: &str, status: u16, body: Value) {
        self.org.answer(method, &format!("/internal/org/companies/{}/{tail}", self.company), status, body);
    }
}

fn correlation() -> CorrelationId {
    CorrelationId::accept(Some(b"request-1"))
}

/// The dependency in a refusal.
fn missing<T: std::fmt::Debug>(answer: Result<T, ApiError>) -> String {
    match answer {
        Err(ApiError::Unavailable { dependency, .. }) => dependency.into_owned(),
        other => format!("{other:?}"),
    }
}

#[tokio::test]
async fn a_lookup_sends_the_ids_and_tells_who_is_active() {
    let asked = asked().await;
    let (ann, bob, eve) = (MemberId::mint(), MemberId::mint(), MemberId::mint());
    let position = PositionId::mint();
    let member = |id, active| json!({ "id": id, "displayName": "x", "email": null, "isActive": active, "kcSub": null });
    let found = json!({ "members": [member(ann, true), member(bob, false)], "groups": [],
        "positions": [{ "id": position, "title": "Head", "holderMemberId": null, "holderDisplayName": null }] });
    asked.answer("POST", "lookup", 200, json!({ "data": found }));
    let wanted =
        Wanted { member_ids: vec![ann, bob, eve], position_ids: vec![position], ..Wanted::default() };
    let found = asked.client.lookup(asked.company, &wanted, &correlation()).await.expect("an answer");
    assert_eq!([ann, bob, eve].map(|id| found.is_active_member(id)), [true, false, false]);
    assert_eq!(found.positions.first().map(|found| found.id), Some(position));
    let requests = asked.org.requests();
    let bodies: Vec<&Value> = requests.iter().map(|request| &request.body).collect();
    assert_eq!(bodies, [&json!({ "memberIds": [ann, bob, eve], "positionIds": [position], "groupIds": [] })]);
    let names: Vec<_> = requests.iter().map(|request| request.headers.get("x-correlation-id")).collect();
    assert_eq!(names, [Some(&"request-1".parse().expect("a header"))]);
    let services: Vec<_> = requests.iter().map(|request| request.headers.get("x-platform-service")).collect();
    assert_eq!(services, [Some(&testkit::SERVICE.parse().expect("a header"))]);
}

#[tokio::test]
async fn assignables_arrive_as_the_contract_shows_them() {
    let asked = asked().await;
    let positions = json!([{ "positionId": PositionId::mint(), "title": "Head", "holderMemberId": null,
        "holderDisplayName": null }]);
    let groups = json!([{ "groupId": PositionId::mint(), "title": "Support", "memberCount": 3 }]);
    asked.answer("GET", "assignables/positions", 200, json!({ "data": positions }));
    asked.answer("GET", "assignables/groups", 200, json!({ "data": groups }));
    let found = asked.client.assignable_positions(asked.company, &correlation()).await.expect("positions");
    assert_eq!(json!(found), positions);
    let found = asked.client.assignable_groups(asked.company, &correlation()).await.expect("groups");
    assert_eq!(json!(found), groups);
}

#[tokio::test]
async fn anything_but_a_whole_answer_is_org_missing() {
    let asked = asked().await;
    let whole = json!({ "data": { "members": [], "positions": [], "groups": [] } });
    for (status, body) in [
        (404, whole.clone()),
        (500, whole.clone()),
        (200, json!({ "data": { "members": [] } })),
        (200, json!({ "members": [] })),
    ] {
        asked.answer("POST", "lookup", status, body);
        let answer = asked.client.lookup(asked.company, &Wanted::default(), &correlation()).await;
        assert_eq!(missing(answer), "org", "{status}");
    }
    asked.org.close("GET", &format!("/internal/org/companies/{}/assignables/*", asked.company));
    assert_eq!(missing(asked.client.assignable_positions(asked.company, &correlation()).await), "org");
    assert_eq!(missing(asked.client.assignable_groups(asked.company, &correlation()).await), "org");
}
