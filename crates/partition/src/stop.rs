//! Why a step of apply does not go on: the write is refused, which is an outcome, or the world failed, which is none.

use gapless_types::PartitionOffset;

use crate::codec::Malformed;
use crate::error::Fault;
use crate::outcome::Refusal;

/// Why a step does not go on.
#[derive(Debug)]
pub(crate) enum Stop {
    /// The write is refused.
    Refused(Box<Refusal>),
    /// The write was decided before, at this offset.
    Decided(PartitionOffset),
    /// The key of the write was used for another one.
    Reused(Box<Refusal>),
    /// The partition stops.
    Fault(Fault),
}

impl Stop {
    /// Says which operation it was, if nobody did yet.
    pub(crate) fn in_operation(mut self, index: usize) -> Self {
        if let Stop::Refused(refusal) = &mut self {
            refusal.operation = refusal.operation.or(u16::try_from(index).ok());
        }
        self
    }
}

impl From<Refusal> for Stop {
    fn from(refusal: Refusal) -> Self {
        Stop::Refused(Box::new(refusal))
    }
}

impl From<Fault> for Stop {
    fn from(fault: Fault) -> Self {
        Stop::Fault(fault)
    }
}

/// A row that does not have its form.
impl From<Malformed> for Stop {
    fn from(malformed: Malformed) -> Self {
        Stop::Fault(Fault::Row(malformed))
    }
}
