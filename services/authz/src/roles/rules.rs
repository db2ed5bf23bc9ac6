//! Decides whether the platform role may be revoked. Pure.

use service::ApiError;

/// A current holder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Holder {
    pub(super) subject: String,
    /// Whether account and identity record are active: a disabled or suspended superadmin cannot act.
    pub(super) active: bool,
}

/// Refuses to revoke the role from a subject that does not hold it, from the last holder, and from the last who can
/// act.
pub(super) fn may_revoke(subject: &str, holders: &[Holder]) -> Result<(), ApiError> {
    let Some(own) = holders.iter().find(|holder| holder.subject == subject) else {
        return Err(ApiError::NotFound("holder of the platform role".into()));
    };
    let mut others = holders.iter().filter(|holder| holder.subject != subject);
    let enough = if own.active { others.any(|holder| holder.active) } else { others.next().is_some() };
    if enough { Ok(()) } else { Err(ApiError::conflict("the last superadmin cannot be removed")) }
}

#[cfg(test)]
mod tests {
    use http::StatusCode;

    use super::*;

    #[test]
    fn the_last_holder_and_the_last_who_can_act_stay() {
        let holders = |list: &[(&str, bool)]| -> Vec<Holder> {
            list.iter()
                .map(|(subject, active)| Holder { subject: (*subject).to_owned(), active: *active })
                .collect()
        };
        let status = |subject, list: &[(&str, bool)]| {
            may_revoke(subject, &holders(list)).map_err(|refused| refused.parts().status)
        };
        assert_eq!(status("a", &[("a", true), ("b", true)]), Ok(()));
        assert_eq!(status("a", &[("a", true)]), Err(StatusCode::CONFLICT));
        assert_eq!(status("a", &[("a", true), ("b", false)]), Err(StatusCode::CONFLICT));
        assert_eq!(status("b", &[("a", true), ("b", false)]), Ok(()));
        assert_eq!(status("b", &[("b", false)]), Err(StatusCode::CONFLICT));
        assert_eq!(status("c", &[("a", true)]), Err(StatusCode::NOT_FOUND));
    }
}
