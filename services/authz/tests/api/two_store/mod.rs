//! Rows and tuples (`service::two_store`), with a real authz on one side and a small module on the other.

mod child;
mod crashes;
mod hangups;
mod module;
mod races;
mod refusals;
mod scene;

/// Not a test: the crash tests restart this binary as the process that dies. Without the variables it does nothing.
#[test]
fn child_process() {
    child::become_the_child_if_asked();
}
