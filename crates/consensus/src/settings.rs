//! How a node behaves in time. Everything follows from two durations.
//!
//! Must not know: clocks.

use std::time::Duration;

use openraft::{Config, SnapshotPolicy};

use crate::error::OpenError;
use crate::limits::{MAX_BATCH_ENTRIES, MAX_WAITING_PROPOSALS};

/// Times and chances of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// How often a leader says that it is still there.
    pub heartbeat: Duration,
    /// A follower that hears nothing for this long, and up to twice as long by chance, asks to lead. At least three heartbeats.
    pub election_timeout: Duration,
    /// How long a full disk is waited for before the node gives up, so that another can lead.
    pub full_disk_patience: Duration,
    /// Where chance comes from. The same seed and the same events give the same elections.
    pub seed: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            heartbeat: Duration::from_millis(100),
            election_timeout: Duration::from_millis(500),
            full_disk_patience: Duration::from_secs(5),
            seed: fastrand::u64(..),
        }
    }
}

/// How long answers are waited for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    pub(crate) vote: Duration,
    pub(crate) append: Duration,
    /// Whoever received a part of a snapshot reads it to say how much it is.
    pub(crate) snapshot: Duration,
}

impl Settings {
    pub(crate) fn patience(&self) -> Patience {
        let timeout = self.election_timeout;
        Patience { vote: timeout, append: timeout, snapshot: timeout * 120 }
    }

    /// How long whoever heard of a leader asks nobody else to lead.
    pub(crate) fn lease(&self) -> Duration {
        self.election_timeout * 2
    }

    /// How long a follower that hears nothing goes on naming its leader: longer than anybody waits who would elect another one.
    pub(crate) fn hearing(&self) -> Duration {
        self.lease() * 2
    }

    /// How long a voter may take to take over.
    pub(crate) fn transfer_patience(&self) -> Duration {
        self.election_timeout * 4
    }

    pub(crate) fn raft_config(&self) -> Result<Config, OpenError> {
        let election_timeout = milliseconds(self.election_timeout);
        if self.heartbeat * 3 > self.election_timeout {
            return Err(OpenError::Settings("an election timeout has at least three heartbeats".to_owned()));
        }
        let config = Config {
            cluster_name: "gapless".to_owned(),
            heartbeat_interval: milliseconds(self.heartbeat),
            election_timeout_min: election_timeout,
            // It is also how long a lease is.
            election_timeout_max: milliseconds(self.lease()),
            // The engine decides when the log is cut; see `Replicator::purge_to`.
            snapshot_policy: SnapshotPolicy::Never,
            max_in_snapshot_log_to_keep: u64::MAX,
            // Followers get entries as long as there are any: a snapshot costs more than any number of them.
            replication_lag_threshold: u64::MAX,
            max_payload_entries: MAX_BATCH_ENTRIES,
            api_channel_size: Some(MAX_WAITING_PROPOSALS as u64),
            enable_pre_vote: Some(true),
            // A leader that was away must be elected again: it cannot know what happened meanwhile.
            enable_leader_restore: Some(false),
            // Leader lease and a whole election fit, so that a leader without a quorum is found out, and writes are refused.
            quorum_loss_probe_interval: Some(election_timeout * 4),
            // A follower that lost the end of its log gets it again; see `probation.rs`. Otherwise it would hold up the leader.
            allow_log_reversion: Some(true),
            ..Config::default()
        };
        config.validate().map_err(|error| OpenError::Settings(error.to_string()))
    }
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX / 8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_valid_and_hasty_elections_are_refused() {
        assert!(Settings::default().raft_config().is_ok());
        let hasty = Settings { election_timeout: Duration::from_millis(200), ..Settings::default() };
        assert!(matches!(hasty.raft_config(), Err(OpenError::Settings(_))));
    }
}
