//! The disk of the tests: a memory disk that does what disks do on their worst days.
//!
//! Operations that change something are numbered from 1: opening with [`OpenMode::Create`], writing, reserving,
//! syncing, renaming, removing a file or a directory, syncing a directory. Faults are planned for a number and strike once, at the first
//! operation with that number or a higher one that they fit. A write of no bytes is no operation.
//!
//! Invariants
//! - The same seed, plan and sequence of operations give the same bytes, the same trace and the same errors. Reads
//!   draw from a generator of their own, so that readers on other threads disturb nobody.
//! - What was synced, and not hit by a lie or by rot, survives every kind of crash.
//! - Whatever is done to the data behind the caller's back stands in [`FaultyIo::injected`].
//!
//! Must not know: segments, frames, records.

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};

use rustix::io::Errno;

use self::controls::{Controls, Interrupted, Verdict};
use self::crash::CrashFate;
use self::file::FaultyFile;
use super::memory::disk::Disk;
use super::memory::{MemoryIo, power_cut_error};
use super::{DirectoryLock, File, Io, OpenMode};

pub use self::crash::Crash;
pub use self::journal::{Injected, InjectedKind, Landing, Operation, OperationKind};
pub use self::plan::Fault;
pub use super::memory::{PowerCut, is_power_cut};

mod controls;
mod crash;
mod file;
mod journal;
mod plan;
mod rot;

/// A disk that fails as planned. Clones are the same disk; [`FaultyIo::fork`] makes another one.
#[derive(Clone)]
pub struct FaultyIo {
    memory: MemoryIo,
    controls: Arc<Mutex<Controls>>,
}

/// Settings.
impl FaultyIo {
    /// An empty disk on which nothing fails yet.
    pub fn new(seed: u64) -> Self {
        Self { memory: MemoryIo::new(), controls: Arc::new(Mutex::new(Controls::new(seed))) }
    }

    /// Another disk with the same content, durable and pending alike, the same power, capacity and manners. Its
    /// generator starts from `seed`, its operations from 1; nothing is planned, traced or journalled.
    #[must_use]
    pub fn fork(&self, seed: u64) -> Self {
        let controls = self.controls().fork(seed);
        Self { memory: self.memory.fork(), controls: Arc::new(Mutex::new(controls)) }
    }

    /// The disk below, for its counters and for looking at it.
    pub fn memory(&self) -> &MemoryIo {
        &self.memory
    }

    /// Cuts the power during the `number`-th operation, which happens in part or not at all. From then on everything
    /// fails with an error that [`is_power_cut`] knows, until [`FaultyIo::restart`].
    pub fn cut_at(&self, number: u64) {
        self.controls().plan.cut_at(number);
    }

    /// Fails the `number`-th operation if the fault fits it, or else the next that it fits, with an error like `EIO`.
    ///
    /// A write that fails may have written any part of its bytes. A sync that fails, of a file or of a directory, has
    /// made any part of what was pending durable and has dropped the rest: it can still be read, but no later sync
    /// carries it over. Everything else that fails has changed nothing.
    pub fn fail_at(&self, number: u64, fault: impl Into<Fault>) {
        self.controls().plan.fail_at(number, fault.into());
    }

    /// Loses the `number`-th operation if it is a write, or else the next write: it reports success, but its bytes
    /// get nowhere. The length still grows, since the file system keeps that elsewhere.
    pub fn lose_write_at(&self, number: u64) {
        self.controls().plan.lose_write_at(number);
    }

    /// Misdirects the `number`-th operation if it is a write, or else the next write: it reports success, but its
    /// bytes land at another aligned place of the same file or in another file of the directory, at once and
    /// durably. Without such a place it is lost instead.
    pub fn misdirect_write_at(&self, number: u64) {
        self.controls().plan.misdirect_write_at(number);
    }

    /// Forgets all planned faults that have not struck.
    pub fn cancel_faults(&self) {
        self.controls().plan.clear();
    }

    /// So many percent of the writes write only a part, as they may.
    pub fn short_writes(&self, percent: u8) {
        assert!(percent <= 100, "a probability in percent");
        self.controls().short_writes = percent;
    }

    /// So many percent of the reads read only a part, as they may.
    pub fn short_reads(&self, percent: u8) {
        assert!(percent <= 100, "a probability in percent");
        self.controls().short_reads = percent;
    }

    /// So many percent of the reads and writes are interrupted before they do anything.
    pub fn interrupts(&self, percent: u8) {
        assert!(percent < 100, "an operation that is always interrupted never ends");
        self.controls().interrupts = percent;
    }

