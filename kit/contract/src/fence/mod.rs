//! The migrations fence: what a module's `migrations/` may contain. Each file is parsed as PostgreSQL syntax, and only
//! what is explicitly allowed passes; anything that the parser does not understand is refused, never skipped. Pure:
//! `platform check`, `platform migrate` and tests pass in the texts.
//!
//! ```text
//! check -> files    names and numbers
//!       -> split    text -> statements, with the limits that keep parsing cheap
//!       -> forms    is the statement in the allowed set, and is each of its clauses plain (tables, grants)
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

/// Largest migration file, in bytes: a table of a hundred columns takes under ten thousand.
pub const MAX_FILE_BYTES: usize = 1 << 18;
/// Most problems reported per statement: further ones are of the same kind.
const MAX_REFUSALS: usize = 100;
/// Most files of one module: numbers have four digits.
pub const MAX_FILES: usize = 9_999;

/// One file of `migrations/`.
#[derive(Clone, Copy, Debug)]
pub struct File<'a> {
    /// Its name, without the folder.
    pub name: &'a str,
    /// Its content.
    pub text: &'a str,
}

/// One problem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The file's name.
    pub file: String,
    /// Number of the statement in the file, from 1, and its first line; `None` when the problem is the file itself.
    pub place: Option<(usize, u64)>,
    /// The violated rule.
    pub rule: Rule,
    /// A description of the problem.
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

/// All problems in the migrations of the module `key`, in file order.
#[must_use]
pub fn check(key: &str, files: &[File<'_>]) -> Vec<Finding> {
    let names: Vec<&str> = files.iter().map(|file| file.name).collect();
    let mut findings = files::check(&names);
    findings.extend(files.iter().flat_map(|file| check_file(key, *file)));
    findings
}

/// All problems inside one file, regardless of its name.
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

/// A rule and a message, not located yet.
type Refusal = (Rule, String);

fn check_piece(fence: &Fence, piece: &Piece) -> Vec<Refusal> {
    let statement = match piece.parse() {
        Ok(statement) => statement,
        Err(refusal) => return vec![refusal],
    };
    let mut refusals = forms::check(fence, &statement, piece);
    // When the statement as a whole is refused, its inside needs no report.
    if !refusals.iter().any(|(rule, _)| rule.is_of_the_whole_statement()) {
        refusals.extend(walk::check(fence, &statement));
    }
    let mut told = BTreeSet::new();
    refusals.retain(|refusal| told.insert(refusal.clone()));
    refusals.truncate(MAX_REFUSALS);
    refusals
}
