//! Typed ids: the likeliest authorization bug here is swapping a member id for a company id, so it must not compile.

use std::fmt;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// Declares an id type over a UUID.
#[macro_export]
macro_rules! typed_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, ::serde::Serialize, ::serde::Deserialize)]
        #[serde(transparent)]
        pub struct $name(::uuid::Uuid);

        impl $name {
            /// A new `UUIDv7`: the ids of one table sort by creation time.
            #[must_use]
            pub fn mint() -> Self {
                Self(::uuid::Uuid::now_v7())
            }

            /// The bare UUID, for SQL.
            #[must_use]
            pub const fn as_uuid(self) -> ::uuid::Uuid {
                self.0
            }
        }

        impl ::std::convert::From<::uuid::Uuid> for $name {
            fn from(uuid: ::uuid::Uuid) -> Self {
                Self(uuid)
            }
        }

        impl ::std::fmt::Display for $name {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

typed_id!(
    /// A company: a unit of type `company`, root of its tree.
    CompanyId
);
typed_id!(
    /// Any unit of the organization, companies included.
    UnitId
);
typed_id!(
    /// A member of one company.
    MemberId
);
typed_id!(
    /// A position of one company.
    PositionId
);
typed_id!(
    /// A member's term in a position.
    AssignmentId
);
typed_id!(
    /// A group of one company.
    GroupId
);

/// Parses a UUID in its canonical hyphenated form only (any case): refuses `{…}`, `urn:uuid:` and bare hex, so that an
/// id has one spelling in paths, logs and audit rows.
#[must_use]
pub fn parse_uuid(text: &str) -> Option<Uuid> {
    let canonical = text.len() == 36 && text.as_bytes().get(8) == Some(&b'-');
    if canonical { Uuid::try_parse(text).ok() } else { None }
}

/// `kcSub`: the `sub` claim of an identity-provider token, 1..=255 characters without control characters.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Subject(String);

impl Subject {
    /// Longest subject that is stored, in characters.
    pub const MAX_LENGTH: usize = 255;

    /// Parses a subject; `None` if the text is not valid.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let length = text.chars().count();
        let fits = (1..=Self::MAX_LENGTH).contains(&length) && !text.chars().any(char::is_control);
        fits.then(|| Self(text.to_owned()))
    }

    /// The subject as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for Subject {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        Self::parse(&text).ok_or("a subject is 1 to 255 characters without control characters")
    }
}

impl From<Subject> for String {
    fn from(subject: Subject) -> Self {
        subject.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_hyphenated_form_is_an_id() {
        let id = "01890a5d-ac96-774b-bcce-b302099a8057";
        assert!(parse_uuid(id).is_some());
        assert!(parse_uuid(&id.to_uppercase()).is_some());
        for bad in ["", "x", "01890a5dac96774bbcceb302099a8057", "{01890a5d-ac96-774b-bcce-b302099a8057}"] {
            assert!(parse_uuid(bad).is_none(), "{bad}");
        }
    }

    #[test]
    fn a_subject_has_a_limit() {
        assert!(Subject::parse(&"ä".repeat(255)).is_some());
        assert!(Subject::parse(&"a".repeat(256)).is_none());
        assert!(Subject::parse("").is_none());
        assert!(Subject::parse("a\0b").is_none());
    }
}
