//! The migrations fence: what a module's `migrations/` may hold. Each file is read as PostgreSQL syntax, and only what is
//! named here as allowed passes; what the parser does not understand is refused, never skipped. Pure: `platform check`,
//! `platform migrate` and tests give it the texts.
//!
//! ```text
//! check -> files    names and numbers
//!       -> split    text -> statements, with the limits that keep reading cheap
//!       -> forms    is it a statement of the allowed set, and is each clause of it plain (tables, grants)
//!       -> walk     every relation, query, expression, call and type inside it
//!       -> names    is a name inside the fence
//! ```

mod allowed;
mod files;
mod forms;
mod grants;
mod names;
mod rule;
mod split;
mod tables;
mod types;
mod walk;

use std::collections::BTreeSet;
use std::fmt;

pub use rule::Rule;

use names::Fence;
use split::Piece;

/// Largest migration file, in bytes: a table of a hundred columns has under ten thousand.
pub const MAX_FILE_BYTES: usize = 1 << 18;
/// Most problems of one statement that are told: more of them are of one kind.
const MAX_REFUSALS: usize = 100;
/// Most files of one module: each number has four digits.
pub const MAX_FILES: usize = 9_999;

/// One file of `migrations/`.
#[derive(Clone, Copy, Debug)]
pub struct File<'a> {
    /// Its name, without the folder.
    pub name: &'a str,
    /// What it holds.
    pub text: &'a str,
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The file's name.
    pub file: String,
    /// Which statement of the file, from 1, and the line it begins in; `None` when it is the file itself.
    pub place: Option<(usize, u64)>,
    /// The rule that it breaks.
    pub rule: Rule,
    /// What is wrong, in words.
    pub message: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, place, rule, message } = self;
        match place {
            Some((number, line)) => write!(f, "{file}: statement {number} (line {line}): {message} ({rule})"),
            None => write!(f, "{file}: {message} ({rule})"),
        }
    }
}

/// Everything that is wrong with the migrations of the module `key`, in the order of the files.
#[must_use]
pub fn check(key: &str, files: &[File<'_>]) -> Vec<Finding> {
    let names: Vec<&str> = files.iter().map(|file| file.name).collect();
    let mut findings = files::check(&names);
    findings.extend(files.iter().flat_map(|file| check_file(key, *file)));
    findings
}

/// Everything that is wrong inside one file, whatever its name.
#[must_use]
pub fn check_file(key: &str, file: File<'_>) -> Vec<Finding> {
    let finding =
        |place, (rule, message): Refusal| Finding { file: file.name.to_owned(), place, rule, message };
    let pieces = match split::split(file.text) {
        Ok(pieces) => pieces,
        Err(refusal) => return vec![finding(None, refusal)],
    };
    let fence = Fence::new(key);
    let numbered = (1_usize..).zip(&pieces);
    numbered
        .flat_map(|(number, piece)| {
            let place = Some((number, piece.line));
            check_piece(&fence, piece).into_iter().map(move |refusal| finding(place, refusal))
        })
        .collect()
}

/// A rule and what is wrong, before it has a place.
type Refusal = (Rule, String);

fn check_piece(fence: &Fence, piece: &Piece) -> Vec<Refusal> {
    let statement = match piece.parse() {
        Ok(statement) => statement,
        Err(refusal) => return vec![refusal],
    };
    let mut refusals = forms::check(fence, &statement, piece);
    // Inside a statement that may not be there at all, nothing more is worth saying.
    if !refusals.iter().any(|(rule, _)| rule.is_of_the_whole_statement()) {
        refusals.extend(walk::check(fence, &statement));
    }
    let mut told = BTreeSet::new();
    refusals.retain(|refusal| told.insert(refusal.clone()));
    refusals.truncate(MAX_REFUSALS);
    refusals
}
