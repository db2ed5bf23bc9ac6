//! The clauses of statements on tables, indexes and views. A table is compared as a whole with a plain table of the
//! same columns: an unknown clause makes them differ.

use sqlparser::ast::helpers::stmt_create_table::CreateTableBuilder;
use sqlparser::ast::{
    AlterColumnOperation, AlterTable, AlterTableOperation, BinaryOperator, ColumnDef, ColumnOption,
    CreateIndex, CreateTable, CreateTableOptions, CreateView, ExcludeConstraintOperator, Expr,
    ForeignKeyConstraint, IndexColumn, IndexType, ObjectName, RenameTableNameKind, SqlOption,
    TableConstraint,
};

use super::allowed::{INDEX_METHODS, INDEX_OPTIONS, TABLE_OPTIONS};
use super::forms::{plain, plain_name, refusals};
use super::names::{Fence, Inside, append_only, built_in, fold};
use super::{Refusal, Rule, types};

/// `CREATE TABLE`; the walk checks its own name.
pub(super) fn create(fence: &Fence, table: &CreateTable) -> Vec<Refusal> {
    let as_plain = CreateTableBuilder::new(table.name.clone())
        .if_not_exists(table.if_not_exists)
        .columns(table.columns.clone())
        .constraints(table.constraints.clone())
        .hive_formats(table.hive_formats.clone())
        .build();
    let mut found = refusals([plain(
        as_plain == *table,
        "a table has columns and constraints, and no other clause (TEMPORARY, LIKE, AS, INHERITS, PARTITION, WITH, …)",
    )]);
    found.extend(table.columns.iter().flat_map(|def| column(fence, def)));
    found.extend(table.constraints.iter().flat_map(|one| constraint(fence, one)));
    found
}

/// `ALTER TABLE`; the walk checks its own name.
pub(super) fn alter(fence: &Fence, alter: &AlterTable) -> Vec<Refusal> {
    let AlterTable {
        name,
        if_exists: _,
        only: _,
        operations,
        location,
        on_cluster,
        table_type,
        end_token: _,
    } = alter;
    let foreign = location.is_some() || on_cluster.is_some() || table_type.is_some();
    let mut found = refusals([plain(!foreign, "ALTER TABLE with options")]);
    for operation in operations {
        let adds = matches!(operation, AlterTableOperation::AddColumn { .. });
        if !adds && fence.place(name) == Ok(Inside::Audit) {
            found.push(append_only(name));
        }
        found.extend(operation_of(fence, operation));
    }
    found
}

#[expect(clippy::wildcard_enum_match_arm, reason = "anything not listed here is refused")]
fn operation_of(fence: &Fence, operation: &AlterTableOperation) -> Vec<Refusal> {
    match operation {
        AlterTableOperation::AddColumn { column_def, column_position: None, .. } => column(fence, column_def),
        AlterTableOperation::AddConstraint { constraint: one, not_valid: _ } => constraint(fence, one),
        AlterTableOperation::AlterColumn { column_name: _, op } => refusals([alter_column(fence, op)]),
        AlterTableOperation::RenameTable { table_name } => {
            let (RenameTableNameKind::To(name) | RenameTableNameKind::As(name)) = table_name;
            refusals([plain_name(name)])
        }
        AlterTableOperation::DropColumn { .. }
        | AlterTableOperation::DropConstraint { .. }
        | AlterTableOperation::RenameColumn { .. }
        | AlterTableOperation::RenameConstraint { .. }
        | AlterTableOperation::ValidateConstraint { .. } => Vec::new(),
        AlterTableOperation::SetOptionsParens { options } => refusals([plain(
            options.iter().all(is_table_option),
            "table options other than how rows are stored",
        )]),
        AlterTableOperation::OwnerTo { .. } => {
            vec![(Rule::Ownership, "owners may not be changed".to_owned())]
        }
        other => refusals([plain(false, &format!("ALTER TABLE … {other}"))]),
    }
}

fn alter_column(fence: &Fence, operation: &AlterColumnOperation) -> Result<(), Refusal> {
    match operation {
        AlterColumnOperation::SetDataType { data_type, using: _, had_set: _ } => {
            types::check(fence, data_type)
        }
        // The walk checks the expressions inside.
        AlterColumnOperation::SetNotNull
        | AlterColumnOperation::DropNotNull
        | AlterColumnOperation::SetDefault { .. }
        | AlterColumnOperation::DropDefault
        | AlterColumnOperation::AddGenerated { .. } => Ok(()),
    }
}

fn column(fence: &Fence, column: &ColumnDef) -> Vec<Refusal> {
    let mut found = refusals([types::check(fence, &column.data_type)]);
    for definition in &column.options {
        found.extend(column_option(fence, &definition.option).err());
    }
    found
}

#[expect(clippy::wildcard_enum_match_arm, reason = "anything not listed here is refused")]
fn column_option(fence: &Fence, option: &ColumnOption) -> Result<(), Refusal> {
    match option {
        ColumnOption::Null
        | ColumnOption::NotNull
        | ColumnOption::Default(_)
        | ColumnOption::PrimaryKey(_)
        | ColumnOption::Unique(_)
        | ColumnOption::Check(_)
        | ColumnOption::Generated { .. } => Ok(()),
        ColumnOption::ForeignKey(key) => foreign_key(fence, key),
        ColumnOption::Collation(name) => types::collation(name),
        other => plain(false, &format!("column option {other}")),
    }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "anything not listed here is refused")]
