//! Types and collations: PostgreSQL's own, or a type of the module's schema.

use sqlparser::ast::{ArrayElemTypeDef, DataType, ObjectName};

use super::allowed::{COLLATIONS, TYPES};
use super::names::{Fence, built_in};
use super::{Refusal, Rule};

/// Checks a type in a column, a cast or an attribute.
pub(super) fn check(fence: &Fence, data_type: &DataType) -> Result<(), Refusal> {
    if let DataType::Custom(name, _) = data_type {
        return custom(fence, name);
    }
    if let DataType::Array(ArrayElemTypeDef::SquareBracket(element, _)) = data_type {
        return check(fence, element);
    }
    if is_built_in(data_type) { Ok(()) } else { Err(refused(data_type)) }
}

/// Checks a collation by its name.
pub(super) fn collation(name: &ObjectName) -> Result<(), Refusal> {
    match built_in(name) {
        Some(found) if COLLATIONS.contains(&found.as_str()) => Ok(()),
        _ => Err((Rule::Type, format!("{name} is not a collation that a migration may use"))),
    }
}

fn custom(fence: &Fence, name: &ObjectName) -> Result<(), Refusal> {
    match built_in(name) {
        Some(found) if TYPES.contains(&found.as_str()) => Ok(()),
        Some(_) => Err(refused(name)),
        None => fence.own(name),
    }
}

fn refused(name: impl std::fmt::Display) -> Refusal {
    (
        Rule::Type,
        format!("{name} is not a type that a migration may use: a plain built-in one, or the module's own"),
    )
}

fn is_built_in(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::Character(_)
            | DataType::Char(_)
            | DataType::CharacterVarying(_)
            | DataType::CharVarying(_)
            | DataType::Varchar(_)
            | DataType::Uuid
            | DataType::Numeric(_)
            | DataType::Decimal(_)
            | DataType::Dec(_)
            | DataType::Float(_)
            | DataType::Int2(_)
            | DataType::SmallInt(_)
            | DataType::Int(_)
            | DataType::Int4(_)
            | DataType::Int8(_)
            | DataType::Integer(_)
            | DataType::BigInt(_)
            | DataType::Float4
            | DataType::Real
            | DataType::Float8
            | DataType::DoublePrecision
            | DataType::Bool
            | DataType::Boolean
            | DataType::Date
            | DataType::Time(..)
            | DataType::Timestamp(..)
            | DataType::Interval { .. }
            | DataType::JSON
            | DataType::JSONB
            | DataType::Text
            | DataType::Bytea
            | DataType::Bit(_)
            | DataType::BitVarying(_)
            | DataType::VarBit(_)
            | DataType::GeometricType(_)
            | DataType::TsVector
            | DataType::TsQuery
    )
}
