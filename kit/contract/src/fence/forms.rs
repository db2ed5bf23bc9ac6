//! Classifies statements. Those in the allowed set proceed to the check of their clauses; any other is refused by the
//! most informative rule.

use sqlparser::ast::{
    AlterIndexOperation, AlterType, CommentObject, CreateExtension, Delete, FromTable, Ident, Insert,
    ObjectName, ObjectType, Statement, TableFactor, TableObject, TableWithJoins, Update,
    UserDefinedTypeRepresentation,
};

use super::names::{Fence, Inside, append_only, fold, parts};
use super::split::Piece;
use super::{Refusal, Rule, grants, tables, types};

/// Kinds of objects in the allowed set.
const KINDS: [&str; 5] = ["TABLE", "INDEX", "SEQUENCE", "VIEW", "TYPE"];
/// Statements that control transactions.
const TRANSACTION: [&str; 9] =
    ["BEGIN", "START", "COMMIT", "END", "ROLLBACK", "ABORT", "SAVEPOINT", "RELEASE", "PREPARE"];

/// What the statement itself and its names violate.
#[expect(clippy::wildcard_enum_match_arm, reason = "anything outside the allowed set is refused")]
pub(super) fn check(fence: &Fence, statement: &Statement, piece: &Piece) -> Vec<Refusal> {
    match statement {
        Statement::CreateTable(table) => tables::create(fence, table),
        Statement::AlterTable(alter) => tables::alter(fence, alter),
        Statement::CreateIndex(index) => tables::create_index(fence, index),
        Statement::AlterIndex { name, operation } => {
            let AlterIndexOperation::RenameIndex { index_name } = operation;
            refusals([fence.own(name), plain_name(index_name)])
        }
        Statement::CreateView(view) => tables::create_view(fence, view),
        Statement::AlterView { name, columns: _, query: _, with_options } => {
            refusals([fence.own(name), plain(with_options.is_empty(), "view options")])
        }
        Statement::CreateSequence { .. } => create_sequence(fence, statement),
        Statement::CreateType { name, representation } => create_type(fence, name, representation.as_ref()),
        Statement::AlterType(AlterType { name, operation: _ }) => refusals([fence.own(name)]),
        Statement::Drop { .. } => drop_objects(fence, statement),
        Statement::Comment { object_type, object_name, comment: _, if_exists: _ } => {
            refusals([comment(fence, *object_type, object_name)])
        }
        Statement::Insert(insert) => refusals([insert_into(insert)]),
        Statement::Update(update) => refusals([change(fence, &update.table), update_clauses(update)]),
        Statement::Delete(delete) => delete_from(fence, delete),
        Statement::Grant(grant) => grants::grant(fence, grant),
        Statement::Revoke(revoke) => grants::revoke(fence, revoke),
        Statement::CreateExtension(extension) => create_extension(fence, extension),
        _ => vec![not_allowed(piece)],
    }
}

/// The failed checks.
pub(super) fn refusals(checks: impl IntoIterator<Item = Result<(), Refusal>>) -> Vec<Refusal> {
    checks.into_iter().filter_map(Result::err).collect()
}

/// Refuses a clause unless `is`.
pub(super) fn plain(is: bool, clause: &str) -> Result<(), Refusal> {
    if is { Ok(()) } else { Err((Rule::Clause, format!("{clause}: not a clause that a migration may use"))) }
}

/// A new name, which PostgreSQL takes without a schema.
pub(super) fn plain_name(name: &ObjectName) -> Result<(), Refusal> {
    if parts(name).is_some_and(|parts| parts.len() == 1) {
        return Ok(());
    }
    Err((Rule::OutsideFence, format!("{name}: a new name has no schema, it stays where it is")))
}