fn constraint(fence: &Fence, constraint: &TableConstraint) -> Vec<Refusal> {
    match constraint {
        TableConstraint::Unique(_) | TableConstraint::PrimaryKey(_) | TableConstraint::Check(_) => Vec::new(),
        TableConstraint::ForeignKey(key) => refusals([foreign_key(fence, key)]),
        TableConstraint::Exclude(exclude) => {
            let method = exclude.index_method.as_ref().map(fold);
            let mut found = refusals([known_method(method.as_deref())]);
            for element in &exclude.elements {
                found.extend(index_column(&element.column).err());
                if matches!(element.operator, ExcludeConstraintOperator::PGOperator(_)) {
                    found.push((Rule::Operator, "an operator is written without OPERATOR(…)".to_owned()));
                }
            }
            found
        }
        other => refusals([plain(false, &format!("constraint {other}"))]),
    }
}

fn foreign_key(fence: &Fence, key: &ForeignKeyConstraint) -> Result<(), Refusal> {
    fence.place(&key.foreign_table).map(drop)
}

/// `CREATE INDEX`; the walk checks its table.
pub(super) fn create_index(_fence: &Fence, index: &CreateIndex) -> Vec<Refusal> {
    let CreateIndex {
        name,
        table_name: _,
        using,
        columns,
        unique: _,
        concurrently,
        r#async,
        if_not_exists: _,
        include: _,
        nulls_distinct: _,
        with,
        predicate: _,
        index_options,
        alter_options,
    } = index;
    let mut found = Vec::new();
    if *concurrently {
        found.push((Rule::Concurrently, "CONCURRENTLY does not run in a transaction".to_owned()));
    }
    let options =
        with.iter().all(is_index_option) && index_options.is_empty() && alter_options.is_empty() && !r#async;
    found.extend(plain(options, "index options").err());
    found.extend(name.as_ref().and_then(|name| plain_name(name).err()));
    found.extend(known_method(method_of(using.as_ref()).as_deref()).err());
    found.extend(columns.iter().filter_map(|column| index_column(column).err()));
    found
}

/// `toast_tuple_target = 4080` and the like.
fn is_table_option(option: &SqlOption) -> bool {
    let SqlOption::KeyValue { key, value: Expr::Value(_) } = option else { return false };
    TABLE_OPTIONS.contains(&key.value.to_ascii_lowercase().as_str())
}

/// `fastupdate = off` and the like.
fn is_index_option(option: &Expr) -> bool {
    let Expr::BinaryOp { left, op: BinaryOperator::Eq, right } = option else { return false };
    let Expr::Identifier(name) = left.as_ref() else { return false };
    let is_plain = matches!(right.as_ref(), Expr::Identifier(_) | Expr::Value(_));
    is_plain && INDEX_OPTIONS.contains(&name.value.to_ascii_lowercase().as_str())
}

fn method_of(using: Option<&IndexType>) -> Option<String> {
    using.map(|method| match method {
        IndexType::Custom(name) => fold(name),
        IndexType::BTree
        | IndexType::Hash
        | IndexType::GIN
        | IndexType::GiST
        | IndexType::SPGiST
        | IndexType::BRIN
        | IndexType::Bloom => method.to_string().to_ascii_lowercase(),
    })
}

fn known_method(name: Option<&str>) -> Result<(), Refusal> {
    plain(
        name.is_none_or(|name| INDEX_METHODS.contains(&name)),
        "an index method that PostgreSQL does not bring",
    )
}

fn index_column(column: &IndexColumn) -> Result<(), Refusal> {
    column.operator_class.as_ref().map_or(Ok(()), operator_class)
}

fn operator_class(name: &ObjectName) -> Result<(), Refusal> {
    let ours = built_in(name).is_some();
    let refused = || (Rule::OutsideFence, format!("{name}: an operator class of PostgreSQL's own"));
    if ours { Ok(()) } else { Err(refused()) }
}

/// `CREATE VIEW`; the walk checks its name and its query.
pub(super) fn create_view(fence: &Fence, view: &CreateView) -> Vec<Refusal> {
    let CreateView {
        or_alter,
        or_replace: _,
        materialized,
        secure,
        name,
        name_before_not_exists,
        columns: _,
        query: _,
        options,
        cluster_by,
        comment,
        with_no_schema_binding,
        if_not_exists,
        temporary,
        copy_grants,
        to,
        params,
    } = view;
    let flags =
        [or_alter, materialized, secure, name_before_not_exists, with_no_schema_binding, if_not_exists];
    let other = flags.into_iter().chain([temporary, copy_grants]).any(|flag| *flag);
    let options = matches!(options, CreateTableOptions::None) && cluster_by.is_empty() && comment.is_none();
    let mut found = refusals([
        plain(!other, "a view is CREATE [OR REPLACE] VIEW, neither temporary nor materialized"),
        plain(options && to.is_none() && params.is_none(), "view options"),
    ]);
    // The audit table is not a view, and no view may replace it.
    if fence.place(name) == Ok(Inside::Audit) {
        found.push(append_only(name));
    }
    found
}
