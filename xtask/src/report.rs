//! Sizes as they are: files, functions and comments, group by group, without the tests.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Context;
use syn::visit::{self, Visit};

/// A function of more lines is worth a look; Clippy refuses one of more than 70 lines of code.
const LONG_FUNCTION: usize = 60;

/// Prints a table: one line a group.
///
/// # Errors
/// A file that is no Rust.
pub(crate) fn print(root: &Path) -> anyhow::Result<()> {
    let mut groups: BTreeMap<String, Group> = BTreeMap::new();
    for path in crate::rust_files(root)?.iter().filter(|path| path.contains("/src/")) {
        let text = std::fs::read_to_string(root.join(path))?;
        let parsed = syn::parse_file(&text).with_context(|| path.clone())?;
        groups.entry(group_of(path)).or_default().add(&text, &parsed);
    }
    crate::say(
        "| group | files | lines: median, p90, longest | functions | lines: median, p90, longest | over 60 | comments |",
    );
    crate::say("|---|---|---|---|---|---|---|");
    for (name, group) in &mut groups {
        crate::say(&group.row(name));
    }
    Ok(())
}

/// `services/org/src/…` is `services/org`, `edge/src/…` is `edge`.
fn group_of(path: &str) -> String {
    path.split("/src/").next().unwrap_or(path).to_owned()
}

#[derive(Default)]
struct Group {
    files: Vec<usize>,
    functions: Vec<usize>,
    comments: usize,
}

impl Group {
    fn add(&mut self, text: &str, parsed: &syn::File) {
        let lines = crate::tidy::code_lines(text);
        let comments = text.lines().take(lines).filter(|line| line.trim_start().starts_with("//"));
        self.comments += comments.count();
        self.files.push(lines);
        let mut functions = Functions { end: lines, lengths: &mut self.functions };
        functions.visit_file(parsed);
    }

    fn row(&mut self, name: &str) -> String {
        let lines: usize = self.files.iter().sum();
        let long = self.functions.iter().filter(|lines| **lines > LONG_FUNCTION).count();
        format!(
            "| {name} | {} | {} | {} | {} | {} % | {} % |",
            self.files.len(),
            spread(&mut self.files),
            self.functions.len(),
            spread(&mut self.functions),
            percent(long, self.functions.len()),
            percent(self.comments, lines),
        )
    }
}

/// Median, 90th percentile and largest.
fn spread(sizes: &mut [usize]) -> String {
    sizes.sort_unstable();
    let at =
        |share: usize| sizes.get((sizes.len() * share / 100).min(sizes.len().saturating_sub(1))).copied();
    let [median, p90, longest] = [50, 90, 100].map(|share| at(share).unwrap_or_default());
    format!("{median}, {p90}, {longest}")
}

/// With one decimal place.
fn percent(part: usize, whole: usize) -> String {
    let tenths = part * 1_000 / whole.max(1);
    format!("{}.{}", tenths / 10, tenths % 10)
}

/// Collects the lengths of functions, from the line of `fn` to the closing brace.
struct Functions<'a> {
    /// The last line before the unit tests.
    end: usize,
    lengths: &'a mut Vec<usize>,
}

impl Functions<'_> {
    fn add(&mut self, signature: &syn::Signature, block: &syn::Block) {
        let (first, last) = (signature.fn_token.span.start().line, block.brace_token.span.close().end().line);
        if last <= self.end {
            self.lengths.push(last - first + 1);
        }
    }
}

impl Visit<'_> for Functions<'_> {
    fn visit_item_fn(&mut self, item: &syn::ItemFn) {
        self.add(&item.sig, &item.block);
        visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &syn::ImplItemFn) {
        self.add(&item.sig, &item.block);
        visit::visit_impl_item_fn(self, item);
    }
}
