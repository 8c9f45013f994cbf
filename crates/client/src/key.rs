//! Keys: one for each intended write.

use bytes::Bytes;
use gapless_api::v1;
use gapless_engine::types::IdempotencyKey;

/// A key that nobody else has: 16 bytes from the system's source of randomness.
///
/// A program that has a name for what it intends (an order number, the id of a message) should derive the key from it instead,
/// with [`gapless_engine::named_key`]: then it can retry also when it has forgotten that it asked.
pub fn random_key() -> Bytes {
    let mut key = [0; IdempotencyKey::BYTES];
    let mut filled = 0;
    while filled < key.len() {
        // The source of randomness is there from the start of every program; only a signal can interrupt it.
        filled +=
            rustix::rand::getrandom(&mut key[filled..], rustix::rand::GetRandomFlags::empty()).unwrap_or(0);
    }
    Bytes::copy_from_slice(&key)
}

/// The same request with a key, if it had none.
pub(crate) fn with_key(mut request: v1::WriteRequest) -> v1::WriteRequest {
    if request.idempotency_key.is_empty() {
        request.idempotency_key = random_key();
    }
    request
}
