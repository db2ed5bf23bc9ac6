//! `module.manifest.json`, then the same text as an OpenAPI file and as a front-end manifest: never panics, never runs
//! for more than a second of CPU time, always returns a value or problems, and never more problems than the limit.

#![no_main]

use contract::envelope::MAX_PROBLEMS;
use contract::{fragment, frontend, manifest, openapi};
use contract_fuzz::timed;
use libfuzzer_sys::fuzz_target;

const FRAGMENT: &str = r#"{"moduleKey":"crm","roles":[],"objects":[],"relations":{},"features":[],"fieldCatalog":[],
    "fieldSets":[],"rowScopes":[],"bootstrapPolicy":{"seedCompanyCreatorObjectRelations":[]}}"#;

fuzz_target!(|text: &str| timed(|| judge(text)));

fn judge(text: &str) {
    match manifest::parse(text) {
        Ok(manifest) => assert!(manifest::is_key(&manifest.key) && manifest.service.port > 0),
        Err(problems) => assert!((1..=MAX_PROBLEMS + 1).contains(&problems.len())),
    }
    assert!(openapi::check(text, "/api/crm", &["crm"]).len() <= MAX_PROBLEMS + 1);
    if let Ok(fragment) = fragment::parse(FRAGMENT, "crm") {
        assert!(frontend::check(text, &fragment).len() <= MAX_PROBLEMS + 1);
    }
}
