//! The responses of docs, operation × status, as its OpenAPI file lists them: the tests produce exactly the statuses
//! that the file names, through the gateway over TLS and against PostgreSQL, and each response fits its schema. Every
//! refusal that the file shows as an example occurs too. The table is printed.
//!
//! `documents.rs`, `sharing.rs` and `folders.rs` cover each operation's own rules; `crash.rs` covers what only the
//! whole platform can show; the rest is `module_scene`.

mod crash;
mod documents;
mod folders;
mod isolation;
mod scene;
mod sharing;

use scene::Scene;

use crate::module_scene::faults;

#[tokio::test]
async fn every_documented_status_of_every_operation_is_produced_and_no_other() {
    let mut scene = Scene::start("docs-statuses").await;
    faults::strangers(&mut scene).await;
    faults::malformed(&mut scene).await;
    documents::unknown(&mut scene).await;
    documents::texts(&mut scene).await;
    documents::keys(&mut scene).await;
    documents::trash(&mut scene).await;
    sharing::shares(&mut scene).await;
    sharing::requests(&mut scene).await;
    sharing::comments(&mut scene).await;
    sharing::transfers(&mut scene).await;
    folders::lives(&mut scene).await;
    folders::moves(&mut scene).await;
    folders::shares(&mut scene).await;
    documents::reads(&mut scene).await;
    faults::too_many_at_once(&mut scene, read_by).await;
    faults::switched_off(&mut scene).await;
    faults::without_its_tables(&mut scene).await;
    faults::without_authz(&mut scene).await;
    faults::without_the_module(&mut scene).await;
    scene.print_and_compare();
}

/// The tables that a limited operation reads in its turn, and not before.
fn read_by(operation: &str) -> &'static str {
    match operation {
        "GET /documents/{documentId}/comments" => "docs.comments",
        "GET /documents/{documentId}/versions" => "docs.versions",
        "GET /documents/{documentId}/access-requests" => "docs.access_requests",
        "GET /documents/{documentId}/history" => "audit.docs__events",
        _ => "docs.documents, docs.folders",
    }
}
