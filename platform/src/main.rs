//! The program: allocator, arguments, environment, exit code. Everything else is in the library, so that the end-to-end
//! tests can run it too.

use std::process::ExitCode;

use mimalloc::MiMalloc;

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    // Short-lived commands need no tuning.
    if std::env::args_os().nth(1).is_some_and(|command| command == "up" || command == "serve") {
        edge::start_tuned();
    }
    platform::run(std::env::args_os(), platform::environment())
}
