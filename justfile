# Each recipe is one line; logic goes to xtask.
up:
    cargo run --release -- up

test *filter:
    cargo test --workspace {{filter}}

lint:
    cargo fmt --all --check && cargo clippy --workspace --all-targets -- --deny warnings && cargo xtask arch && cargo xtask tidy

db name="dev":
    xtask/dev-db.sh {{name}}

sqlx:
    cargo xtask sqlx-prepare

bench:
    cargo bench --package edge
