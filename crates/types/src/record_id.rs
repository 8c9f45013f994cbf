//! Ids of records, and the ranges that tell what an id stands for.
//!
//! ```text
//!  0      1 ........ 65535   65536 ... 66047   66048 ... 200000   200001 ...
//!  null   raw                singleton         reserved           user
//!         a placeholder      one per type      not given out      from the workspace's sequence,
//!         inside one write   and workspace                        or imported with the write
//! ```
//!
//! Must not know: which ids are taken.

use std::num::NonZeroU64;

use crate::number::dense_number;

dense_number! {
    /// A row created by an event, unique in its workspace; or, inside one write, a placeholder for one.
    ///
    /// "No record" is `Option::<RecordId>::None` in a program and [`RecordId::NULL`] where only a number can
    /// be written.
    RecordId(u64, NonZeroU64), "record id"
}

/// What a record id stands for; follows from its value alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RecordIdKind {
    /// A client's placeholder inside one write, replaced by a user id when the write is applied.
    Raw,
    /// The only record of its type in the workspace.
    Singleton,
    /// Kept free; never given out.
    Reserved,
    /// A stored record, numbered by the workspace's sequence or imported.
    User,
}

impl RecordId {
    /// The bare value that stands for "no record".
    pub const NULL: u64 = 0;
    /// The first placeholder.
    pub const MIN_RAW: Self = Self::constant(1);
    /// The last placeholder.
    pub const MAX_RAW: Self = Self::constant(65_535);
    /// The first id that is neither a placeholder nor a user's; singletons are the first 512 of these.
    pub const MIN_RESERVED: Self = Self::constant(65_536);
    /// The first singleton.
    pub const FIRST_SINGLETON: Self = Self::MIN_RESERVED;
    /// The last singleton.
    pub const MAX_SINGLETON: Self = Self::constant(66_047);
    /// The last id below the users'.
    pub const MAX_RESERVED: Self = Self::constant(200_000);
    /// The first id a workspace's sequence gives out.
    pub const FIRST_USER: Self = Self::constant(200_001);

    /// What this id stands for.
    #[must_use]
    pub fn kind(self) -> RecordIdKind {
        match self {
            id if id <= Self::MAX_RAW => RecordIdKind::Raw,
            id if id <= Self::MAX_SINGLETON => RecordIdKind::Singleton,
            id if id <= Self::MAX_RESERVED => RecordIdKind::Reserved,
            _ => RecordIdKind::User,
        }
    }

    const fn constant(value: u64) -> Self {
        Self::new(value).expect("the ids named here are not 0")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_ranges_match_the_vectors() {
        assert_eq!(RecordId::NULL, 0);
        assert_eq!(RecordId::MIN_RAW.get(), 1);
        assert_eq!(RecordId::MAX_RAW.get(), 65_535);
        assert_eq!(RecordId::MIN_RESERVED.get(), 65_536);
        assert_eq!(RecordId::FIRST_SINGLETON.get(), 65_536);
        assert_eq!(RecordId::MAX_SINGLETON.get(), 66_047);
        assert_eq!(RecordId::MAX_RESERVED.get(), 200_000);
        assert_eq!(RecordId::FIRST_USER.get(), 200_001);
    }

    #[test]
    fn there_are_512_singletons() {
        assert_eq!(RecordId::MAX_SINGLETON.get() - RecordId::FIRST_SINGLETON.get() + 1, 512);
    }

    #[test]
    fn the_kind_changes_exactly_at_the_ends_of_the_ranges() {
        let kind = |value| RecordId::new(value).map(RecordId::kind);
        assert_eq!(kind(RecordId::NULL), None);
        assert_eq!(kind(1), Some(RecordIdKind::Raw));
        assert_eq!(kind(65_535), Some(RecordIdKind::Raw));
        assert_eq!(kind(65_536), Some(RecordIdKind::Singleton));
        assert_eq!(kind(66_047), Some(RecordIdKind::Singleton));
        assert_eq!(kind(66_048), Some(RecordIdKind::Reserved));
        assert_eq!(kind(200_000), Some(RecordIdKind::Reserved));
        assert_eq!(kind(200_001), Some(RecordIdKind::User));
        assert_eq!(kind(u64::MAX), Some(RecordIdKind::User));
    }

    proptest! {
        #[test]
        fn every_id_from_the_first_user_s_on_is_a_user_s(value in 200_001..=u64::MAX) {
            prop_assert_eq!(RecordId::try_from(value)?.kind(), RecordIdKind::User);
        }
    }
}
