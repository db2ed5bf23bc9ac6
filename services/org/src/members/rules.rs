//! Rules of members, their changes and links. Pure.

use contract::Subject;
use contract::fields::{Fields, FromBody, Patch, Text};
use contract::id::{CompanyId, MemberId};
use serde::Serialize;
use service::ApiError;

use super::email::{MAX_EMAIL, is_email};

/// Longest code, in characters.
const MAX_CODE: usize = 64;
/// Longest display name, in characters.
const MAX_NAME: usize = 200;

/// Fields of an [`OrgMember`] that audit rows hold as digests.
pub(crate) const NAMES: [&str; 3] = ["code", "displayName", "email"];

/// `OrgMember` of the specification.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct OrgMember {
    pub(crate) id: MemberId,
    pub(crate) company_id: CompanyId,
    pub(crate) code: String,
    pub(crate) display_name: String,
    pub(crate) email: Option<String>,
    pub(crate) user_id: Option<String>,
    pub(crate) is_active: bool,
}

/// `OrgMemberCreateRequest`.
#[derive(Clone, Debug)]
pub(crate) struct NewMember {
    pub(crate) company: CompanyId,
    pub(crate) code: String,
    pub(crate) display_name: String,
    pub(crate) email: Option<String>,
}

impl FromBody for NewMember {
    fn from_body(fields: &mut Fields<'_>) -> Option<Self> {
        let company = fields.uuid("companyId");
        let code = fields.text("code", Text::code(MAX_CODE));
        let display_name = fields.text("displayName", Text::title(MAX_NAME));
        let email = patch_email(fields);
        Some(Self { company: company?, code: code?, display_name: display_name?, email: email?.apply(None) })
    }
}

impl NewMember {
    /// The new member, active and not linked.
    pub(crate) fn member(self) -> OrgMember {
        OrgMember {
            id: MemberId::mint(),
            company_id: self.company,
            code: self.code,
            display_name: self.display_name,
            email: self.email,
            user_id: None,
            is_active: true,
        }
    }
}

/// `OrgMemberUpdateRequest`: absent fields stay unchanged; `email: null` removes the address.
#[derive(Clone, Debug)]
pub(crate) struct MemberChange {
    display_name: Option<String>,
    email: Patch<String>,
    is_active: Option<bool>,
}

impl FromBody for MemberChange {
    fn from_body(fields: &mut Fields<'_>) -> Option<Self> {
        let display_name = fields.optional_text("displayName", Text::title(MAX_NAME));
        let email = patch_email(fields);
        let is_active = fields.optional_bool("isActive");
        Some(Self { display_name: display_name?, email: email?, is_active: is_active? })
    }
}

impl MemberChange {
    /// Returns the member after the change.
    pub(crate) fn applied_to(self, before: &OrgMember) -> OrgMember {
        OrgMember {
            display_name: self.display_name.unwrap_or_else(|| before.display_name.clone()),
            email: self.email.apply(before.email.clone()),
            is_active: self.is_active.unwrap_or(before.is_active),
            ..before.clone()
        }
    }
}

fn patch_email(fields: &mut Fields<'_>) -> Option<Patch<String>> {
    let email = fields.patch_text("email", Text::line(MAX_EMAIL))?;
    match &email {
        Patch::Value(text) if !is_email(text) => fields.refuse("email", "email", "an e-mail address"),
        Patch::Absent | Patch::Null | Patch::Value(_) => Some(email),
    }
}

/// The request body of `link`.
#[derive(Clone, Debug)]
pub(crate) struct LinkRequest(pub(crate) Subject);

impl FromBody for LinkRequest {
    fn from_body(fields: &mut Fields<'_>) -> Option<Self> {
        fields.subject("kcSub").map(Self)
    }
}

/// Whether linking `subject` changes the member.
///
/// # Errors
/// 409 if the member is linked to another subject.
pub(crate) fn is_new_link(member: &OrgMember, subject: &Subject) -> Result<bool, ApiError> {
    match member.user_id.as_deref() {
        None => Ok(true),
        Some(linked) if linked == subject.as_str() => Ok(false),
        Some(_) => Err(ApiError::conflict("the member is linked to another user")),
    }
}

#[cfg(test)]
mod tests {
    use contract::fields::parse;
    use serde_json::json;

    use super::*;

    fn member() -> OrgMember {
        OrgMember {
            id: MemberId::mint(),
            company_id: CompanyId::mint(),
            code: "m".to_owned(),
            display_name: "Mia".to_owned(),
            email: Some("mia@example.org".to_owned()),
            user_id: Some("mia".to_owned()),
            is_active: true,
        }
    }

    #[test]
    fn a_change_touches_only_what_it_names() {
        let before = member();
        let change = |value| parse::<MemberChange>(&value).expect("a change").applied_to(&before);
        assert_eq!(change(json!({})), before);
        assert_eq!(change(json!({"displayName": null, "isActive": null})), before);
        assert_eq!(change(json!({"email": null})).email, None);
        assert!(!change(json!({"isActive": false})).is_active);
    }

    #[test]
    fn a_member_has_one_subject() {
        let subject = |text| Subject::parse(text).expect("a subject");
        assert!(matches!(is_new_link(&member(), &subject("mia")), Ok(false)));
        assert!(is_new_link(&member(), &subject("bob")).is_err());
        let unlinked = OrgMember { user_id: None, ..member() };
        assert!(matches!(is_new_link(&unlinked, &subject("bob")), Ok(true)));
    }
}
