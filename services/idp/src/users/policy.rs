//! The policy for new passwords. Pure. The crate `zxcvbn` rates the strength: it knows common passwords, words, names,
//! dates and keyboard patterns, and gets the user's own names.

use zeroize::Zeroizing;
use zxcvbn::{Score, zxcvbn};

use super::rules::User;
use crate::config::MAX_PASSWORD_BYTES;
use crate::pages::texts::Texts;

/// NIST SP 800-63B asks for eight, but even eight random ones do not reach [`MIN_SCORE`].
const MIN_CHARACTERS: usize = 10;
/// "Safely unguessable: moderate protection from offline slow-hash scenario."
const MIN_SCORE: Score = Score::Three;

/// Characters that are rated. The time of `zxcvbn` rises steeply with their number, to seconds for a few hundred with
/// many substitutions. A password with a strong beginning is strong.
const MAX_LOOKED_AT: usize = 64;

/// Why a new password is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unfit {
    /// The current password is a different one.
    NotPresent,
    Different,
    Short,
    Long,
    Weak,
    Same,
}

impl Unfit {
    /// The page's message.
    pub(crate) const fn message(self, texts: &Texts) -> &'static str {
        match self {
            Self::NotPresent => texts.wrong_password,
            Self::Different => texts.passwords_differ,
            Self::Short => texts.password_short,
            Self::Long => texts.password_long,
            Self::Weak => texts.password_weak,
            Self::Same => texts.password_same,
        }
    }
}

/// Checks a new password of the user.
pub(crate) fn check(password: &str, user: &User) -> Result<(), Unfit> {
    if password.len() > MAX_PASSWORD_BYTES {
        return Err(Unfit::Long);
    }
    if password.chars().count() < MIN_CHARACTERS {
        return Err(Unfit::Short);
    }
    let names =
        [Some(&user.username), user.email.as_ref(), user.first_name.as_ref(), user.last_name.as_ref()];
    let mut own: Vec<&str> = names.into_iter().flatten().map(String::as_str).collect();
    own.push("platform");
    let looked_at = Zeroizing::new(password.chars().take(MAX_LOOKED_AT).collect::<String>());
    if zxcvbn(&looked_at, &own).score() < MIN_SCORE { Err(Unfit::Weak) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use time::OffsetDateTime;
    use uuid::Uuid;

    use super::*;

    #[test]
    fn a_password_is_neither_short_nor_long_nor_easy_to_guess() {
        let user = User {
            id: Uuid::nil(),
            username: "rosalind".to_owned(),
            enabled: true,
            email: Some("rosalind@example.test".to_owned()),
            first_name: None,
            last_name: Some("Featherstonehaugh".to_owned()),
            service_client: None,
            created_at: OffsetDateTime::UNIX_EPOCH,
            must_change_password: false,
            has_totp: false,
            has_passkey: false,
        };
        let longest = "kq7Zr!".repeat(43);
        for (password, expect) in [
            ("tV9#mq2xK", Err(Unfit::Short)),
            ("tV9#mq2xKd", Ok(())),
            (&longest[..256], Ok(())),
            (&longest[..257], Err(Unfit::Long)),
            (&format!("{}tV9#mq2xKd", "a".repeat(MAX_LOOKED_AT)), Err(Unfit::Weak)),
            ("password12", Err(Unfit::Weak)),
            ("qwertzuiop", Err(Unfit::Weak)),
            ("Sommer2026", Err(Unfit::Weak)),
            ("rosalind12", Err(Unfit::Weak)),
            ("featherstonehaugh", Err(Unfit::Weak)),
            ("correct horse battery staple", Ok(())),
            ("Möwe Bügel Zaun Kerze", Ok(())),
        ] {
            assert_eq!(check(password, &user), expect, "{password}");
        }
    }
}
