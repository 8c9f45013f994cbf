//! Where and when something was measured: figures without it say nothing.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use serde::Serialize;

#[derive(Clone, Debug, Serialize)]
pub(crate) struct Machine {
    /// UTC.
    date: String,
    cpus: usize,
    cpu_model: String,
    kernel: String,
    /// Type and options of the file system that was measured.
    filesystem: String,
    /// Load averages when the run began: above 0, others were at work.
    load: String,
}

impl Machine {
    pub(crate) fn of(directory: &Path) -> Result<Self> {
        let directory = directory.canonicalize().context("cannot find the directory to measure in")?;
        let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let first_line =
            |path| fs::read_to_string(path).ok().and_then(|text| text.lines().next().map(str::to_owned));
        let unknown = || "unknown".to_owned();
        Ok(Self {
            date: date_and_time(seconds),
            cpus: thread::available_parallelism().map_or(1, usize::from),
            cpu_model: fs::read_to_string("/proc/cpuinfo")
                .ok()
                .as_deref()
                .and_then(cpu_model)
                .unwrap_or_else(unknown),
            kernel: first_line("/proc/sys/kernel/osrelease").unwrap_or_else(unknown),
            filesystem: fs::read_to_string("/proc/mounts")
                .ok()
                .and_then(|mounts| filesystem_of(&directory, &mounts))
                .unwrap_or_else(unknown),
            load: first_line("/proc/loadavg").unwrap_or_else(unknown),
        })
    }

    /// One line for people.
    pub(crate) fn line(&self) -> String {
        let Self { date, cpus, cpu_model, kernel, filesystem, load } = self;
        let load: Vec<&str> = load.split(' ').take(3).collect();
        let load = load.join(" ");
        format!("{date}, {cpus} CPUs ({cpu_model}), Linux {kernel}, {filesystem}, load {load}")
    }
}

fn cpu_model(cpuinfo: &str) -> Option<String> {
    let line = cpuinfo.lines().find(|line| line.starts_with("model name"))?;
    line.split_once(": ").map(|(_, model)| model.to_owned())
}

/// Type and options of the mount with the longest path above the directory; of several at one place the last one counts.
fn filesystem_of(directory: &Path, mounts: &str) -> Option<String> {
    let mounts = mounts.lines().filter_map(|line| {
        let mut fields = line.split(' ').skip(1);
        let (at, kind, options) = (fields.next()?, fields.next()?, fields.next()?);
        directory.starts_with(at).then(|| (at.len(), format!("{kind} ({options})")))
    });
    mounts.max_by_key(|(length, _)| *length).map(|(_, filesystem)| filesystem)
}

/// Seconds since 1970 as a date and a time of the day in UTC.
fn date_and_time(seconds: u64) -> String {
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    // Years begin in March here, so that the day a leap year adds is their last; eras are 400 years long.
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = era * 400 + year + u64::from(month <= 2);
    let (hour, minute) = (second / 3600, second / 60 % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02} UTC")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_right_around_leap_days_and_at_the_ends_of_years() {
        assert_eq!(date_and_time(0), "1970-01-01 00:00 UTC");
        assert_eq!(date_and_time(951_825_599), "2000-02-29 11:59 UTC");
        assert_eq!(date_and_time(1_709_251_200), "2024-03-01 00:00 UTC");
        assert_eq!(date_and_time(1_767_225_599), "2025-12-31 23:59 UTC");
    }

    #[test]
    fn the_innermost_mount_is_the_file_system_of_a_directory() {
        let mounts = "/dev/a / ext4 rw 0 0\ntmpfs /srv tmpfs rw,size=1k 0 0\n/dev/b /srv/data xfs ro 0 0\n";
        let filesystem = |path| filesystem_of(Path::new(path), mounts).unwrap();
        assert_eq!(filesystem("/srv/data/log"), "xfs (ro)");
        assert_eq!(filesystem("/srv/database"), "tmpfs (rw,size=1k)");
        assert_eq!(filesystem("/home"), "ext4 (rw)");
    }
}
