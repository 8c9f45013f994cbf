//! The body of a request as it is read: what is here of it and not taken yet is counted, and there is room for so much and no more.
//!
//! ```text
//!  one message, or a body of HTTP:   everything that came                     until it is read, or given up
//!  a stream of messages:             what came of the message that is not whole yet
//!                                    flag, 1 byte | length, 4 bytes | message
//! ```
//!
//! Must not know: what is in a message.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use tonic::Status;

use crate::access::fairness::Allowance;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// What stands before each message of a stream, in bytes.
const PREFIX_BYTES: usize = 5;

/// A body that is counted.
#[derive(Debug)]
pub(crate) struct Counted<B> {
    body: B,
    allowance: Allowance,
    here: Here,
}

/// What is here.
#[derive(Debug)]
enum Here {
    /// So many bytes of a whole that is taken at its end.
    Whole(usize),
    /// The beginning of a message.
    Message(Partial),
}

/// A message of a stream that is not whole yet.
#[derive(Debug, Default)]
struct Partial {
    prefix: [u8; PREFIX_BYTES],
    here: usize,
}

impl<B> Counted<B> {
    /// A body that is taken as a whole.
    pub(crate) fn whole(body: B, allowance: Allowance) -> Self {
        Self { body, allowance, here: Here::Whole(0) }
    }

    /// A stream of messages, each of which is taken when it is there.
    pub(crate) fn messages(body: B, allowance: Allowance) -> Self {
        Self { body, allowance, here: Here::Message(Partial::default()) }
    }
}

impl Here {
    /// How many bytes are here once these came.
    fn after(&mut self, bytes: &[u8]) -> usize {
        match self {
            Self::Whole(here) => {
                *here = here.saturating_add(bytes.len());
                *here
            }
            Self::Message(partial) => partial.after(bytes),
        }
    }
}

impl Partial {
    fn after(&mut self, mut bytes: &[u8]) -> usize {
        while let Some((first, rest)) = bytes.split_first() {
            if self.here < PREFIX_BYTES {
                self.prefix[self.here] = *first;
                self.here += 1;
                bytes = rest;
            } else {
                let (came, rest) = bytes.split_at(self.missing().min(bytes.len()));
                self.here += came.len();
                bytes = rest;
            }
            if self.here >= PREFIX_BYTES && self.missing() == 0 {
                self.here = 0;
            }
        }
        self.here
    }

    /// Bytes of the message that did not come yet, once its length is known.
    fn missing(&self) -> usize {
        let [_, length @ ..] = self.prefix;
        (PREFIX_BYTES + u32::from_be_bytes(length) as usize).saturating_sub(self.here)
    }
}

impl<B> Body for Counted<B>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<BoxError>,
{
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = &mut *self;
        let Some(frame) = ready!(Pin::new(&mut this.body).poll_frame(context)) else {
            return Poll::Ready(None);
        };
        let frame = frame.map_err(Into::into)?;
        if let Some(bytes) = frame.data_ref() {
            // In the words of gRPC, which pass through whoever decodes it.
            this.allowance.hold(this.here.after(bytes)).map_err(Status::from)?;
        }
        Poll::Ready(Some(Ok(frame)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(length: usize) -> Vec<u8> {
        let mut message = vec![0];
        message.extend(u32::try_from(length).unwrap().to_be_bytes());
        message.resize(PREFIX_BYTES + length, 7);
        message
    }

    #[test]
    fn of_a_stream_only_the_message_that_is_not_whole_counts() {
        let stream: Vec<u8> = [0, 1, 300, 0, 5].into_iter().flat_map(message).collect();
        let ends: Vec<usize> = [5, 11, 316, 321, 331].to_vec();
        for step in 1..stream.len() {
            let mut partial = Partial::default();
            let mut came = 0;
            for bytes in stream.chunks(step) {
                let here = partial.after(bytes);
                came += bytes.len();
                let last = ends.iter().rev().find(|end| **end <= came).copied().unwrap_or_default();
                assert_eq!(here, came - last, "{came} bytes by {step}");
            }
        }
    }

    #[test]
    fn any_length_is_taken_as_it_is_said() {
        let mut partial = Partial::default();
        assert_eq!(partial.after(&[1, 0xFF, 0xFF, 0xFF, 0xFF, 9, 9]), 7);
        assert_eq!(partial.after(&[9; 100]), 107);
    }

    #[test]
    fn of_a_whole_everything_counts() {
        let mut here = Here::Whole(0);
        assert_eq!((here.after(&[1; 7]), here.after(&[1; 5])), (7, 12));
    }
}
