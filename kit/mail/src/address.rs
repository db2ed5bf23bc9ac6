//! E-mail addresses that the platform accepts.

use lettre::Address;

/// Longest address (RFC 5321, section 4.5.3.1.3, without its angle brackets).
pub const MAX_ADDRESS: usize = 254;

/// Whether a text is an acceptable e-mail address: ASCII, one address, no display name, no quoted part. This also
/// refuses everything that could end a header line or start another address.
#[must_use]
pub fn is_address(text: &str) -> bool {
    let odd = |byte: u8| !byte.is_ascii_graphic() || b"\"(),:;<>[\\]".contains(&byte);
    text.len() <= MAX_ADDRESS && !text.bytes().any(odd) && text.parse::<Address>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_one_plain_ascii_address() {
        let longest = format!("{}@{}.example", "a".repeat(64), vec!["b".repeat(59); 3].join("."));
        for good in
            ["a@example.com", "first.last+tag@mail.example.co.uk", "o'neil@example.com", longest.as_str()]
        {
            assert!(is_address(good), "{good} {}", good.len());
        }
        for bad in [
            "",
            "a",
            "@example.com",
            "a@",
            "a@b@c",
            "a b@example.com",
            "Name <a@example.com>",
            "a@example.com,b@example.com",
            "a@example.com\r\nBcc: b@example.com",
            "\"a\"@example.com",
            "ä@example.com",
            "a@[127.0.0.1]",
            "a@exämple.com",
        ] {
            assert!(!is_address(bad), "{bad}");
        }
        assert!(!is_address(&format!("{}@{}.example", "a".repeat(64), vec!["b".repeat(63); 3].join("."))));
    }
}
