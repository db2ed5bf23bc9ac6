//! The files of the module contract agree with each other and with the program, whatever the module does.

use contract::manifest::{self, LicenseClass};
use contract::{fragment, license};
use serde_json::Value;
use service::{Bundle, Feature};

/// Runs all checks: the manifest names what the program serves, the fragment declares each decision that is asked, the
/// license is the one that the manifest names, and migrations are numbered without gaps.
///
/// # Panics
/// They do not agree.
pub fn check(bundle: &Bundle, port: u16, asked: &[Feature]) {
    check_manifest(bundle, port);
    check_features(bundle, asked);
    let versions: Vec<i64> = bundle.migrations.iter().map(|migration| migration.version).collect();
    assert!(versions.iter().copied().eq((1..).take(versions.len())), "not numbered from 1: {versions:?}");
}

#[expect(clippy::expect_used, reason = "the test whose manifest cannot be read has failed")]
fn check_manifest(bundle: &Bundle, port: u16) {
    let manifest = manifest::parse(bundle.manifest).expect("the manifest is right");
    assert_eq!((manifest.key.as_str(), manifest.service.port), (bundle.key, port));
    assert_eq!(manifest.license.class, LicenseClass::Open);
    assert_eq!(license::check(&manifest.license.spdx, bundle.license), None);
}

#[expect(clippy::expect_used, reason = "the test whose fragment cannot be read has failed")]
fn check_features(bundle: &Bundle, asked: &[Feature]) {
    fragment::parse(bundle.fragment, bundle.key).expect("the fragment is right");
    let fragment: Value = serde_json::from_str(bundle.fragment).expect("JSON");
    let declared = fragment.get("features").and_then(Value::as_array).cloned().unwrap_or_default();
    for feature in asked {
        let entry = declared.iter().find(|entry| entry.get("featureKey") == Some(&feature.key.into()));
        let relation = entry.and_then(|entry| entry.pointer("/accessRulePayload/relation"));
        assert_eq!(relation, Some(&feature.relation.into()), "{}", feature.key);
    }
}
