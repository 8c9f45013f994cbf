//! The sequences that workspaces of each kind have, prepared for looking up.
//!
//! Invariants
//! - Every initial number is at least 1.
//! - A number below the initial number of a sequence in every kind that declares it never enters any layer.

use gapless_types::{SequenceId, WorkspaceKind};

use crate::error::ParamsError;
use crate::params::SequenceParams;

/// Most sequences that one kind can declare.
pub const MAX_SEQUENCES_PER_KIND: usize = 65_535;

/// Up to here, looking at all of them in turn is faster than anything clever.
const FEW: usize = 8;

/// All kinds.
#[derive(Debug)]
pub(crate) struct Kinds {
    /// Sorted by kind.
    kinds: Vec<Kind>,
    /// For each sequence of any kind its lowest initial number, sorted by sequence.
    floors: Vec<(SequenceId, u64)>,
}

/// One kind: two lists of the same length, sorted by sequence.
#[derive(Debug)]
pub(crate) struct Kind {
    kind: WorkspaceKind,
    sequences: Vec<SequenceId>,
    initial_numbers: Vec<u64>,
}

impl Kinds {
    pub(crate) fn new(declared: &[(WorkspaceKind, Vec<SequenceParams>)]) -> Result<Self, ParamsError> {
        let mut kinds = declared
            .iter()
            .map(|(kind, sequences)| Kind::new(*kind, sequences))
            .collect::<Result<Vec<_>, _>>()?;
        kinds.sort_by_key(|kind| kind.kind);
        if let Some(twice) = kinds.windows(2).find(|pair| pair[0].kind == pair[1].kind) {
            return Err(ParamsError::KindTwice { kind: twice[0].kind });
        }
        let mut floors: Vec<(SequenceId, u64)> = kinds
            .iter()
            .flat_map(|kind| kind.sequences.iter().copied().zip(kind.initial_numbers.iter().copied()))
            .collect();
        // The lowest initial number of a sequence comes first and is the one that stays.
        floors.sort_unstable();
        floors.dedup_by_key(|(sequence, _)| *sequence);
        Ok(Self { kinds, floors })
    }

    pub(crate) fn position(&self, kind: WorkspaceKind) -> Option<usize> {
        if self.kinds.len() <= FEW {
            return self.kinds.iter().position(|known| known.kind == kind);
        }
        self.kinds.binary_search_by_key(&kind, |known| known.kind).ok()
    }

    pub(crate) fn at(&self, position: usize) -> &Kind {
        &self.kinds[position]
    }

    /// The most sequences that one transaction can touch.
    pub(crate) fn most_sequences(&self) -> usize {
        self.kinds.iter().map(|kind| kind.sequences.len()).max().unwrap_or(0)
    }

    /// Numbers below this one mean nothing to any kind. 1 for a sequence that no kind declares: what the log holds is
    /// kept, as the sequence may be declared again.
    pub(crate) fn floor(&self, sequence: SequenceId) -> u64 {
        match self.floors.binary_search_by_key(&sequence, |(known, _)| *known) {
            Ok(position) => self.floors[position].1,
            Err(_) => 1,
        }
    }
}

impl Kind {
    fn new(kind: WorkspaceKind, declared: &[SequenceParams]) -> Result<Self, ParamsError> {
        if declared.len() > MAX_SEQUENCES_PER_KIND {
            return Err(ParamsError::TooManySequences { kind, declared: declared.len() });
        }
        let mut declared = declared.to_vec();
        declared.sort_by_key(|sequence| sequence.sequence);
        if let Some(twice) = declared.windows(2).find(|pair| pair[0].sequence == pair[1].sequence) {
            return Err(ParamsError::SequenceTwice { kind, sequence: twice[0].sequence });
        }
        if let Some(zero) = declared.iter().find(|sequence| sequence.initial_number == 0) {
            return Err(ParamsError::InitialNumberIsZero { kind, sequence: zero.sequence });
        }
        Ok(Self {
            kind,
            sequences: declared.iter().map(|sequence| sequence.sequence).collect(),
            initial_numbers: declared.iter().map(|sequence| sequence.initial_number).collect(),
        })
    }

