//! Keys as people write them: in a header, on a command line.
//!
//! Invariants
//! - One text is one key, wherever it is written: a write that was tried over one channel and retried over another happens once.
//!
//! Must not know: where a text comes from.

use gapless_engine::named_key;
use gapless_engine::types::{IdempotencyKey, IdempotencyKeyError};
use thiserror::Error;

/// Why a text is no key.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum KeyTextError {
    /// It says nothing.
    #[error("one key for each intended write is needed: a UUID, 32 hexadecimal digits, or any name")]
    Empty,
    /// It is a number that no key is.
    #[error(transparent)]
    Number(#[from] IdempotencyKeyError),
}

/// The key that a text means: a UUID and 32 hexadecimal digits are the key itself, anything else is the name of what is intended.
/// Spaces and quotes around it, which a header may have, do not count.
///
/// # Errors
/// If it says nothing, or nothing but zeros.
pub fn key_of(text: &str) -> Result<IdempotencyKey, KeyTextError> {
    let text = text.trim().trim_matches('"');
    if text.is_empty() {
        return Err(KeyTextError::Empty);
    }
    match number(text) {
        Some(number) => Ok(IdempotencyKey::new(number.to_be_bytes())?),
        None => Ok(named_key(text)),
    }
}

/// Where the dashes of a UUID are.
const DASHES: [usize; 4] = [8, 13, 18, 23];

/// The number that a text is, if it is one of 128 bits.
fn number(text: &str) -> Option<u128> {
    let is_uuid = text.len() == 36 && DASHES.iter().all(|at| text.as_bytes()[*at] == b'-');
    let digits = if is_uuid { text.replace('-', "") } else { text.to_owned() };
    // A sign is no digit, although numbers may have one.
    let are_digits = digits.len() == 32 && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    are_digits.then(|| u128::from_str_radix(&digits, 16).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uuid_and_its_digits_are_one_key_and_anything_else_is_a_name() {
        let digits = key_of("0e2f9a3c6c1b4e619d3e0a4f5f0b7c11").unwrap();
        assert_eq!(digits.to_string(), "0e2f9a3c6c1b4e619d3e0a4f5f0b7c11");
        for same in [
            "0e2f9a3c-6c1b-4e61-9d3e-0a4f5f0b7c11",
            "0E2F9A3C-6C1B-4E61-9D3E-0A4F5F0B7C11",
            " \"0e2f9a3c-6c1b-4e61-9d3e-0a4f5f0b7c11\" ",
        ] {
            assert_eq!(key_of(same).unwrap(), digits, "{same}");
        }
        for name in [
            "order 1",
            "order-1",
            "+e2f9a3c6c1b4e619d3e0a4f5f0b7c11",
            "0e2f9a3c6c1b-4e61-9d3e-0a4f5f0b7c11",
            "0e2f9a3c-6c1b-4e61-9d3e-0a4f5f0b-c11",
            "\u{e9}",
            "\u{e9}e2f9a3c-6c1b-4e61-9d3e-0a4f5f0b7c1",
        ] {
            assert_eq!(key_of(name).unwrap(), named_key(name), "{name}");
        }
    }

    #[test]
    fn nothing_and_zeros_are_no_key() {
        for nothing in ["", "  ", "\"\""] {
            assert_eq!(key_of(nothing), Err(KeyTextError::Empty));
        }
        let zeros = key_of("00000000-0000-0000-0000-000000000000");
        assert_eq!(zeros, Err(KeyTextError::Number(IdempotencyKeyError::Zero)));
    }
}
