//! What a seed decides before anything happens: how many nodes, how they are set, and which troubles they will have.
//!
//! Each seed has some kinds of trouble and not others: what is rare beside everything else is frequent in a seed of its own.
//!
//! Must not know: how trouble is made.

use std::time::Duration;

use gapless_types::mistakes::Mistake;

use crate::world::network::Weather;

/// A kind of trouble.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Trouble {
    /// A node ends, at a time or so many steps later, or in an operation of its disk.
    Crash,
    /// All nodes end at once.
    CrashAll,
    /// A node ends again and again while it starts.
    RestartLoop,
    /// Two groups of nodes do not hear each other; or one direction, or all but one node between them.
    Partition,
    /// A link becomes slow.
    SlowLink,
    /// A node hears and says nothing for a while, and then everything at once.
    Pause,
    /// A sync fails, or any other operation.
    FailingDisk,
    /// Writes take long.
    SlowDisk,
    /// The disk is full for a while.
    FullDisk,
    /// The files of one partition cannot be written for a while.
    BrokenPartition,
    /// Bits rot; writes are lost or land elsewhere. Of few nodes at once only.
    Damage,
    /// Clocks jump.
    Clock,
    /// Nodes join and leave.
    Members,
    /// A node loses its disk; another one takes its place.
    LostDisk,
    /// Leadership is handed over.
    Transfer,
    /// Snapshots and cuts at any time.
    Snapshot,
    /// Namespaces come and go; partitions are frozen and thawed.
    Catalog,
    /// Partitions take long for everything.
    SlowApply,
    /// Partitions are made anew by command, out of their own logs or those of other nodes.
    Repair,
}

impl Trouble {
    /// All of them.
    pub const ALL: [Self; 19] = [
        Self::Crash,
        Self::CrashAll,
        Self::RestartLoop,
        Self::Partition,
        Self::SlowLink,
        Self::Pause,
        Self::FailingDisk,
        Self::SlowDisk,
        Self::FullDisk,
        Self::BrokenPartition,
        Self::Damage,
        Self::Clock,
        Self::Members,
        Self::LostDisk,
        Self::Transfer,
        Self::Snapshot,
        Self::Catalog,
        Self::SlowApply,
        Self::Repair,
    ];

    /// Whether a node that is alone can have it.
    fn befalls_one(self) -> bool {
        !matches!(
            self,
            Self::Partition | Self::SlowLink | Self::Pause | Self::Members | Self::LostDisk | Self::Transfer
        )
    }
}

/// What trouble aims at, in a seed that is to show a mistake that chance alone would seldom meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aim {
    /// Links are cut around the leader, and stay so until the others have had the time to elect and to write.
    CutOffLeader,
    /// A follower loses the end of its log when nobody else has that but a leader who is cut off.
    LostTail,
}

/// What a seed decides.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The seed.
    pub seed: u64,
    /// What the program is told to do wrong, to see that it is found.
    pub mistake: Option<Mistake>,
    /// Voters that found the cluster.
    pub nodes: u64,
    /// How long there is trouble, in simulated time.
    pub trouble_lasts: Duration,
    /// Longest time between two troubles, in milliseconds.
    pub pace: u64,
    /// Which troubles there are.
    pub troubles: Vec<Trouble>,
    /// What the troubles aim at, if not at anything.
    pub aim: Option<Aim>,
    /// How messages travel while there is trouble.
    pub weather: Weather,
    /// Writers.
    pub writers: u64,
    /// Workers of the projection.
    pub workers: u64,
    /// Of twelve slots that a worker holds, how many it keeps until its lease may have run out.
    pub dawdled: u8,
    /// Partitions of a namespace.
    pub partitions: u16,
    /// Entries of the replicated log that are kept for followers.
    pub keep_entries: u64,
    /// Beyond it voters that are behind are left behind.
    pub max_retained_bytes: u64,
    /// How often checkpoints are made.
    pub checkpoint_interval: Duration,
    /// Entries that may wait for a partition.
    pub queue_entries: usize,
    /// Writes to a partition that are admitted at once.
    pub admitted: u64,
    /// Outcomes that a leader recalls.
    pub recalled: usize,
    /// How long a write of the replicated log takes, in microseconds; drawn for each node up to this.
    pub write_takes: u64,
}

