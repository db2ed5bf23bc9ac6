//! What an operator relies on across restarts: the data persists, a removed data directory starts fresh, and a
//! directory has only one platform.

use crate::harness::Together;
use crate::harness::client::Version;
use crate::tour::create_company;

#[tokio::test]
async fn a_second_start_finds_the_data_and_a_removed_directory_starts_empty() {
    let mut platform = Together::start("restart");
    let admin = platform.api(Version::Http2).with_token(&platform.token("admin").await);
    let company = create_company(&admin, "ACME").await;
    platform.stop();

    platform.up();
    let admin = platform.api(Version::Http2).with_token(&platform.token("admin").await);
    let unit = admin.get(&format!("/api/org/admin/units/{company}")).await;
    assert_eq!(unit.data(200)["code"], "ACME");

    let mut second = platform.spawn();
    assert_eq!(second.wait().code(), Some(2), "one directory has one platform");
    let holder = platform.process().id().to_string();
    assert!(platform.log().contains(&holder), "the refusal says who holds it:\n{}", platform.log());
    platform.stop();

    std::fs::remove_dir_all(platform.data()).expect("the data directory can be removed");
    platform.up();
    let admin = platform.api(Version::Http2).with_token(&platform.token("admin").await);
    admin.get(&format!("/api/org/admin/units/{company}")).await.refused(404, "NOT_FOUND");
}
