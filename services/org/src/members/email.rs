//! E-mail addresses: `addr-spec` of RFC 5322 without comments and folding, with non-ASCII characters (RFC 6532).
//! Addresses are display data; no decision depends on them.

/// Longest address, in characters.
pub(crate) const MAX_EMAIL: usize = 254;
/// Longest part before the `@`, in bytes.
const MAX_LOCAL: usize = 64;
/// Longest label of a domain, in bytes.
const MAX_LABEL: usize = 63;

/// Whether `text` is an e-mail address.
pub(crate) fn is_email(text: &str) -> bool {
    let Some((local, domain)) = text.rsplit_once('@') else { return false };
    text.chars().count() <= MAX_EMAIL && is_local(local) && is_domain(domain)
}

fn is_local(local: &str) -> bool {
    (1..=MAX_LOCAL).contains(&local.len()) && (is_quoted(local) || local.split('.').all(is_atom))
}

fn is_atom(atom: &str) -> bool {
    let fits = |letter: char| {
        letter.is_ascii_alphanumeric() || "!#$%&'*+-/=?^_`{|}~".contains(letter) || is_foreign(letter)
    };
    !atom.is_empty() && atom.chars().all(fits)
}

/// Whether a character is non-ASCII and neither white space nor a control character.
fn is_foreign(letter: char) -> bool {
    !letter.is_ascii() && !letter.is_whitespace() && !letter.is_control()
}

/// Whether `local` is a quoted string, `"…"`, with inner quotes and backslashes escaped by a backslash.
fn is_quoted(local: &str) -> bool {
    let inner = local.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    let Some(inner) = inner else { return false };
    let mut escaped = false;
    for letter in inner.chars() {
        if letter.is_control() || (letter == '"' && !escaped) {
            return false;
        }
        escaped = letter == '\\' && !escaped;
    }
    !escaped
}

fn is_domain(domain: &str) -> bool {
    let literal = domain.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    match literal {
        Some(inner) => {
            !inner.is_empty()
                && inner.chars().all(|letter| letter.is_ascii_graphic() && !"[]\\".contains(letter))
        }
        None => domain.split('.').all(is_label),
    }
}

fn is_label(label: &str) -> bool {
    (1..=MAX_LABEL).contains(&label.len())
        && !label.starts_with('-')
        && !label.ends_with('-')
        && label.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '-' || is_foreign(letter))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_what_is_none() {
        let longest = format!("{}@{}.{}.{}", "a".repeat(64), "b".repeat(63), "c".repeat(63), "d".repeat(61));
        assert_eq!(longest.len(), MAX_EMAIL);
        for good in [
            "a@b",
            "first.last+tag@mail.example.org",
            "\"a b@c\"@example.org",
            "jürgen@exämple.de",
            "a@[127.0.0.1]",
            &longest,
        ] {
            assert!(is_email(good), "{good}");
        }
        let too_long = format!("{longest}d");
        for bad in [
            "",
            "a",
            "@b",
            "a@",
            "a b@c",
            ".a@b",
            "a..b@c",
            "a.@b",
            "a@b..c",
            "a@-b",
            "a@b-",
            "\"a\"b\"@c",
            "\"a\\\"@c",
            "a@b c",
            "a\u{a0}@b",
            &too_long,
        ] {
            assert!(!is_email(bad), "{bad}");
        }
    }
}
