//! A place in a trace, as the header `traceparent` of W3C Trace Context says it, version 00.
//!
//! ```text
//!  00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01
//!     trace                            span             flags: 01 sampled
//! ```
//!
//! Must not know: where spans go.

use std::fmt;
use std::num::{NonZeroU64, NonZeroU128};
use std::str::FromStr;

use thiserror::Error;

/// The name of the header, in gRPC and in HTTP.
pub const TRACEPARENT: &str = "traceparent";

/// A span of a trace, seen from the outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TraceContext {
    /// The trace.
    pub trace: NonZeroU128,
    /// The span in it.
    pub span: NonZeroU64,
    /// Whether whoever began the trace wants it to be kept.
    pub sampled: bool,
}

/// No `traceparent`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("not a traceparent such as 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")]
pub struct NotATraceparent;

impl TraceContext {
    /// Another span of the same trace.
    #[must_use]
    pub fn with_span(self, span: NonZeroU64) -> Self {
        Self { span, ..self }
    }
}

impl fmt::Display for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{:032x}-{:016x}-{:02x}", self.trace, self.span, u8::from(self.sampled))
    }
}

impl FromStr for TraceContext {
    type Err = NotATraceparent;

    /// Later versions are read as far as they say the same, which is what their standard asks for.
    fn from_str(text: &str) -> Result<Self, NotATraceparent> {
        let mut parts = text.trim().split('-');
        let mut part = |digits: usize| {
            let is_lower_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
            let fits = |part: &&str| part.len() == digits && part.bytes().all(is_lower_hex);
            parts.next().filter(fits).ok_or(NotATraceparent)
        };
        let (version, trace, span, flags) = (part(2)?, part(32)?, part(16)?, part(2)?);
        let is_longer = parts.next().is_some();
        if version == "ff" || (version == "00" && is_longer) {
            return Err(NotATraceparent);
        }
        let trace = u128::from_str_radix(trace, 16).ok().and_then(NonZeroU128::new);
        let span = u64::from_str_radix(span, 16).ok().and_then(NonZeroU64::new);
        let flags = u8::from_str_radix(flags, 16).map_err(|_| NotATraceparent)?;
        match (trace, span) {
            (Some(trace), Some(span)) => Ok(Self { trace, span, sampled: flags & 1 == 1 }),
            _ => Err(NotATraceparent),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn what_is_read_is_what_is_written() {
        let context: TraceContext = GOOD.parse().unwrap();
        assert_eq!(context.to_string(), GOOD);
        assert!(context.sampled);
        let unsampled: TraceContext = GOOD.replace("-01", "-00").parse().unwrap();
        assert!(!unsampled.sampled);
        let later: TraceContext = format!("cc{}-what-comes", &GOOD[2..]).parse().unwrap();
        assert_eq!(later, context);
    }

    #[test]
    fn what_is_no_traceparent_is_refused() {
        let zero_trace = format!("00-{}-00f067aa0ba902b7-01", "0".repeat(32));
        let zero_span = "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01";
        let upper = GOOD.to_uppercase();
        let longer = format!("{GOOD}-x");
        let version = format!("ff{}", &GOOD[2..]);
        for bad in ["", "00", "00-1-2-3", &zero_trace, zero_span, &upper, &longer, &version, "00-é"] {
            assert_eq!(bad.parse::<TraceContext>(), Err(NotATraceparent), "{bad}");
        }
    }
}
