//! Walks the inside of an allowed statement, at any depth: relations, queries, expressions, calls and types. Refuses
//! any kind of expression or table factor that is not listed here.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use sqlparser::ast::{
    BinaryOperator, CastKind, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, ObjectName,
    Query, Select, SetExpr, Statement, TableFactor, TypedString, Value, ValueWithSpan, Visit, Visitor,
};
use sqlparser::keywords::ALL_KEYWORDS;

use super::allowed::{FUNCTIONS, PGCRYPTO, SEQUENCE_FUNCTIONS};
use super::forms::plain;
use super::names::{Fence, built_in, fold, parts};
use super::{Refusal, Rule, types};

/// Everything that is refused inside the statement.
pub(super) fn check(fence: &Fence, statement: &Statement) -> Vec<Refusal> {
    let mut walk = Walk { fence, local: BTreeSet::new(), statements: 0, found: Vec::new() };
    // The walk never breaks off, so that it reports every problem.
    let ControlFlow::Continue(()) = statement.visit(&mut walk) else { return walk.found };
    walk.found
}

struct Walk<'a> {
    fence: &'a Fence,
    /// Names that the statement gives to its own queries (`WITH name AS …`).
    local: BTreeSet<String>,
    statements: usize,
    found: Vec<Refusal>,
}

impl Walk<'_> {
    fn tell(&mut self, result: Result<(), Refusal>) -> ControlFlow<()> {
        self.found.extend(result.err());
        ControlFlow::Continue(())
    }

    fn relation(&self, name: &ObjectName) -> Result<(), Refusal> {
        let is_local =
            parts(name).is_some_and(|parts| matches!(parts.as_slice(), [one] if self.local.contains(one)));
        if is_local { Ok(()) } else { self.fence.place(name).map(drop) }
    }
}

impl Visitor for Walk<'_> {
    type Break = ();

    fn pre_visit_statement(&mut self, _statement: &Statement) -> ControlFlow<()> {
        self.statements += 1;
        let nested = self.statements > 1;
        let refusal = || (Rule::Statement, "a query holds no INSERT, UPDATE or DELETE".to_owned());
        self.tell(if nested { Err(refusal()) } else { Ok(()) })
    }

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        for table in query.with.iter().flat_map(|with| &with.cte_tables) {
            let name = fold(&table.alias.name);
            // A quoted "only" would make `FROM ONLY pg_authid` look like a query of that name.
            if is_keyword(&name) {
                self.found.extend(plain(false, &format!("a query named {name}, an SQL keyword")).err());
            } else {
                self.local.insert(name);
            }
        }
        let foreign = query.for_clause.is_some()
            || query.settings.is_some()
            || query.format_clause.is_some()
            || !query.pipe_operators.is_empty();
        let bare = is_bare_table(&query.body);
        self.found.extend(plain(!foreign, "a query with clauses that PostgreSQL does not have").err());
        self.tell(plain(!bare, "TABLE name as a query (write SELECT)"))
    }

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<()> {
        self.tell(plain(select.into.is_none(), "SELECT … INTO"))
    }

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
        let result = match table_factor(factor) {
            Ok(Some(function)) => {
                let checked = call(self.fence, function, None);
                // The function is checked already; the walk would take its name for a table.
                self.local.extend(parts(function).and_then(|parts| parts.last().cloned()));
                checked
            }
            Ok(None) => Ok(()),
            Err(refusal) => Err(refusal),
        };
        self.tell(result)
    }

    fn pre_visit_relation(&mut self, relation: &ObjectName) -> ControlFlow<()> {
        let result = self.relation(relation);
        self.tell(result)
    }

    fn pre_visit_expr(&mut self, expression: &Expr) -> ControlFlow<()> {
        let result = check_expression(self.fence, expression);
        self.tell(result)
    }

    fn pre_visit_value(&mut self, value: &ValueWithSpan) -> ControlFlow<()> {
        let placeholder = matches!(value.value, Value::Placeholder(_));
        let refusal = || (Rule::NotUnderstood, format!("{value} is a placeholder without a value"));
        self.tell(if placeholder { Err(refusal()) } else { Ok(()) })
    }
}

fn is_keyword(name: &str) -> bool {
    ALL_KEYWORDS.contains(&name.to_ascii_uppercase().as_str())
}

fn is_bare_table(body: &SetExpr) -> bool {
    match body {
        SetExpr::Table(_) => true,
        SetExpr::SetOperation { left, right, .. } => is_bare_table(left) || is_bare_table(right),
        SetExpr::Select(_)
        | SetExpr::Query(_)
        | SetExpr::Values(_)
        | SetExpr::Insert(_)
        | SetExpr::Update(_)
        | SetExpr::Delete(_)
        | SetExpr::Merge(_) => false,
    }
}

/// The function that a table factor calls, if any.
#[expect(clippy::wildcard_enum_match_arm, reason = "anything not listed here is refused")]
fn table_factor(factor: &TableFactor) -> Result<Option<&ObjectName>, Refusal> {
    match factor {
        TableFactor::Table { name, args: Some(_), .. } | TableFactor::Function { name, .. } => Ok(Some(name)),
        TableFactor::Table { .. }
        | TableFactor::Derived { .. }
        | TableFactor::NestedJoin { .. }
        | TableFactor::UNNEST { .. } => Ok(None),
        other => plain(false, &format!("{other} as a table")).map(|()| None),
    }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "anything not listed here is refused")]
