//! Who may call what, as one table for human review: each route of the gateway's document, called by each kind of
//! caller with an empty body and non-existent ids, and the resulting status. A new route without a row fails, and so
//! does a changed row. `UPDATE_GOLDEN=1` rewrites the table.

use std::fmt::Write;

use reqwest::Method;
use serde_json::json;

use crate::harness::client::{DOCUMENT, Version};
use crate::harness::login::subject;
use crate::harness::{Api, Together};
use crate::tour::{create_company, create_member, link};

const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/golden/authz_matrix.txt");

/// A non-existent id.
const NOTHING: &str = "01890a5d-ac96-774b-bcce-b302099a8057";

#[tokio::test]
async fn who_may_call_what_is_as_reviewed() {
    let platform = Together::start("matrix");
    let anonymous = platform.api(Version::Http2);
    let admin = anonymous.with_token(&platform.token("admin").await);
    let alice_token = platform.token("alice").await;
    let alice = anonymous.with_token(&alice_token);
    let bob = anonymous.with_token(&platform.token("bob").await);
    let company = create_company(&admin, "ACME").await;
    alice.get("/api/org/me/companies").await.data(200);
    let member = create_member(&admin, &company, "A1").await;
    link(&admin, &member, &subject(&alice_token)).await;

    let callers = [
        ("nobody", anonymous.clone()),
        ("bad-token", anonymous.with_token("a.b.c")),
        ("bob", bob),
        ("member", alice),
        ("superadmin", admin),
    ];
    let table = table(&callers, &company).await;
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(GOLDEN, &table).expect("the golden file can be written");
    }
    let reviewed = std::fs::read_to_string(GOLDEN).expect("the golden file is there");
    assert_eq!(table, reviewed, "run with UPDATE_GOLDEN=1 and read the difference");
}

async fn table(callers: &[(&str, Api)], company: &str) -> String {
    let mut table = format!("{:<72}", "method and route");
    for (name, _) in callers {
        write!(table, " {name:>10}").expect("text grows");
    }
    table.push('\n');
    for (method, route) in operations() {
        write!(table, "{:<72}", format!("{method} {route}")).expect("text grows");
        for (_, caller) in callers {
            let reply = call(caller, &method, &route, company).await;
            write!(table, " {reply:>10}").expect("text grows");
        }
        table.push('\n');
    }
    table
}

async fn call(caller: &Api, method: &Method, route: &str, company: &str) -> u16 {
    let path = route
        .replace("{companyId}", company)
        .replace("{key}", "nosuch")
        .replace("{module}", "nosuch")
        .replace("{role}", "platform-superadmin")
        .replace("{subject}", "nosuch")
        .replace("{subjectId}", "nosuch")
        .replace("{id}", NOTHING)
        .replace("{memberId}", NOTHING);
    assert!(!path.contains('{'), "{route} has a parameter that this table does not know");
    let body = (*method == Method::POST || *method == Method::PUT).then(|| json!({}));
    caller.send(method.clone(), &path, body).await.status.as_u16()
}

/// Method and route of every operation, in the document's order.
fn operations() -> Vec<(Method, String)> {
    let split = |operation: String| {
        let (method, route) = operation.split_once(' ').expect("a method and a route");
        (method.parse().expect("a method"), route.to_owned())
    };
    DOCUMENT.operations().into_iter().map(split).collect()
}
