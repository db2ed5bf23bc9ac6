//! The files of the module contract agree with each other and with the program.

use contract::fragment;
use contract::manifest::{self, LicenseClass};
use serde_json::Value;
use timesheet::{BUNDLE, KEY, PORT, features};

#[test]
fn the_manifest_says_what_the_program_does() {
    let manifest = manifest::parse(BUNDLE.manifest).expect("the manifest is right");
    assert_eq!((manifest.key.as_str(), manifest.service.port), (KEY, PORT));
    assert_eq!(manifest.license.class, LicenseClass::Open);
    assert!(BUNDLE.license.contains("Apache License\n                           Version 2.0, January 2004"));
}

#[test]
fn every_decision_that_is_asked_is_a_feature_of_the_fragment() {
    fragment::parse(BUNDLE.fragment, KEY).expect("the fragment is right");
    let fragment: Value = serde_json::from_str(BUNDLE.fragment).expect("JSON");
    let declared = |key: &str| {
        let features = fragment["features"].as_array().expect("a list");
        let feature = features.iter().find(|feature| feature["featureKey"] == key);
        feature.map(|feature| feature["accessRulePayload"]["relation"].clone())
    };
    for feature in [
        features::SETTINGS_READ,
        features::SETTINGS_UPDATE,
        features::PROJECTS_READ,
        features::PROJECTS_MANAGE,
        features::APPROVERS_READ,
        features::APPROVERS_MANAGE,
        features::ENTRIES_READ,
        features::ENTRIES_WRITE,
        features::SUBMISSIONS_READ,
        features::SUBMISSIONS_READ_ALL,
        features::SUBMIT,
        features::DECIDE_ANY,
        features::DECIDE,
        features::REVERT,
    ] {
        assert_eq!(declared(feature.key), Some(feature.relation.into()), "{}", feature.key);
    }
}

#[test]
fn the_migrations_are_numbered_without_gaps() {
    let versions: Vec<i64> = BUNDLE.migrations.iter().map(|migration| migration.version).collect();
    assert_eq!(versions, (1..=i64::try_from(versions.len()).expect("few")).collect::<Vec<_>>());
}
