//! The memory that this process has resident, and the most it has had.

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

/// What of this process is in memory.
pub(crate) fn resident_bytes() -> Result<u64> {
    const PAGE_BYTES: u64 = 4096;
    let text = fs::read_to_string("/proc/self/statm").context("cannot tell how much memory is used")?;
    let pages = text.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok());
    Ok(pages.context("cannot tell how much memory is used")? * PAGE_BYTES)
}
