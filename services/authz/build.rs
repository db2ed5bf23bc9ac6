//! Makes a new migration file rebuild the crate: `sqlx::migrate!` alone does not notice one.

fn main() {
    println!("cargo::rerun-if-changed=../../migrations/authz");
}
