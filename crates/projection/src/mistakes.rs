//! The classic mistakes in this field, to be switched on by tests that show that each is found. In any other build none can be made.

/// A mistake that a domain can be told to make.
#[cfg_attr(not(feature = "faults"), expect(unreachable_pub, reason = "only tests name it"))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mistake {
    /// A slot that is granted again gets a new place behind all others.
    LeaseOrder,
    /// What a where-clause matched when it was read is taken for what it matches at its place.
    ReadTooEarly,
    /// A commit counts with any token that was ever issued.
    NoFencing,
    /// A staged slot expires while it waits for lower ones.
    ClockWhileWaiting,
    /// Rows become durable before the watermark does.
    TwoWrites,
}

/// What the domain was told to do wrong: nothing.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Mistakes {
    #[cfg(feature = "faults")]
    pub(crate) made: Option<Mistake>,
}

impl Mistakes {
    #[cfg(feature = "faults")]
    pub(crate) fn makes(self, mistake: Mistake) -> bool {
        self.made == Some(mistake)
    }

    #[cfg(not(feature = "faults"))]
    #[expect(clippy::unused_self, reason = "in this build there are none")]
    pub(crate) fn makes(self, _: Mistake) -> bool {
        false
    }
}
