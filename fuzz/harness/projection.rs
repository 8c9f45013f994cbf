//! What the log says to a projection, as arbitrary bytes: nothing panics, and what is decoded says the same again.
//!
//! A plain function, so that the fuzzer and the bounded test of `crates/projection` run the same code.

#![allow(dead_code, reason = "each fuzz target uses one of the functions")]

use gapless_projection::{Answer, Command, Payload};

/// A command, the payload of a commit, or an answer: whichever the bytes are.
pub fn projection(data: &[u8]) {
    if let Ok(command) = Command::decode(data) {
        assert_eq!(Command::decode(&command.to_bytes()).as_ref(), Ok(&command));
    }
    if let Ok(payload) = Payload::decode(data) {
        // JSON may be spelled in many ways; once it is read it has one.
        let bytes = payload.to_bytes();
        let again = Payload::decode(&bytes).expect("what was encoded is a payload");
        assert_eq!(again.to_bytes(), bytes);
    }
    if let Ok(answer) = Answer::decode(data) {
        assert_eq!(Answer::decode(&answer.to_bytes()).as_ref(), Ok(&answer));
    }
}