impl Plan {
    /// What a seed decides; a cluster of so many nodes if that is given.
    #[must_use]
    pub fn new(seed: u64, nodes: Option<u64>) -> Self {
        let mut chance = fastrand::Rng::with_seed(seed ^ 0x9e37_79b9_7f4a_7c15);
        let drawn = [1, 3, 3, 3, 3, 5][chance.usize(..6)];
        let nodes = nodes.unwrap_or(drawn);
        let fits = |trouble: &Trouble| nodes > 1 || trouble.befalls_one();
        let mut troubles: Vec<Trouble> = Trouble::ALL.into_iter().filter(fits).collect();
        chance.shuffle(&mut troubles);
        troubles.truncate(chance.usize(2..=6));
        // Without an end now and then nothing else matters much.
        if !troubles.contains(&Trouble::Crash) && chance.u8(..4) > 0 {
            troubles.push(Trouble::Crash);
        }
        troubles.sort_unstable();
        let stormy = chance.bool();
        Self {
            seed,
            mistake: None,
            nodes,
            trouble_lasts: Duration::from_millis(chance.u64(3_000..12_000)),
            pace: chance.u64(100..1_500),
            aim: None,
            weather: Weather {
                delay: [100, 1_000, 5_000, 30_000][chance.usize(..4)],
                lost: if stormy { chance.u32(0..60) } else { 0 },
                doubled: if stormy { chance.u32(0..100) } else { 0 },
            },
            troubles,
            writers: chance.u64(2..=6),
            workers: seed % 3 + 1,
            dawdled: 1,
            partitions: chance.u16(1..=3),
            keep_entries: [3, 20, 200, 10_000][chance.usize(..4)],
            max_retained_bytes: if nodes > 1 && chance.bool() { 1 } else { u64::MAX },
            checkpoint_interval: Duration::from_millis([50, 200, 1_000][chance.usize(..3)]),
            queue_entries: [1, 4, 16 << 10][chance.usize(..3)],
            admitted: [2, 4, 16_384, 16_384][chance.usize(..4)],
            recalled: [1, 100, 100_000][chance.usize(..3)],
            write_takes: [0, 200, 5_000, 20_000][chance.usize(..4)],
        }
    }

    /// The same, with a program that makes a mistake.
    #[must_use]
    pub fn making(self, mistake: Mistake) -> Self {
        Self { mistake: Some(mistake), ..self }
    }

    /// A seed with the troubles in which a mistake shows, and with that mistake.
    #[must_use]
    pub fn focused_on(mistake: Mistake, seed: u64) -> Self {
        let nodes = match mistake {
            Mistake::RetryFailedSync | Mistake::ExpiredTokenCommits => 1,
            _ => 3,
        };
        let plan = Self::new(seed, Some(nodes)).making(mistake);
        let troubles = match mistake {
            Mistake::AcknowledgeBeforeSync
            | Mistake::RollBackToLaggingPartition
            | Mistake::CutBelowSlowPartition
            | Mistake::CheckpointBeforeSync => vec![Trouble::Crash, Trouble::CrashAll],
            Mistake::RetryFailedSync => vec![Trouble::CrashAll, Trouble::FailingDisk],
            Mistake::IdempotencyInCacheOnly
            | Mistake::CounterEvictedWithKey
            | Mistake::OwnClockAtApply
            | Mistake::ExpiredTokenCommits => vec![Trouble::Crash],
            Mistake::ReadWithoutQuorum => vec![Trouble::Partition],
            Mistake::ForgottenVote => vec![Trouble::Crash, Trouble::CrashAll, Trouble::Partition],
            Mistake::VoteWithLostTail => vec![Trouble::Damage],
        };
        let plan = Self { troubles, pace: plan.pace.min(500), ..plan };
        // What comes seldom by itself is helped along, so that every seed is likely to show it.
        match mistake {
            // Somebody else has to hold a slot when whoever held it before comes back, and the node has to be there.
            Mistake::ExpiredTokenCommits => {
                Self { pace: 6_000, writers: 6, workers: 6, dawdled: 6, admitted: 16_384, ..plan }
            }
            Mistake::ReadWithoutQuorum => Self { pace: 3_000, aim: Some(Aim::CutOffLeader), ..plan },
            Mistake::VoteWithLostTail => Self { aim: Some(Aim::LostTail), ..plan },
            _ => plan,
        }
    }

    /// Whether the seed has a kind of trouble.
    #[must_use]
    pub fn has(&self, trouble: Trouble) -> bool {
        self.troubles.contains(&trouble)
    }

    /// The command that runs this seed again.
    #[must_use]
    pub fn command(&self) -> String {
        format!("cargo xtask sim --seed {} --nodes {}", self.seed, self.nodes)
    }
}
