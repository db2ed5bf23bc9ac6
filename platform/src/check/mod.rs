//! `platform check`: finds every problem that shows without starting anything. Prints them all; the exit code is 2 if
//! there is one. Checks the platform itself or, with `--module` or `--app`, an author's files.

mod app;
mod module;
mod shipped;

use contract::Settings;
use contract::settings::Problems;
use serde_json::json;

use crate::bundle::Problem;
use crate::cli::CheckRequest;
use crate::console;
use crate::stop::Stop;

/// Checks what the request names and prints every problem. `early`: problems with the variables of log and traces.
pub(crate) fn check(settings: &Settings, request: &CheckRequest, early: Problems) -> Result<(), Stop> {
    let problems = match request {
        CheckRequest { module: Some(folder), .. } => module::check(folder),
        CheckRequest { app: Some(file), .. } => app::check(file),
        CheckRequest { module: None, app: None, .. } => shipped::check(settings, early),
    };
    report(&problems, request.json)
}

fn report(problems: &[Problem], as_json: bool) -> Result<(), Stop> {
    if as_json {
        console::result(&json!({ "problems": problems }).to_string());
    } else if problems.is_empty() {
        console::result("no problems");
    }
    if problems.is_empty() {
        return Ok(());
    }
    let lines: Vec<String> = problems.iter().map(Problem::to_string).collect();
    let found =
        if problems.len() == 1 { "1 problem".to_owned() } else { format!("{} problems", problems.len()) };
    Err(Stop::Unfit(if as_json { found } else { format!("{found}\n{}", lines.join("\n")) }))
}
