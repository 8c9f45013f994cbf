//! Which faults are to strike, and at which operation.
//!
//! Must not know: what a fault does.

use super::journal::OperationKind;

/// Which operations an error may hit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Whatever it is.
    Any,
    /// Those of one kind.
    Of(OperationKind),
}

impl From<OperationKind> for Fault {
    fn from(kind: OperationKind) -> Self {
        Self::Of(kind)
    }
}

impl Fault {
    fn fits(self, kind: OperationKind) -> bool {
        self == Self::Any || self == Self::Of(kind)
    }
}

/// How a write lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lie {
    Lost,
    Misdirected,
}

/// Faults to come. Each list is in the order in which it was planned.
#[derive(Debug, Default)]
pub(super) struct Plan {
    cut: Option<u64>,
    failures: Vec<(u64, Fault)>,
    lies: Vec<(u64, Lie)>,
}

impl Plan {
    pub(super) fn cut_at(&mut self, number: u64) {
        self.cut = Some(number);
    }

    pub(super) fn fail_at(&mut self, number: u64, fault: Fault) {
        self.failures.push((number, fault));
    }

    pub(super) fn lose_write_at(&mut self, number: u64) {
        self.lies.push((number, Lie::Lost));
    }

    pub(super) fn misdirect_write_at(&mut self, number: u64) {
        self.lies.push((number, Lie::Misdirected));
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Whether the power goes in this operation. True once.
    pub(super) fn take_cut(&mut self, number: u64) -> bool {
        self.cut.take_if(|planned| *planned <= number).is_some()
    }

    /// Whether this operation fails. Each failure is taken once, one per operation.
    pub(super) fn take_failure(&mut self, number: u64, kind: OperationKind) -> bool {
        let due = |(planned, fault): &(u64, Fault)| *planned <= number && fault.fits(kind);
        match self.failures.iter().position(due) {
            Some(index) => {
                self.failures.remove(index);
                true
            }
            None => false,
        }
    }

    /// How this write lies, if it does. Each lie is taken once, one per write.
    pub(super) fn take_lie(&mut self, number: u64) -> Option<Lie> {
        let index = self.lies.iter().position(|(planned, _)| *planned <= number)?;
        Some(self.lies.remove(index).1)
    }
}
