//! Notification's responses, operation × status, as its OpenAPI file lists them: the tests produce exactly the statuses
//! that the file names, through the gateway over TLS and against PostgreSQL, and each response fits its schema. Every
//! refusal that the file shows as an example occurs too. The table is printed.
//!
//! `records.rs` and `deliveries.rs` cover each operation's own rules; the rest is `module_scene`.

mod deliveries;
mod isolation;
mod records;
mod scene;

use scene::Scene;

use crate::module_scene::faults;

#[tokio::test]
async fn every_documented_status_of_every_operation_is_produced_and_no_other() {
    let mut scene = Scene::start("notification-statuses").await;
    faults::strangers(&mut scene).await;
    faults::malformed(&mut scene).await;
    records::channels(&mut scene).await;
    records::subscriptions(&mut scene).await;
    records::messages(&mut scene).await;
    records::keys(&mut scene).await;
    records::signing_secrets(&mut scene).await;
    deliveries::dispatch_and_log(&mut scene).await;
    deliveries::replays(&mut scene).await;
    deliveries::health(&mut scene).await;
    faults::too_many_at_once(&mut scene, |_| "notification.messages, notification.delivery_jobs").await;
    faults::switched_off(&mut scene).await;
    faults::without_its_tables(&mut scene).await;
    faults::without_authz(&mut scene).await;
    faults::without_the_module(&mut scene).await;
    scene.print_and_compare();
}