    /// Limits the sum of all files' lengths. Reservations and writes that would exceed it fail with
    /// [`io::ErrorKind::StorageFull`] and change nothing, until there is room again.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.controls().capacity = bytes;
    }

    /// Cuts the power unless that has happened, lets `style` decide about everything pending, and gives power again.
    /// Handles and locks from before are dead. Planned faults that have not struck stay planned.
    pub fn restart(&self, style: Crash) {
        let mut controls = self.controls();
        let interrupted = controls.restore_power();
        let mut fate = CrashFate { style, interrupted, rng: &mut controls.rng };
        self.memory.disk().power_cut(&mut fate);
    }
}

/// Reports.
impl FaultyIo {
    /// How many operations there were since the start or the last reset.
    pub fn operations(&self) -> u64 {
        self.controls().operations()
    }

    /// Makes the next operation number 1 again and clears the trace. Planned faults keep their numbers.
    pub fn reset_operations(&self) {
        self.controls().reset_operations();
    }

    /// Whether the power is on.
    pub fn has_power(&self) -> bool {
        self.controls().check_power().is_ok()
    }

    /// All operations in order, those included that failed.
    pub fn trace(&self) -> Vec<Operation> {
        self.controls().trace.clone()
    }

    /// Everything that was done wrong on purpose, in order.
    pub fn injected(&self) -> Vec<Injected> {
        self.controls().injected.clone()
    }
}

impl FaultyIo {
    fn controls(&self) -> MutexGuard<'_, Controls> {
        self.controls.lock().expect("nothing panics while it holds the controls")
    }

    /// The controls of a disk that has power. They are always taken before the disk below.
    fn powered(&self) -> io::Result<MutexGuard<'_, Controls>> {
        let controls = self.controls();
        controls.check_power()?;
        Ok(controls)
    }

    fn change_names<Changed>(
        &self,
        operation: Operation,
        change: impl FnOnce(&mut Disk) -> io::Result<Changed>,
    ) -> io::Result<Changed> {
        let mut controls = self.powered()?;
        let mut disk = self.memory.disk();
        match controls.begin(operation) {
            Verdict::Proceed => change(&mut disk),
            Verdict::Fail => Err(input_output_error()),
            Verdict::Cut => {
                if controls.rng.bool() {
                    // Whether it would have worked interests nobody any more.
                    let _ = change(&mut disk);
                }
                Err(power_cut_error())
            }
        }
    }
}

impl fmt::Debug for FaultyIo {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("FaultyIo").finish_non_exhaustive()
    }
}

impl Io for FaultyIo {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn File>> {
        let handle = match mode {
            OpenMode::Read | OpenMode::Write => {
                let _powered = self.powered()?;
                self.memory.disk().open(path, mode)?
            }
            OpenMode::Create => {
                let operation = Operation::on(OperationKind::Create, path);
                self.change_names(operation, |disk| disk.open(path, mode))?
            }
        };
        Ok(Arc::new(FaultyFile::new(self.clone(), self.memory.file_of(handle))))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.change_names(Operation::renaming(from, to), |disk| disk.rename(from, to))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.change_names(Operation::on(OperationKind::Remove, path), |disk| disk.remove(path))
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let _powered = self.powered()?;
        self.memory.list(dir)
    }

    fn list_dirs(&self, dir: &Path) -> io::Result<Vec<String>> {
        let _powered = self.powered()?;
        self.memory.list_dirs(dir)
    }

    fn create_dir(&self, dir: &Path) -> io::Result<()> {
        let _powered = self.powered()?;
        self.memory.create_dir(dir)
    }

    fn remove_dir(&self, dir: &Path) -> io::Result<()> {
        self.change_names(Operation::on(OperationKind::RemoveDir, dir), |disk| disk.remove_dir(dir))
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        let mut controls = self.powered()?;
        let mut disk = self.memory.disk();
        match controls.begin(Operation::on(OperationKind::SyncDir, dir)) {
            Verdict::Proceed => disk.sync_dir(dir),
            Verdict::Fail => {
                disk.fail_sync_dir(dir, |pending| crash::some_in_order(pending, &mut controls.rng))?;
                Err(input_output_error())
            }
            Verdict::Cut => {
                controls.interrupt(Interrupted::Names(dir.to_owned()));
                Err(power_cut_error())
            }
        }
    }

    fn lock(&self, dir: &Path) -> io::Result<Box<dyn DirectoryLock>> {
        let _powered = self.powered()?;
        self.memory.lock(dir)
    }
}

fn input_output_error() -> io::Error {
    Errno::IO.into()
}
