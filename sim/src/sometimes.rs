//! Situations that must have occurred over a run of many seeds: a simulator that never gets there proves nothing about them.
//!
//! Must not know: how a situation comes about.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Something that has to happen now and then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Situation {
    /// A request between nodes arrived twice.
    DoubledRequest,
    /// Entries arrived once more on an old connection.
    DoubledEntries,
    /// A snapshot was installed.
    SnapshotInstalled,
    /// A snapshot was installed while links were cut.
    SnapshotInstalledDuringPartition,
    /// A snapshot went on behind what had arrived before a break.
    SnapshotResumed,
    /// A node ended between two steps.
    Crash,
    /// A node lost its power in the middle of an operation of its disk.
    CrashDuringDiskOperation,
    /// A node that led ended.
    LeaderCrashed,
    /// All nodes ended at once.
    AllCrashed,
    /// A node ended before it was open.
    CrashWhileOpening,
    /// A node lost the end of its replicated log and was on probation.
    Probation,
    /// A sync of a disk failed.
    SyncFailed,
    /// A node stopped by itself because its log failed.
    NodeStopped,
    /// A partition failed and was opened again.
    PartitionReopened,
    /// A partition was quarantined, or could not be opened, because its files are damaged.
    DamageFound,
    /// A node with damaged files did not open.
    DamagedNodeRefused,
    /// A node was thrown away, and another one joined under a new id.
    NodeReplaced,
    /// The members were changed.
    MembersChanged,
    /// Leadership was handed over.
    LeadershipTransferred,
    /// A leader was elected in a higher term than before while a write was in flight, and the write was retried.
    RetryOverLeaderChange,
    /// A retry got an outcome that had been decided before.
    DuplicateRecognized,
    /// A key was reused for something else, and that was refused.
    KeyReuseRefused,
    /// Two requests with one key raced.
    Raced,
    /// A write was refused by a condition.
    ConditionRefused,
    /// A write had no outcome in time.
    OutcomeUnknown,
    /// A write was turned away because the node was too busy or too full.
    AdmissionRefused,
    /// A linearizable view was read.
    LinearizableRead,
    /// A follower was read at an offset.
    ReadAtOffset,
    /// Somebody followed a partition across a restart of its node.
    FollowedAcrossRestart,
    /// A barrier was reached.
    BarrierReached,
    /// A namespace was dropped while others were written to.
    NamespaceDropped,
    /// A namespace came back under a name that was dropped.
    NamespaceCameBack,
    /// The replicated log was cut.
    LogCut,
    /// A partition fell so far behind that it read from the replicated log.
    PartitionDetached,
    /// The disk was full.
    DiskFull,
    /// A leader gave up because of its clock.
    ClockGaveUp,
    /// A key was forgotten, and its client went on counting.
    KeyExpired,
    /// Only one direction between two nodes was cut.
    AsymmetricPartition,
    /// Two halves met in one node alone.
    Bridge,
    /// A node was paused.
    Paused,
    /// A partition's files could not be written, and the others went on.
    PartitionBroken,
    /// A slot of a projection was granted again, because whoever had it did not commit.
    SlotGrantedAgain,
    /// A worker came too late, and was refused.
    ZombieRefused,
    /// What a worker had read was changed before its turn, so that it was asked for again.
    CommitReturned,
    /// Partitions took long for everything.
    SlowApply,
    /// The clock of a node was set wrong.
    ClockWrong,
    /// A disk took long for every write.
    SlowDisk,
    /// A link between two nodes got slow.
    SlowLink,
    /// Bits of files changed, or a disk was told to lie.
    Damaged,
    /// A node took a snapshot when it was asked to.
    SnapshotTaken,
    /// A partition was made anew by command out of its own log.
    RepairedFromOwnLog,
    /// A partition was made anew by command out of another node's.
    RepairedFromNode,
    /// A partition could not be made anew, and was left as it was.
    RepairRefused,
    /// A partition that nothing on its node could bring back came from another one by itself.
    Reinstalled,
    /// Nobody could lead until an operator decides: one disk was damaged, and another node had lost the end of its log. Rare, so that
    /// it need not occur.
    StoodStill,
}

impl Situation {
    /// All of them.
    pub const ALL: [Self; 54] = [
        Self::DoubledRequest,
        Self::DoubledEntries,
        Self::SnapshotInstalled,
        Self::SnapshotInstalledDuringPartition,
        Self::SnapshotResumed,
        Self::Crash,
        Self::CrashDuringDiskOperation,
        Self::LeaderCrashed,
        Self::AllCrashed,
        Self::CrashWhileOpening,
        Self::Probation,
        Self::SyncFailed,
        Self::NodeStopped,
        Self::PartitionReopened,
        Self::DamageFound,
        Self::DamagedNodeRefused,
        Self::NodeReplaced,
        Self::MembersChanged,
        Self::LeadershipTransferred,
        Self::RetryOverLeaderChange,
        Self::DuplicateRecognized,
        Self::KeyReuseRefused,
        Self::Raced,
        Self::ConditionRefused,
        Self::OutcomeUnknown,
        Self::AdmissionRefused,
        Self::LinearizableRead,
        Self::ReadAtOffset,
        Self::FollowedAcrossRestart,
        Self::BarrierReached,
        Self::NamespaceDropped,
        Self::NamespaceCameBack,
        Self::LogCut,
        Self::PartitionDetached,
        Self::DiskFull,
        Self::ClockGaveUp,
        Self::KeyExpired,
        Self::AsymmetricPartition,
        Self::Bridge,
        Self::Paused,
        Self::PartitionBroken,
        Self::SlotGrantedAgain,
        Self::ZombieRefused,
        Self::CommitReturned,
        Self::SlowApply,
        Self::ClockWrong,
        Self::SlowDisk,
        Self::SlowLink,
        Self::Damaged,
        Self::SnapshotTaken,
        Self::RepairedFromOwnLog,
        Self::RepairedFromNode,
        Self::RepairRefused,
        Self::Reinstalled,
    ];
}

/// How often each situation occurred.
pub type Occurrences = BTreeMap<Situation, u64>;

/// Counts situations. Clones count together.
#[derive(Clone, Debug, Default)]
pub struct Sometimes(Arc<Mutex<Occurrences>>);

impl Sometimes {
    /// It occurred.
    pub fn saw(&self, situation: Situation) {
        *self.lock().entry(situation).or_default() += 1;
    }

    /// What occurred so far.
    #[must_use]
    pub fn occurrences(&self) -> Occurrences {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Occurrences> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
