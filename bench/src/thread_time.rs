//! Processor time of this process by the names of its threads, and of the whole machine: which step of the corridor keeps a processor
//! busy, and whether there is any left.
//!
//! Must not know: what a thread does.

use std::fs;
use std::time::Duration;

use serde::Serialize;

/// What the kernel counts processor time of threads in.
const TICK: Duration = Duration::from_millis(10);
/// Where the fields of `/proc/self/task/N/stat` that count time stand, behind the name in its brackets.
const USER_AND_SYSTEM: [usize; 2] = [11, 12];

/// Processors, by what they were busy with; or the time that they were.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Busy<T> {
    /// Threads that partitions are applied on.
    pub(crate) applying: T,
    /// Threads of the runtime: consensus, and those who write.
    pub(crate) runtime: T,
    /// The thread that writes the replicated log.
    pub(crate) log: T,
    /// Whatever ran on this machine, in this process, in the system or in others.
    pub(crate) machine: T,
}

impl Busy<Duration> {
    /// Since the process began. Threads that have ended do not count; on systems that do not tell, nothing does.
    pub(crate) fn now() -> Self {
        let mut busy = Self::default();
        let threads = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
        for stat in threads.filter_map(|thread| fs::read_to_string(thread.path().join("stat")).ok()) {
            if let Some((name, time)) = time_of(&stat) {
                busy.add(name, time);
            }
        }
        let machine = fs::read_to_string("/proc/stat").ok().and_then(|stat| time_of_all(&stat));
        busy.machine = machine.unwrap_or_default();
        busy
    }

    /// How many processors that is, over so long.
    pub(crate) fn since(self, before: Self, elapsed: Duration) -> Busy<f64> {
        let share = |now: Duration, before| now.saturating_sub(before).as_secs_f64() / elapsed.as_secs_f64();
        Busy {
            applying: share(self.applying, before.applying),
            runtime: share(self.runtime, before.runtime),
            log: share(self.log, before.log),
            machine: share(self.machine, before.machine),
        }
    }

    fn add(&mut self, name: &str, time: Duration) {
        match name {
            "work" => self.applying += time,
            "log-writer" => self.log += time,
            name if name.starts_with("tokio") => self.runtime += time,
            _ => {}
        }
    }
}

/// The name of a thread and the time it took. A name can hold brackets and spaces of its own.
fn time_of(stat: &str) -> Option<(&str, Duration)> {
    let (name, fields) = stat.split_once('(')?.1.rsplit_once(") ")?;
    let fields: Vec<&str> = fields.split(' ').collect();
    let ticks = USER_AND_SYSTEM.map(|field| fields.get(field)?.parse::<u32>().ok());
    let [Some(user), Some(system)] = ticks else { return None };
    Some((name, TICK * user.checked_add(system)?))
}

/// The time that all processors together were not idle. Waiting for a disk is idle.
fn time_of_all(stat: &str) -> Option<Duration> {
    let fields = stat.lines().next()?.strip_prefix("cpu ")?.split_ascii_whitespace();
    let fields: Vec<u64> = fields.map_while(|field| field.parse().ok()).collect();
    // What guests take is in the first two already.
    let [user, nice, system, _idle, _waiting, interrupts, soft_interrupts, stolen, ..] = fields[..] else {
        return None;
    };
    let ticks = user + nice + system + interrupts + soft_interrupts + stolen;
    Some(TICK * u32::try_from(ticks).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_a_thread_is_found_whatever_it_is_called() {
        let rest = "S 1 2 3 0 -1 4194304 11 0 0 0 150 25 0 0 20 0 5 0 123";
        let time = Duration::from_millis(1750);
        assert_eq!(time_of(&format!("7 (work) {rest}")), Some(("work", time)));
        assert_eq!(time_of(&format!("7 (a) b (c) {rest}")), Some(("a) b (c", time)));
        for wrong in ["", "7 work S", "7 (work) S 1 2", "7 (work) S 1 2 3 0 -1 4 11 0 0 0 x 25 0"] {
            assert_eq!(time_of(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn idle_processors_and_those_that_wait_for_a_disk_are_not_busy() {
        let stat = "cpu  100 20 30 4000 500 6 7 8 90 0\ncpu0 1 2 3 4 5 6 7 8 9 0\n";
        assert_eq!(time_of_all(stat), Some(TICK * 171));
        for wrong in ["", "cpu 1 2 3", "cpux 1 2 3 4 5 6 7 8 9 0"] {
            assert_eq!(time_of_all(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn threads_count_by_what_they_do() {
        let mut busy = Busy::default();
        for (name, seconds) in
            [("work", 1), ("work", 2), ("log-writer", 4), ("tokio-rt-worker", 8), ("x", 16)]
        {
            busy.add(name, Duration::from_secs(seconds));
        }
        let share = busy.since(Busy::default(), Duration::from_secs(10));
        assert_eq!(share, Busy { applying: 0.3, runtime: 0.8, log: 0.4, machine: 0.0 });
    }
}
