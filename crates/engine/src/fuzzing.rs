//! Decoders of bytes that come from a disk or from another node, for the fuzz targets alone.
//!
//! Must not know: files.

use crate::catalog::{decode_catalog, encode_catalog};

/// A catalog file as it would be written again; none if it is not read.
#[must_use]
pub fn catalog_again(bytes: &[u8]) -> Option<Vec<u8>> {
    decode_catalog(bytes).ok().map(|stored| encode_catalog(&stored))
}
