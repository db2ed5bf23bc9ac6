//! Tells cargo that the migrations are part of this crate: `migrate!` does not notice new files by itself.

fn main() {
    println!("cargo::rerun-if-changed=../../migrations/idp");
}
