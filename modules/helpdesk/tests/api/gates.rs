//! What stands before every operation, and the probes.

use testkit::module::gates::Sample;
use uuid::Uuid;

testkit::module_gates! {
    helpdesk,
    samples: [Sample::of("listTickets", "/tickets")],
    prepare: |module| module.member(Uuid::now_v7(), &[], &[]),
    list: "/tickets"
}
