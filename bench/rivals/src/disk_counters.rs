//! Two counts of bytes written, because neither tells the whole truth.
//!
//! - Process: `write_bytes` of `/proc/self/io`. Only this process is in it, but the kernel counts when a
//!   piece of its page cache becomes dirty, and on recent kernels a piece spans up to 2 MiB where the file
//!   was filled by large writes. A record of 1 KiB then counts as 2 MiB although one block of 4 KiB reaches
//!   the disk.
//! - Device: sectors that the device took, the file system's journal included. True, but everybody's: other
//!   processes must keep off the disk during a run.
//!
//! Must not know: what is measured.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use rustix::fs::{major, minor};

const PROCESS_COUNTERS: &str = "/proc/self/io";

/// The unit of the kernel's block statistics, whatever the sector size of the device.
const SECTOR_LEN: u64 = 512;

/// Position of "sectors written" in the statistics line of a block device.
const SECTORS_WRITTEN_FIELD: usize = 6;

/// Where the counters that concern one directory are found.
#[derive(Debug)]
pub(crate) struct DiskCounters {
    device_statistics: PathBuf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WrittenBytes {
    pub(crate) process: u64,
    /// `None` where the file system is not directly on a block device.
    pub(crate) device: Option<u64>,
}

impl DiskCounters {
    pub(crate) fn of(directory: &Path) -> Result<Self> {
        let device =
            fs::metadata(directory).with_context(|| format!("cannot inspect {}", directory.display()))?.dev();
        let device_statistics = format!("/sys/dev/block/{}:{}/stat", major(device), minor(device)).into();
        Ok(Self { device_statistics })
    }

    /// Bytes since the process and the machine started; threads that have ended are in it.
    pub(crate) fn read(&self) -> Result<WrittenBytes> {
        let process =
            fs::read_to_string(PROCESS_COUNTERS).context("cannot read the counters of this process")?;
        let process = process_bytes(&process).context("the counters of this process lack write_bytes")?;
        let device = fs::read_to_string(&self.device_statistics).ok().as_deref().and_then(device_bytes);
        Ok(WrittenBytes { process, device })
    }
}

impl WrittenBytes {
    pub(crate) fn since(self, earlier: Self) -> Self {
        let device = self.device.zip(earlier.device).map(|(now, then)| now - then);
        Self { process: self.process - earlier.process, device }
    }
}

fn process_bytes(counters: &str) -> Option<u64> {
    counters.lines().find_map(|line| line.strip_prefix("write_bytes: "))?.parse().ok()
}

fn device_bytes(statistics: &str) -> Option<u64> {
    let sectors: u64 = statistics.split_whitespace().nth(SECTORS_WRITTEN_FIELD)?.parse().ok()?;
    Some(sectors * SECTOR_LEN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cancelled_bytes_are_not_mistaken_for_written_ones() {
        let counters = "wchar: 7\ncancelled_write_bytes: 8192\nwrite_bytes: 4096\n";
        assert_eq!(process_bytes(counters), Some(4096));
    }

    #[test]
    fn the_device_counts_in_sectors_of_512_bytes() {
        assert_eq!(device_bytes("  10 11 12 13   20 21 3 23 0 30 31\n"), Some(1536));
        assert_eq!(device_bytes("10 11"), None);
    }

    #[test]
    fn a_device_without_statistics_leaves_the_count_of_the_process() {
        let counters = DiskCounters { device_statistics: PathBuf::from("/nonexistent") };
        let first = counters.read().unwrap();
        let difference = counters.read().unwrap().since(first);
        assert_eq!(difference.device, None);
    }
}
