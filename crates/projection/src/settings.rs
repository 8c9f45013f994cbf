//! How a domain behaves: what the definition of a projection can set, with the defaults of the design.
//!
//! Must not know: rules, slots.

use thiserror::Error;

use crate::limits::{MAX_CHUNK_ROWS, MAX_TTL_CAP_MS, MAX_WINDOW};

/// Settings of a domain. They never change while it lives: another setting is another version of the projection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// How far leases run ahead of the watermark, in slots.
    pub window: u64,
    /// Longest lease, in milliseconds.
    pub max_ttl_ms: u64,
    /// Renewals of one grant.
    pub max_renewals: u32,
    /// Grants of one slot that may end badly.
    pub max_attempts: u32,
    /// What becomes of a slot whose attempts are used up.
    pub on_exhausted: OnExhausted,
    /// What becomes of a claimed slot whose lease has expired.
    pub on_expiry: OnExpiry,
    /// Back-off after the first attempt that failed, in milliseconds; doubled with each.
    pub backoff_ms: u64,
    /// Longest back-off, in milliseconds.
    pub backoff_cap_ms: u64,
    /// Never two unresolved slots of one key at work.
    pub key_serial: bool,
    /// An exhausted slot takes the later ones of its key along.
    pub park_key: bool,
    /// Rows of an effect that are counted as one chunk.
    pub chunk: usize,
}

/// What becomes of a slot whose attempts are used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnExhausted {
    /// It is filled: a dead letter.
    Fill,
    /// The domain stands still until an operator skips something.
    Halt,
}

/// What becomes of a claimed slot whose lease has expired. An allocated one is always filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnExpiry {
    /// It is granted again.
    Reclaim,
    /// It is filled: a dead letter.
    Fill,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            window: 1024,
            max_ttl_ms: 600_000,
            max_renewals: 6,
            max_attempts: 10,
            on_exhausted: OnExhausted::Fill,
            on_expiry: OnExpiry::Reclaim,
            backoff_ms: 0,
            backoff_cap_ms: 300_000,
            key_serial: false,
            park_key: false,
            chunk: MAX_CHUNK_ROWS,
        }
    }
}

/// A setting beyond its limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("{name} is {value}, not from {least} to {most}")]
pub struct InvalidSetting {
    /// Which.
    pub name: &'static str,
    /// What it is.
    pub value: u64,
    /// The least it can be.
    pub least: u64,
    /// The most it can be.
    pub most: u64,
}

impl Settings {
    /// # Errors
    /// The first setting that is beyond its limit.
    pub fn check(&self) -> Result<(), InvalidSetting> {
        let attempts = u64::from(self.max_attempts);
        for (name, value, least, most) in [
            ("window", self.window, 1, MAX_WINDOW),
            ("max_ttl_ms", self.max_ttl_ms, 1, MAX_TTL_CAP_MS),
            ("max_attempts", attempts, 1, u64::from(u32::MAX)),
            ("chunk", self.chunk as u64, 1, MAX_CHUNK_ROWS as u64),
        ] {
            if !(least..=most).contains(&value) {
                return Err(InvalidSetting { name, value, least, most });
            }
        }
        Ok(())
    }

    /// How long a slot rests after so many attempts.
    pub(crate) fn backoff_after(&self, attempts: u32) -> u64 {
        let doublings = attempts.saturating_sub(1);
        let factor = 1_u64.checked_shl(doublings).unwrap_or(u64::MAX);
        self.backoff_ms.saturating_mul(factor).min(self.backoff_cap_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn back_off_doubles_up_to_its_cap_and_never_overflows() {
        let settings = Settings { backoff_ms: 1000, backoff_cap_ms: 5000, ..Settings::default() };
        assert_eq!(
            [1, 2, 3, 4, 64, 65, u32::MAX].map(|n| settings.backoff_after(n)),
            [1000, 2000, 4000, 5000, 5000, 5000, 5000]
        );
        assert_eq!(Settings::default().backoff_after(9), 0);
    }

    #[test]
    fn what_is_beyond_a_limit_is_named() {
        assert_eq!(Settings::default().check(), Ok(()));
        let none = Settings { window: 0, ..Settings::default() };
        assert_eq!(none.check().unwrap_err().to_string(), "window is 0, not from 1 to 65536");
        assert!(Settings { max_attempts: 0, ..Settings::default() }.check().is_err());
        assert!(Settings { chunk: 0, ..Settings::default() }.check().is_err());
        assert!(Settings { max_ttl_ms: 0, ..Settings::default() }.check().is_err());
    }
}