    pub(crate) fn id(&self) -> WorkspaceKind {
        self.kind
    }

    #[inline]
    pub(crate) fn position(&self, sequence: SequenceId) -> Option<usize> {
        if self.sequences.len() <= FEW {
            return self.sequences.iter().position(|known| *known == sequence);
        }
        self.sequences.binary_search(&sequence).ok()
    }

    pub(crate) fn sequences(&self) -> &[SequenceId] {
        &self.sequences
    }

    #[inline]
    pub(crate) fn initial_number(&self, position: usize) -> u64 {
        self.initial_numbers[position]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sequences(declared: &[(u16, u64)]) -> Vec<SequenceParams> {
        declared
            .iter()
            .map(|&(sequence, initial_number)| SequenceParams {
                sequence: SequenceId::new(sequence),
                initial_number,
            })
            .collect()
    }

    fn kinds(declared: &[(u16, &[(u16, u64)])]) -> Result<Kinds, ParamsError> {
        let declared: Vec<_> =
            declared.iter().map(|(kind, list)| (WorkspaceKind::new(*kind), sequences(list))).collect();
        Kinds::new(&declared)
    }

    #[test]
    fn every_sequence_of_65_535_is_found_with_its_initial_number() {
        let all: Vec<(u16, u64)> = (1..=u16::MAX).rev().map(|id| (id, u64::from(id) + 7)).collect();
        let kinds = kinds(&[(3, &all), (1, &[(5, 1)])]).unwrap();
        assert_eq!(kinds.most_sequences(), 65_535);
        let kind = kinds.at(kinds.position(WorkspaceKind::new(3)).unwrap());
        for id in [1, 2, 255, 256, 32_768, 65_534, 65_535] {
            let position = kind.position(SequenceId::new(id)).unwrap();
            assert_eq!(kind.initial_number(position), u64::from(id) + 7);
        }
        assert_eq!(kind.position(SequenceId::new(0)), None);
        assert_eq!(kinds.floor(SequenceId::new(5)), 1, "the lower one of two kinds");
        assert_eq!(kinds.floor(SequenceId::new(6)), 13);
        assert_eq!(kinds.floor(SequenceId::new(0)), 1, "nobody declares it");
    }

    #[test]
    fn many_kinds_are_found_like_few() {
        let declared: Vec<(u16, &[(u16, u64)])> = (0..50).map(|kind| (kind * 2, &[(1, 1)][..])).collect();
        let kinds = kinds(&declared).unwrap();
        for kind in 0..50 {
            let position = kinds.position(WorkspaceKind::new(kind * 2)).unwrap();
            assert_eq!(kinds.at(position).id(), WorkspaceKind::new(kind * 2));
            assert_eq!(kinds.position(WorkspaceKind::new(kind * 2 + 1)), None);
        }
    }

    #[test]
    fn what_cannot_be_meant_is_refused() {
        let one = WorkspaceKind::new(1);
        assert_eq!(
            kinds(&[(1, &[(4, 1), (5, 0)])]).unwrap_err(),
            ParamsError::InitialNumberIsZero { kind: one, sequence: SequenceId::new(5) }
        );
        assert_eq!(
            kinds(&[(1, &[(4, 1), (5, 2), (4, 3)])]).unwrap_err(),
            ParamsError::SequenceTwice { kind: one, sequence: SequenceId::new(4) }
        );
        assert_eq!(kinds(&[(1, &[]), (1, &[])]).unwrap_err(), ParamsError::KindTwice { kind: one });
        let all: Vec<(u16, u64)> = (0..=u16::MAX).map(|id| (id, 1)).collect();
        assert_eq!(
            kinds(&[(1, &all)]).unwrap_err(),
            ParamsError::TooManySequences { kind: one, declared: 65_536 }
        );
    }
}
