//! Migrations as they are compiled in: their numbers, and for a module the fence.

use contract::fence::{self, File, Finding};
use sqlx::migrate::{Migration, Migrator};

use super::problem::Problem;

/// Numbered from 1 without a gap, so that no file was lost in a merge.
pub(super) fn numbers(name: &str, migrations: &Migrator) -> Vec<Problem> {
    let numbered = (1_i64..).zip(migrations.iter());
    let wrong = numbered.filter(|(expected, migration)| *expected != migration.version);
    wrong
        .map(|(expected, found)| {
            let message = format!("migration {} stands where {expected} should", found.version);
            Problem::new(format!("{name}/migrations"), "numbering", message)
        })
        .collect()
}

/// Whatever the fence refuses of the module `key`.
pub(crate) fn fence(key: &str, migrations: &Migrator) -> Vec<Finding> {
    let named: Vec<(String, &str)> =
        migrations.iter().map(|migration| (file_name(migration), migration.sql.as_str())).collect();
    let files: Vec<File<'_>> = named.iter().map(|(name, text)| File { name, text }).collect();
    fence::check(key, &files)
}

/// The name of the file it was made of: only its `_` were read as blanks.
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
    fn numbers_have_no_gap() {
        let mut migrations = migrator(&["", ""]);
        assert_eq!(numbers("demo", &migrations), []);
        migrations.migrations.to_mut().remove(0);
        let found = numbers("demo", &migrations);
        assert_eq!(
            found,
            [Problem::new("demo/migrations", "numbering", "migration 2 stands where 1 should")]
        );
    }
}
