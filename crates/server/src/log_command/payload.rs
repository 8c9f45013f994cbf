//! Payloads as people can read them: text where it is text, hexadecimal digits otherwise.
//!
//! Must not know: what a payload means.

use std::fmt::Write;

/// A payload as it is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Payload<'a> {
    /// UTF-8 without control characters other than tabs and ends of lines.
    Text(&'a str),
    /// Anything else.
    Binary(&'a [u8]),
}

impl<'a> Payload<'a> {
    /// What these bytes are.
    pub(crate) fn of(bytes: &'a [u8]) -> Self {
        let harmless = |c: char| !c.is_control() || matches!(c, '\t' | '\n' | '\r');
        match std::str::from_utf8(bytes) {
            Ok(text) if text.chars().all(harmless) => Payload::Text(text),
            _ => Payload::Binary(bytes),
        }
    }

    /// On one line of at most `width` characters, with an ellipsis where something is cut off.
    pub(crate) fn line(self, width: usize) -> String {
        // Enough of it to fill the line and to see that there is more.
        match self {
            Payload::Text(text) => cut(text.chars().take(width + 1).flat_map(shown).collect(), width),
            Payload::Binary(bytes) => {
                cut(format!("0x{}", digits(&bytes[..bytes.len().min(width / 2 + 1)])), width)
            }
        }
    }
}

/// Hexadecimal digits, two per byte.
pub(crate) fn digits(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut digits, byte| {
        // Writing to a string cannot fail.
        let _ = write!(digits, "{byte:02x}");
        digits
    })
}

/// A character that does nothing to a terminal but appear.
fn shown(c: char) -> impl Iterator<Item = char> {
    let plain = matches!(c, '"' | '\'' | '\\').then_some(c);
    let escaped = plain.is_none().then(|| c.escape_debug());
    plain.into_iter().chain(escaped.into_iter().flatten())
}

fn cut(line: String, width: usize) -> String {
    if line.chars().count() <= width {
        return line;
    }
    line.chars().take(width.saturating_sub(1)).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_shown_as_text_and_everything_else_as_digits() {
        assert_eq!(Payload::of(br#"{"amount":3}"#).line(40), r#"{"amount":3}"#);
        assert_eq!(Payload::of("größer\n".as_bytes()).line(40), r"größer\n");
        assert_eq!(Payload::of(&[0xff, 0x00, 0x1b]).line(40), "0xff001b");
        assert_eq!(Payload::of(b"").line(40), "");
    }

    #[test]
    fn nothing_in_a_payload_reaches_the_terminal_as_a_command() {
        assert_eq!(Payload::of(b"\x1b[2J").line(40), "0x1b5b324a");
        assert_eq!(Payload::of("a\u{202e}b".as_bytes()).line(40), r"a\u{202e}b");
    }

    #[test]
    fn a_long_payload_is_cut_and_says_so() {
        assert_eq!(Payload::of(b"0123456789").line(10), "0123456789");
        assert_eq!(Payload::of(b"0123456789a").line(10), "012345678…");
        assert_eq!(Payload::of(&[0; 100]).line(8), "0x00000…");
        assert_eq!(Payload::of(&[0; 3]).line(8), "0x000000");
    }
}
