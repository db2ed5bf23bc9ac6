//! One migration file of the module `demo`, with any content.

#![no_main]

use contract::fence::{File, check};
use contract_fuzz::timed;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| timed(|| judge(text)));

fn judge(text: &str) {
    let findings = check("demo", &[File { name: "0001_a.sql", text }]);
    for finding in &findings {
        assert!(!finding.message.is_empty());
    }
}
