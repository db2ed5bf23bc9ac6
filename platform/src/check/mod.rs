//! `platform check`: everything that can be found wrong without starting anything. Prints every problem; the exit code
//! is 2 when there is one. Without an option it looks at the platform itself, with `--module` or `--app` at what an
//! author is writing.

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

/// Looks at what is asked for, and says what is wrong with it. `early`: the variables of log and traces that are wrong.
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
