//! Checks of the compiled-in migrations: numbering, checksums and, for a module, the fence.

use contract::fence::{self, File, Finding};
use ring::digest::{SHA256, digest};
use sqlx::migrate::{Migration, Migrator};

use super::{Problem, hex};

/// SHA-256 and path of every migration that shipped.
const CHECKSUMS: &str = include_str!("../../../migrations/CHECKSUMS");

/// Checks that every migration is listed in `migrations/CHECKSUMS` and unchanged since.
pub(crate) fn checksums(name: &str, migrations: &Migrator) -> Vec<Problem> {
    migrations.iter().filter_map(|migration| changed(name, migration, Listed::Must)).collect()
}

/// Checks before applying that every listed migration is unchanged. One that is not listed yet passes.
pub(crate) fn edited(name: &str, migrations: &Migrator) -> Vec<Problem> {
    migrations.iter().filter_map(|migration| changed(name, migration, Listed::May)).collect()
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Listed {
    Must,
    May,
}

fn changed(name: &str, migration: &Migration, listed: Listed) -> Option<Problem> {
    let file = file_name(migration);
    let paths = [format!("migrations/{name}/{file}"), format!("modules/{name}/migrations/{file}")];
    let of = |line: &'static str| {
        line.split_once("  ").filter(|(_, path)| paths.iter().any(|known| known == path))
    };
    let message = match CHECKSUMS.lines().find_map(of) {
        Some((hash, _)) if hash == sha256(migration.sql.as_str()) => return None,
        Some(_) => "a shipped migration was edited: restore it, and add a new one",
        None if listed == Listed::May => return None,
        None => "not listed in migrations/CHECKSUMS: see CONTRIBUTING.md",
    };
    Some(Problem::new(format!("{name}/migrations/{file}"), "checksum", message))
}

fn sha256(text: &str) -> String {
    hex(digest(&SHA256, text.as_bytes()).as_ref())
}

/// Checks that the migrations are numbered from 1 without a gap. A gap means that a merge lost a file.
pub(crate) fn numbers(name: &str, migrations: &Migrator) -> Vec<Problem> {
    let numbered = (1_i64..).zip(migrations.iter());
    let wrong = numbered.filter(|(expected, migration)| *expected != migration.version);
    wrong
        .map(|(expected, found)| {
            let message = format!("migration {} found where {expected} was expected", found.version);
            Problem::new(format!("{name}/migrations"), "numbering", message)
        })
        .collect()
}

/// Returns what the fence refuses in the migrations of the module `key`.
pub(crate) fn fence(key: &str, migrations: &Migrator) -> Vec<Finding> {
    let named: Vec<(String, &str)> =
        migrations.iter().map(|migration| (file_name(migration), migration.sql.as_str())).collect();
    let files: Vec<File<'_>> = named.iter().map(|(name, text)| File { name, text }).collect();
    fence::check(key, &files)
}

/// Restores the file's name: sqlx replaced each `_` of the description with a space.
fn file_name(migration: &Migration) -> String {
    format!("{:04}_{}.sql", migration.version, migration.description.replace(' ', "_"))
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use contract::fence::Rule;
    use sqlx::SqlStr;
    use sqlx::migrate::MigrationType;

    use super::*;

    fn migrator(texts: &[&'static str]) -> Migrator {
        let made = (1_i64..).zip(texts).map(|(version, text)| {
            let description = Cow::Borrowed("a description");
            Migration::new(version, description, MigrationType::Simple, SqlStr::from_static(text), false)
        });
        Migrator { migrations: made.collect(), ..Migrator::DEFAULT }
    }

    #[test]
    fn a_module_stays_inside_its_fence() {
        assert_eq!(fence("demo", &migrator(&["CREATE TABLE demo.a(id uuid);"])), []);
        let found = fence("demo", &migrator(&["CREATE TABLE demo.a(id uuid);", "DROP TABLE org.members;"]));
        let found: Vec<(&str, Rule)> =
            found.iter().map(|finding| (finding.file.as_str(), finding.rule)).collect();
        assert_eq!(found, [("0002_a_description.sql", Rule::OutsideFence)]);
    }

    #[test]
    fn a_shipped_migration_is_what_it_was_and_a_new_one_is_listed_before_it_ships() {
        assert_eq!(checksums("docs", &docs::MIGRATIONS), []);
        let mut edited_docs =
            Migrator { migrations: docs::MIGRATIONS.migrations.clone(), ..Migrator::DEFAULT };
        if let Some(first) = edited_docs.migrations.to_mut().first_mut() {
            first.sql = SqlStr::from_static("CREATE TABLE docs.other(id uuid);");
        }
        let rules = |found: Vec<Problem>| found.into_iter().map(|one| one.rule).collect::<Vec<_>>();
        assert_eq!(rules(edited("docs", &edited_docs)), ["checksum"]);
        assert_eq!(rules(checksums("docs", &edited_docs)), ["checksum"]);
        let new = migrator(&["CREATE TABLE demo.a(id uuid);"]);
        assert_eq!(
            (rules(edited("demo", &new)), rules(checksums("demo", &new))),
            (vec![], vec!["checksum".to_owned()])
        );
    }

    #[test]
    fn numbers_have_no_gap() {
        let mut migrations = migrator(&["", ""]);
        assert_eq!(numbers("demo", &migrations), []);
        migrations.migrations.to_mut().remove(0);
        let found = numbers("demo", &migrations);
        assert_eq!(
            found,
            [Problem::new("demo/migrations", "numbering", "migration 2 found where 1 was expected")]
        );
    }
}
