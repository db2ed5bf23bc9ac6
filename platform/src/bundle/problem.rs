//! A problem that `platform check` found: a line for people, JSON for programs.

use std::fmt;

use contract::FieldProblem;
use contract::fence::Finding;
use contract::manifest::set::FileProblem;
use contract::settings;
use serde::Serialize;

/// What is wrong and where.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Problem {
    /// The file, or `configuration`.
    pub(crate) file: String,
    /// Where in the file, when that is known.
    pub(crate) path: Option<String>,
    /// The violated rule, a stable machine-readable word.
    pub(crate) rule: String,
    /// What is wrong, or what would be valid.
    pub(crate) message: String,
}

impl Problem {
    pub(crate) fn new(file: impl Into<String>, rule: &str, message: impl Into<String>) -> Self {
        Self { file: file.into(), path: None, rule: rule.to_owned(), message: message.into() }
    }

    pub(crate) fn field(file: impl Into<String>, problem: FieldProblem) -> Self {
        let FieldProblem { path, rule, message } = problem;
        let path = (!path.is_empty()).then_some(path);
        Self { file: file.into(), path, rule: rule.into_owned(), message }
    }

    /// A problem with a variable, whose name is the path.
    pub(crate) fn variable(problem: settings::Problem) -> Self {
        let settings::Problem { name, message } = problem;
        let configuration = "configuration".to_owned();
        Self { file: configuration.clone(), path: Some(name), rule: configuration, message }
    }

    pub(crate) fn between(problem: FileProblem) -> Self {
        let FileProblem { module_key, file, problem } = problem;
        Self::field(format!("{module_key}/{file}"), problem)
    }

    pub(crate) fn migration(key: &str, finding: Finding) -> Self {
        let Finding { file, place, rule, message } = finding;
        let path = place.map(|(number, line)| format!("statement {number} (line {line})"));
        Self { file: format!("{key}/migrations/{file}"), path, rule: rule.as_str().to_owned(), message }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, path, rule, message } = self;
        match path {
            Some(path) => write!(f, "{file}: {path}: {message} ({rule})"),
            None => write!(f, "{file}: {message} ({rule})"),
        }
    }
}