/// The rule that a refused statement most likely violates, judged by its words; `None` when only its form is wrong.
pub(super) fn telling(words: &[String]) -> Option<Refusal> {
    let has = |word: &str| words.iter().any(|found| found == word);
    let pair = |first: &str, second: &str| words.windows(2).any(|two| two == [first, second]);
    let first = words.first().map_or("", String::as_str);
    let refusal = |rule, message: &str| Some((rule, message.to_owned()));
    if pair("SECURITY", "DEFINER") {
        return refusal(Rule::SecurityDefiner, "SECURITY DEFINER is not allowed");
    }
    if has("SEARCH_PATH") {
        return refusal(Rule::SearchPath, "the search path may not be changed");
    }
    if TRANSACTION.contains(&first) {
        return refusal(Rule::Transaction, "a migration runs in one transaction and does not steer it");
    }
    if has("CONCURRENTLY") {
        return refusal(Rule::Concurrently, "CONCURRENTLY does not run in a transaction");
    }
    if pair("OWNER", "TO") || first == "REASSIGN" {
        return refusal(Rule::Ownership, "owners may not be changed");
    }
    if pair("SET", "SCHEMA") {
        return refusal(Rule::SchemaMove, "objects may not be moved to another schema");
    }
    // An unsupported form of the allowed `CREATE EXTENSION` is merely not understood.
    if words.get(1).is_some_and(|word| word == "EXTENSION") && !(first == "CREATE" && has("PGCRYPTO")) {
        return refusal(Rule::Extension, "extensions: only CREATE EXTENSION pgcrypto");
    }
    if matches!(first, "GRANT" | "REVOKE") && !has("ON") {
        return refusal(Rule::GrantWithoutOn, "a grant needs an ON clause: roles are not granted");
    }
    let allowed = is_of_the_set(words);
    let message = || format!("{first}: not a statement of the allowed set ({})", allowed_set());
    (!allowed).then(|| (Rule::Statement, message()))
}

fn not_allowed(piece: &Piece) -> Refusal {
    let words = piece.words();
    telling(&words).unwrap_or_else(|| {
        let begin = words.iter().take(2).map(String::as_str).collect::<Vec<_>>().join(" ");
        (Rule::Statement, format!("{begin}: not a statement of the allowed set ({})", allowed_set()))
    })
}

fn allowed_set() -> String {
    format!(
        "CREATE, ALTER, DROP of {}; COMMENT; INSERT, UPDATE, DELETE; GRANT and REVOKE … ON; CREATE EXTENSION pgcrypto",
        KINDS.join(", ")
    )
}

fn is_of_the_set(words: &[String]) -> bool {
    let mut words = words.iter().map(String::as_str);
    match words.next() {
        Some("COMMENT" | "INSERT" | "UPDATE" | "DELETE" | "GRANT" | "REVOKE") => true,
        Some("CREATE" | "ALTER" | "DROP") => {
            if words.clone().next() == Some("EXTENSION") {
                return true;
            }
            let fillers = ["OR", "REPLACE", "UNIQUE", "TEMP", "TEMPORARY", "UNLOGGED", "GLOBAL", "LOCAL"];
            words.find(|word| !fillers.contains(word)).is_some_and(|kind| KINDS.contains(&kind))
        }
        _ => false,
    }
}

fn create_sequence(fence: &Fence, statement: &Statement) -> Vec<Refusal> {
    let Statement::CreateSequence {
        temporary,
        if_not_exists: _,
        name,
        data_type,
        sequence_options: _,
        owned_by,
    } = statement
    else {
        return Vec::new();
    };
    let mut found = refusals([fence.own(name), plain(!temporary, "TEMPORARY")]);
    found.extend(data_type.as_ref().and_then(|data_type| types::check(fence, data_type).err()));
    found.extend(owned_by.as_ref().and_then(|column| column_of(fence, column).err()));
    found
}

/// `schema.table.column`, or the word `NONE`.
fn column_of(fence: &Fence, name: &ObjectName) -> Result<(), Refusal> {
    let parts = parts(name).unwrap_or_default();
    match parts.split_last() {
        Some((none, [])) if none.eq_ignore_ascii_case("none") => Ok(()),
        Some((_, table)) => fence.place_of(table).map(drop),
        None => fence.own(name),
    }
}

fn create_type(
    fence: &Fence,
    name: &ObjectName,
    representation: Option<&UserDefinedTypeRepresentation>,
) -> Vec<Refusal> {
    let mut found = refusals([fence.own(name)]);
    match representation {
        Some(UserDefinedTypeRepresentation::Enum { labels: _ }) => {}
        Some(UserDefinedTypeRepresentation::Composite { attributes }) => {
            for attribute in attributes {
                found.extend(types::check(fence, &attribute.data_type).err());
                found.extend(attribute.collation.as_ref().and_then(|name| types::collation(name).err()));
            }
        }
        // These call functions of their own.
        Some(
            UserDefinedTypeRepresentation::Range { .. } | UserDefinedTypeRepresentation::SqlDefinition { .. },
        )
        | None => {
            let message = "a type is AS ENUM (…) or AS (…)".to_owned();
            found.push((Rule::Clause, message));
        }
    }
    found
}

