//! Tokens that say where the next page begins: they work on every node and after a restart.
//!
//! ```text
//!  0  1  version, 1      1  4  CRC32C over what was asked for and the rest      5  where to go on
//! ```
//! A token of another request, or one that somebody changed, is refused. It is no secret: it says nothing but a key.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use crate::check::Check;

const VERSION: u8 = 1;

/// The token behind `after`, for this question.
pub(crate) fn token(question: &[&[u8]], after: &[u8]) -> String {
    let mut bytes = vec![VERSION];
    bytes.extend_from_slice(&checksum(question, after).to_le_bytes());
    bytes.extend_from_slice(after);
    URL_SAFE_NO_PAD.encode(bytes)
}

/// Where a page begins: behind these bytes; at the start, if there is no token. One that is none is noted.
pub(crate) fn after(question: &[&[u8]], token: &str, check: &mut Check) -> Option<Vec<u8>> {
    if token.is_empty() {
        return None;
    }
    match URL_SAFE_NO_PAD.decode(token).as_deref() {
        Ok([VERSION, a, b, c, d, after @ ..])
            if u32::from_le_bytes([*a, *b, *c, *d]) == checksum(question, after) =>
        {
            Some(after.to_vec())
        }
        _ => {
            refuse(check);
            None
        }
    }
}

/// A number as the place where a page ends.
pub(crate) fn number(question: &[&[u8]], token: &str, check: &mut Check) -> Option<u64> {
    let bytes = after(question, token, check)?;
    let number = bytes.as_slice().try_into().map(u64::from_le_bytes).ok();
    if number.is_none() {
        refuse(check);
    }
    number
}

/// Notes that a token is none.
pub(crate) fn refuse(check: &mut Check) {
    check.add("page_token", "is not one that an answer to this request contained");
}

fn checksum(question: &[&[u8]], after: &[u8]) -> u32 {
    let mut checksum = 0;
    for part in question {
        checksum = crc32c::crc32c_append(checksum, &(part.len() as u64).to_le_bytes());
        checksum = crc32c::crc32c_append(checksum, part);
    }
    crc32c::crc32c_append(checksum, after)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_leads_on_and_no_other_text_does() {
        let question: [&[u8]; 2] = [b"shop", b"42"];
        let issued = token(&question, b"apples");
        let after = |question: &[&[u8]], token: &str| {
            let mut check = Check::default();
            let after = after(question, token, &mut check);
            check.end().map(|()| after)
        };
        assert_eq!(after(&question, &issued).unwrap().unwrap(), b"apples");
        assert_eq!(after(&question, "").unwrap(), None);
        assert!(after(&[b"shop4", b"2"], &issued).is_err(), "another request's");
        for at in 0..issued.len() {
            let mut changed = issued.clone().into_bytes();
            changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
            assert!(after(&question, &String::from_utf8(changed).unwrap()).is_err(), "changed at {at}");
        }
    }
}
