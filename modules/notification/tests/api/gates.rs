//! What stands before every operation, and the probes.

use testkit::module::gates::Sample;

testkit::module_gates! {
    notification,
    samples: [Sample::of("listChannels", "/channels")],
    prepare: |_| (),
    list: "/channels"
}
