//! Decoders of what clients send, for the fuzz targets alone.
//!
//! Must not know: sockets.

use crate::check::Check;
use crate::page;

/// Where a page begins by this token; the token that leads there again, if it is one.
#[must_use]
pub fn page_token_again(question: &[u8], token: &str) -> Option<String> {
    let after = page::after(&[question], token, &mut Check::default())?;
    Some(page::token(&[question], &after))
}

/// A token that leads behind these bytes.
#[must_use]
pub fn page_token(question: &[u8], after: &[u8]) -> String {
    page::token(&[question], after)
}
