//! The rules of the fence, each with a stable identifier. The neighbouring modules decide what violates them.

use std::fmt;

/// A rule that a migration can violate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// A name that is not `NNNN_description.sql`.
    FileName,
    /// A gap, or a number used twice.
    Numbering,
    /// Larger than allowed.
    Size,
    /// Text that is not a statement known to the parser.
    NotUnderstood,
    /// A statement outside the allowed set.
    Statement,
    /// Transaction control: each file is one transaction of the runner.
    Transaction,
    /// `CONCURRENTLY`, which cannot run in a transaction.
    Concurrently,
    /// A clause of an allowed statement that is not allowed.
    Clause,
    /// A relation, type or sequence without its schema.
    Unqualified,
    /// A name outside the module's schema, audit table and version table.
    OutsideFence,
    /// The audit table is append-only.
    AuditAppendOnly,
    /// An extension other than `pgcrypto`.
    Extension,
    /// `SECURITY DEFINER`.
    SecurityDefiner,
    /// A change of `search_path`.
    SearchPath,
    /// A change of owner.
    Ownership,
    /// A move to another schema.
    SchemaMove,
    /// `GRANT` or `REVOKE` of a role, or otherwise without `ON`.
    GrantWithoutOn,
    /// `WITH GRANT OPTION`.
    GrantOption,
    /// A grantee other than the module's own role.
    GrantRole,
    /// A privilege that may not be granted on the object.
    Privilege,
    /// A type that is neither PostgreSQL's own nor the module's.
    Type,
    /// A call of a function that is not known to be safe.
    FunctionCall,
    /// An operator named with a schema.
    Operator,
}

impl Rule {
    /// All rules.
    pub const ALL: [Self; 23] = [
        Self::FileName,
        Self::Numbering,
        Self::Size,
        Self::NotUnderstood,
        Self::Statement,
        Self::Transaction,
        Self::Concurrently,
        Self::Clause,
        Self::Unqualified,
        Self::OutsideFence,
        Self::AuditAppendOnly,
        Self::Extension,
        Self::SecurityDefiner,
        Self::SearchPath,
        Self::Ownership,
        Self::SchemaMove,
        Self::GrantWithoutOn,
        Self::GrantOption,
        Self::GrantRole,
        Self::Privilege,
        Self::Type,
        Self::FunctionCall,
        Self::Operator,
    ];

    /// The identifier in reports.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::FileName => "file_name",
            Self::Numbering => "numbering",
            Self::Size => "size",
            Self::NotUnderstood => "not_understood",
            Self::Statement => "statement",
            Self::Transaction => "transaction",
            Self::Concurrently => "concurrently",
            Self::Clause => "clause",
            Self::Unqualified => "unqualified",
            Self::OutsideFence => "outside_fence",
            Self::AuditAppendOnly => "audit_append_only",
            Self::Extension => "extension",
            Self::SecurityDefiner => "security_definer",
            Self::SearchPath => "search_path",
            Self::Ownership => "ownership",
            Self::SchemaMove => "schema_move",
            Self::GrantWithoutOn => "grant_without_on",
            Self::GrantOption => "grant_option",
            Self::GrantRole => "grant_role",
            Self::Privilege => "privilege",
            Self::Type => "type",
            Self::FunctionCall => "function_call",
            Self::Operator => "operator",
        }
    }

    /// Whether the rule refuses a statement as a whole.
    pub(super) const fn is_of_the_whole_statement(self) -> bool {
        matches!(self, Self::Statement | Self::Transaction | Self::SecurityDefiner | Self::SearchPath)
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
