//! platform
fn main() {}