fn check_expression(fence: &Fence, expression: &Expr) -> Result<(), Refusal> {
    match expression {
        Expr::Function(function) => call(fence, &function.name, Some(function)),
        Expr::Cast { kind: CastKind::Cast | CastKind::DoubleColon, data_type, format: None, expr: _ }
        | Expr::TypedString(TypedString { data_type, value: _, uses_odbc_syntax: false }) => {
            types::check(fence, data_type)
        }
        Expr::Collate { expr: _, collation } => types::collation(collation),
        Expr::BinaryOp { op, .. } => operator(op),
        Expr::AnyOp { compare_op, .. } | Expr::AllOp { compare_op, .. } => operator(compare_op),
        other if is_harmless(other) => Ok(()),
        other => plain(false, &format!("the expression {other}")),
    }
}

fn operator(operator: &BinaryOperator) -> Result<(), Refusal> {
    let named = matches!(operator, BinaryOperator::PGCustomBinaryOperator(_) | BinaryOperator::Custom(_));
    let refusal =
        || (Rule::Operator, format!("{operator}: only operators of PostgreSQL's own, without OPERATOR(…)"));
    if named { Err(refusal()) } else { Ok(()) }
}

/// Expressions that only combine others.
fn is_harmless(expression: &Expr) -> bool {
    matches!(
        expression,
        Expr::Identifier(_)
            | Expr::CompoundIdentifier(_)
            | Expr::CompoundFieldAccess { .. }
            | Expr::IsFalse(_)
            | Expr::IsNotFalse(_)
            | Expr::IsTrue(_)
            | Expr::IsNotTrue(_)
            | Expr::IsNull(_)
            | Expr::IsNotNull(_)
            | Expr::IsUnknown(_)
            | Expr::IsNotUnknown(_)
            | Expr::IsDistinctFrom(..)
            | Expr::IsNotDistinctFrom(..)
            | Expr::InList { .. }
            | Expr::InSubquery { .. }
            | Expr::Between { .. }
            | Expr::Like { .. }
            | Expr::ILike { .. }
            | Expr::SimilarTo { .. }
            | Expr::UnaryOp { .. }
            | Expr::AtTimeZone { .. }
            | Expr::Extract { .. }
            | Expr::Ceil { .. }
            | Expr::Floor { .. }
            | Expr::Position { .. }
            | Expr::Substring { .. }
            | Expr::Trim { .. }
            | Expr::Overlay { .. }
            | Expr::Nested(_)
            | Expr::Value(_)
            | Expr::Case { .. }
            | Expr::Exists { .. }
            | Expr::Subquery(_)
            | Expr::GroupingSets(_)
            | Expr::Cube(_)
            | Expr::Rollup(_)
            | Expr::Tuple(_)
            | Expr::Array(_)
            | Expr::Interval(_)
            | Expr::Wildcard(_)
            | Expr::QualifiedWildcard(..)
    )
}

/// Checks a call: a safe function, one that takes a sequence of the module, or one of `pgcrypto` in the module's
/// schema.
fn call(fence: &Fence, name: &ObjectName, function: Option<&Function>) -> Result<(), Refusal> {
    let refused = |why: &str| Err((Rule::FunctionCall, format!("{name}: {why}")));
    let Some(found) = built_in(name) else { return own_call(fence, name) };
    if found == "set_config" {
        return Err((Rule::SearchPath, "set_config: settings may not be changed".to_owned()));
    }
    if SEQUENCE_FUNCTIONS.contains(&found.as_str()) {
        return match function.and_then(first_literal) {
            Some(sequence) => sequence_name(fence, sequence),
            None => refused("its sequence is a literal, as nextval('schema.name')"),
        };
    }
    if FUNCTIONS.contains(&found.as_str()) {
        return Ok(());
    }
    refused("not a function that a migration may call")
}

fn own_call(fence: &Fence, name: &ObjectName) -> Result<(), Refusal> {
    fence.own(name)?;
    let function = parts(name).and_then(|parts| parts.last().cloned()).unwrap_or_default();
    if PGCRYPTO.contains(&function.as_str()) {
        return Ok(());
    }
    Err((Rule::FunctionCall, format!("{name}: a module has no functions but those of pgcrypto")))
}

fn first_literal(function: &Function) -> Option<&str> {
    let FunctionArguments::List(list) = &function.args else { return None };
    let FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Value(value))) = list.args.first()? else {
        return None;
    };
    if let Value::SingleQuotedString(text) = &value.value { Some(text) } else { None }
}

fn sequence_name(fence: &Fence, text: &str) -> Result<(), Refusal> {
    let plain = |part: &str| {
        part.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
    };
    if !text.split('.').all(plain) {
        return Err((Rule::FunctionCall, format!("'{text}': a sequence as schema.name, in lower case")));
    }
    let parts: Vec<String> = text.split('.').map(ToOwned::to_owned).collect();
    fence.place_of(&parts).map(drop)
}
