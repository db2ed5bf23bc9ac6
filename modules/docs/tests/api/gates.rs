//! What stands before every operation, and the probes.

use testkit::module::gates::Sample;
use uuid::Uuid;

testkit::module_gates! {
    docs,
    samples: ["", "?view=shared", "?view=trash"].map(|view| Sample::of("listDocuments", format!("/documents{view}"))),
    prepare: |module| module.member(Uuid::now_v7(), &[], &[]),
    list: "/documents"
}
