//! Why a command was refused. Refusals change nothing.

use thiserror::Error;

macro_rules! refusals {
    ($($(#[$documentation:meta])* $name:ident = $number:literal, $code:literal;)*) => {
        /// Why a command was refused.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Error)]
        #[error("{}", self.code())]
        #[repr(u8)]
        pub enum Refusal {
            $($(#[$documentation])* $name = $number,)*
        }

        impl Refusal {
            /// Every refusal there is.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// Its name.
            pub const fn code(self) -> &'static str {
                match self { $(Self::$name => $code,)* }
            }
        }
    };
}

refusals! {
    /// Somebody else was given the slot since.
    StaleToken = 1, "STALE_TOKEN";
    /// The lease ran out; nobody was given the slot since.
    LeaseExpired = 2, "LEASE_EXPIRED";
    /// The lease was given back, or ended with an error.
    LeaseReleased = 3, "LEASE_RELEASED";
    /// The commit was sent back: a row it had read was changed, or its rule has no answer.
    LeaseReturned = 4, "LEASE_RETURNED";
    /// The slot was filled.
    SlotFilled = 5, "SLOT_FILLED";
    /// The slot was committed; the lease is over.
    AlreadyCommitted = 6, "ALREADY_COMMITTED";
    /// The slot is committed or filled.
    AlreadyResolved = 7, "ALREADY_RESOLVED";
    /// Something else was committed with this token.
    PayloadMismatch = 8, "PAYLOAD_MISMATCH";
    /// There is no such slot.
    UnknownSlot = 9, "UNKNOWN_SLOT";
    /// No such token was issued for the slot.
    UnknownToken = 10, "UNKNOWN_TOKEN";
    /// Too many slots lie above the watermark.
    WindowFull = 11, "WINDOW_FULL";
    /// A slot's attempts are used up, and an operator has to decide.
    DomainHalted = 12, "DOMAIN_HALTED";
    /// The grant was renewed as often as it can be.
    RenewalLimit = 13, "RENEWAL_LIMIT";
    /// A lease has to last at least a millisecond.
    InvalidTtl = 14, "INVALID_TTL";
    /// The payload is malformed, beyond a limit, or does not fit its slot.
    InvalidPayload = 15, "INVALID_PAYLOAD";
    /// A part of a commit whose predecessor is missing, that differs from what came before, or that is one too many.
    InvalidPart = 16, "INVALID_PART";
    /// No rule was made for events of this type.
    NoRule = 17, "NO_RULE";
}

impl Refusal {
    pub(crate) fn of_number(number: u8) -> Option<Self> {
        Self::ALL.iter().copied().find(|refusal| *refusal as u8 == number)
    }
}