fn drop_objects(fence: &Fence, statement: &Statement) -> Vec<Refusal> {
    let Statement::Drop {
        object_type,
        if_exists: _,
        names,
        cascade: _,
        restrict: _,
        purge,
        temporary,
        table,
    } = statement
    else {
        return Vec::new();
    };
    let allowed = matches!(
        object_type,
        ObjectType::Table | ObjectType::View | ObjectType::Index | ObjectType::Sequence | ObjectType::Type
    );
    if !allowed {
        let message = format!("DROP {object_type}: not a statement of the allowed set ({})", allowed_set());
        return vec![(Rule::Statement, message)];
    }
    let mut found = refusals([plain(!purge && !temporary && table.is_none(), "DROP with options")]);
    found.extend(refusals(names.iter().map(|name| fence.own(name))));
    found
}

fn comment(fence: &Fence, kind: CommentObject, name: &ObjectName) -> Result<(), Refusal> {
    match kind {
        CommentObject::Column => column_of(fence, name),
        CommentObject::Table
        | CommentObject::Index
        | CommentObject::Sequence
        | CommentObject::Type
        | CommentObject::View => fence.place(name).map(drop),
        CommentObject::Collation
        | CommentObject::Database
        | CommentObject::Domain
        | CommentObject::Extension
        | CommentObject::Function
        | CommentObject::MaterializedView
        | CommentObject::Procedure
        | CommentObject::Role
        | CommentObject::Schema
        | CommentObject::User => Err((Rule::Statement, format!("COMMENT ON {kind}: not of the allowed set"))),
    }
}

fn insert_into(insert: &Insert) -> Result<(), Refusal> {
    let table = matches!(insert.table, TableObject::TableName(_));
    let other = insert.overwrite
        || insert.ignore
        || insert.replace_into
        || insert.or.is_some()
        || insert.partitioned.is_some()
        || insert.multi_table_insert_type.is_some()
        || insert.output.is_some()
        || insert.format_clause.is_some();
    plain(table && !other, "INSERT other than INSERT INTO table")
}

fn update_clauses(update: &Update) -> Result<(), Refusal> {
    let other = update.output.is_some() || update.or.is_some() || update.limit.is_some();
    plain(!other && update.order_by.is_empty(), "UPDATE with other clauses than FROM and WHERE")
}

fn delete_from(fence: &Fence, delete: &Delete) -> Vec<Refusal> {
    let (FromTable::WithFromKeyword(from) | FromTable::WithoutKeyword(from)) = &delete.from;
    let other = !delete.tables.is_empty() || delete.output.is_some() || delete.limit.is_some();
    let mut found =
        refusals([plain(!other && delete.order_by.is_empty(), "DELETE other than DELETE FROM table")]);
    found.extend(refusals(from.iter().map(|table| change(fence, table))));
    found
}

/// The target of an `UPDATE` or `DELETE`. The walk checks that it is inside the fence.
fn change(fence: &Fence, target: &TableWithJoins) -> Result<(), Refusal> {
    let TableFactor::Table { name, .. } = &target.relation else {
        return plain(false, "a target that is no table");
    };
    match fence.place(name) {
        Ok(Inside::Audit) => Err(append_only(name)),
        Ok(Inside::Schema) | Err(_) => plain(target.joins.is_empty(), "a join as the target"),
    }
}

fn create_extension(fence: &Fence, extension: &CreateExtension) -> Vec<Refusal> {
    let CreateExtension { name, if_not_exists: _, cascade, schema, version } = extension;
    let known = fold(name) == "pgcrypto";
    let refused = || (Rule::Extension, format!("{name}: the one extension that is allowed is pgcrypto"));
    let mut found = Vec::new();
    found.extend((!known).then(refused));
    found.extend(plain(!cascade && version.is_none(), "CASCADE or VERSION").err());
    found.extend(schema.as_ref().and_then(|schema| own_schema(fence, schema).err()));
    found
}

fn own_schema(fence: &Fence, schema: &Ident) -> Result<(), Refusal> {
    if fold(schema) == fence.key {
        return Ok(());
    }
    Err((Rule::OutsideFence, format!("{schema} is not the module's schema")))
}
