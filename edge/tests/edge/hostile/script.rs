//! The template language of the cases: `<path>`, `<each>`, `<times:3:text>` are expanded when the corpus is read,
//! `<bearer>`, `<head>` and `<x:ff>` (one byte) when a case is sent. Any other text in angle brackets is literal.

/// Expands what is known when the corpus is read.
pub(super) fn fill(text: &str, path: &str, each: &str) -> String {
    let text = text.replace("<each>", each).replace("<path>", path);
    let mut filled = String::with_capacity(text.len());
    let mut rest = text.as_str();
    while let Some((before, after)) = rest.split_once("<times:") {
        let (count, after) = after.split_once(':').expect("<times:COUNT:TEXT>");
        let (repeated, after) = after.split_once('>').expect("<times:COUNT:TEXT>");
        filled.push_str(before);
        filled.push_str(&repeated.repeat(count.parse().expect("a count")));
        rest = after;
    }
    filled + rest
}

/// Expands what is known when a case is sent.
pub(super) fn bytes(text: &str, bearer: &str) -> Vec<u8> {
    let head = format!("Host: localhost:8443\r\nAuthorization: {bearer}\r\n");
    let text = text.replace("<head>", &head).replace("<bearer>", bearer);
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_str();
    while let Some((before, after)) = rest.split_once("<x:") {
        let (digits, after) = after.split_once('>').expect("<x:HEX>");
        bytes.extend_from_slice(before.as_bytes());
        bytes.extend(unhex(digits));
        rest = after;
    }
    bytes.extend_from_slice(rest.as_bytes());
    bytes
}

/// Parses hexadecimal digits into bytes, ignoring spaces.
pub(super) fn unhex(digits: &str) -> Vec<u8> {
    let digits: Vec<u8> = digits
        .chars()
        .filter(|digit| !digit.is_whitespace())
        .map(|digit| u8::try_from(digit.to_digit(16).expect("a hexadecimal digit")).expect("below 16"))
        .collect();
    digits.chunks_exact(2).map(|pair| pair[0] * 16 + pair[1]).collect()
}
