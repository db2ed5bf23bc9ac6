//! The helpdesk's responses, operation × status, as its OpenAPI file lists them: the tests produce exactly the statuses
//! that the file names, through the gateway over TLS and against PostgreSQL, and each response fits its schema. Every
//! refusal that the file shows as an example occurs too. The table is printed.
//!
//! `tickets.rs` and `bindings.rs` cover each operation's own rules; `organization.rs` and `crash.rs` cover what only
//! the whole platform can show; the rest is `module_scene`.

mod bindings;
mod crash;
mod isolation;
mod organization;
mod scene;
mod tickets;

use scene::Scene;

use crate::module_scene::faults;

#[tokio::test]
async fn every_documented_status_of_every_operation_is_produced_and_no_other() {
    let mut scene = Scene::start("helpdesk-statuses").await;
    faults::strangers(&mut scene).await;
    faults::malformed(&mut scene).await;
    tickets::reads(&mut scene).await;
    tickets::assignments(&mut scene).await;
    tickets::moves(&mut scene).await;
    tickets::comments(&mut scene).await;
    tickets::keys(&mut scene).await;
    bindings::bindings(&mut scene).await;
    faults::too_many_at_once(&mut scene, |_| "helpdesk.tickets").await;
    faults::switched_off(&mut scene).await;
    faults::without_its_tables(&mut scene).await;
    faults::without_authz(&mut scene).await;
    faults::without_the_module(&mut scene).await;
    scene.print_and_compare();
}
