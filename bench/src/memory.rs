//! The most memory that this process has had resident.

use std::fs;

use anyhow::{Context, Result};

/// Forgets what was the most so far.
pub(crate) fn reset_peak() -> Result<()> {
    fs::write("/proc/self/clear_refs", "5").context("cannot reset the count of memory")
}

/// The most since then.
pub(crate) fn peak_bytes() -> Result<u64> {
    let status = fs::read_to_string("/proc/self/status").context("cannot tell how much memory is used")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).context("no VmHWM in it")?;
    let kibibytes = line.trim().trim_end_matches(" kB").parse::<u64>().context("VmHWM is no number")?;
    Ok(kibibytes * 1024)
}
