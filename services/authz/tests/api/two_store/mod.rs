//! Rows and tuples (`service::two_store`), with a real authz on one side and a small module on the other.

mod child;
mod crashes;
mod module;
mod races;
mod refusals;
mod scene;

/// Not a test of its own: the crash tests start this binary again as the process that dies. Without the variables it has
/// nothing to do.
#[test]
fn child_process() {
    child::become_the_child_if_asked();
}
