//! Draws a text as a QR code in SVG that needs neither scripts nor styles.

use qrcode::{Color, QrCode};

/// White modules around the code (ISO/IEC 18004).
const MARGIN: usize = 4;

/// Returns the SVG; `None` if the text is too long for a QR code.
pub(super) fn svg(text: &str, title: &str) -> Option<String> {
    let code = QrCode::new(text).ok()?;
    let (width, mut path) = (code.width(), Vec::new());
    for (index, color) in code.to_colors().into_iter().enumerate() {
        if color == Color::Dark {
            let (x, y) = (index % width + MARGIN, index / width + MARGIN);
            path.push(format!("M{x} {y}h1v1h-1z"));
        }
    }
    let (side, path) = (width + 2 * MARGIN, path.concat());
    Some(format!(
        "<svg class=\"qr\" role=\"img\" aria-label=\"{title}\" viewBox=\"0 0 {side} {side}\" \
         shape-rendering=\"crispEdges\" xmlns=\"http://www.w3.org/2000/svg\"><path d=\"{path}\"/></svg>"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_has_its_corner_behind_the_margin() {
        let drawn = svg("otpauth://totp/x", "a title").expect("short");
        assert!(drawn.contains("d=\"M4 4h1v1h-1zM5 4h1v1h-1z"), "{drawn}");
        assert!(svg(&"x".repeat(3_000), "").is_none());
    }
}
