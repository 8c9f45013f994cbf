//! A backup whose files were changed by arbitrary bytes, restored as a whole: it is refused with what is wrong, or what comes of it is
//! what was backed up, or the beginning of that. With all checksums made right it is whatever somebody wrote down who knows the form:
//! nothing panics, and a node opens it or says why not.
//!
//! ```text
//!  which moment (1) │ steps: which file (1), what (1), where (2), with what (1)
//! ```
//!
//! A plain function, so that the fuzzer and the bounded test of `crates/engine` run the same code.

#![allow(dead_code, reason = "each fuzz target uses one of the functions")]

use std::cell::Cell;
use std::collections::BTreeMap;
use std::num::NonZeroU16;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Once, OnceLock};
use std::time::Duration;

use gapless_engine::fuzzing::seal_backup;
use gapless_engine::log_time::Clock;
use gapless_engine::partition::{Definition, Direction, Operation, Scratch, Write};
use gapless_engine::projection::Plan;
use gapless_engine::types::{IdempotencyKey, LogIndex, Name, PartitionId, PartitionOffset, WorkspaceId};
use gapless_engine::verify::{Depth, verify_node};
use gapless_engine::{
    BackupError, BackupOptions, Config, Consistency, Engine, NodeId, ReadOptions, RestoreError,
    RestoreOptions, RestorePoint, WriteOptions, restore,
};
use gapless_log::Drive;
use gapless_log::io::memory::MemoryIo;
use gapless_log::io::{Io, OpenMode, read_exact_at};

const BACKUPS: &str = "backups";
const RESTORED: &str = "restored";
/// Enough to hit a few things at once, and few enough to be fast.
const MAX_STEPS: usize = 8;
/// Bytes of a step.
const STEP_BYTES: usize = 5;
/// Nobody waits for longer; the time is that of the runtime, which does not wait.
const LONG: Duration = Duration::from_secs(600);

/// A clock that runs with the runtime's time.
#[derive(Debug)]
struct RuntimeClock(tokio::time::Instant);

impl Clock for RuntimeClock {
    fn wall(&self) -> Duration {
        Duration::from_secs(1_000_000) + self.0.elapsed()
    }

    fn monotonic(&self) -> Duration {
        self.0.elapsed()
    }
}

/// A node in a directory, in one thread.
fn config(disk: &MemoryIo, dir: &str) -> Config {
    let mut config = Config::embedded(dir);
    config.io = Arc::new(disk.clone()) as Arc<dyn Io>;
    config.log.drive = Drive::Caller;
    config.log.segment_bytes = 64 << 10;
    config.log.first_segment_bytes = 64 << 10;
    config.partitions.log.segment_bytes = 64 << 10;
    config.partitions.log.first_segment_bytes = 64 << 10;
    config.housekeeping.checkpoint_interval = Duration::from_millis(200);
    config.on_threads = false;
    config.clock = Arc::new(RuntimeClock(tokio::time::Instant::now()));
    config
}

fn in_runtime<T>(run: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.expect("there are threads").block_on(run)
}

/// Outcomes of every partition, with the entries they are of.
type Contents = BTreeMap<PartitionId, Vec<(LogIndex, Vec<u8>)>>;

/// Two backups on a disk, and what the second one is of.
struct Base {
    disk: MemoryIo,
    files: Vec<(PathBuf, Vec<u8>)>,
    contents: Contents,
}

fn base() -> &'static Base {
    static BASE: OnceLock<Base> = OnceLock::new();
    BASE.get_or_init(|| in_runtime(Base::new()))
}

impl Base {
    async fn new() -> Self {
        let disk = MemoryIo::new();
        let engine = Engine::open(config(&disk, "node")).await.expect("memory is a disk");
        engine.wait_for_leader().await;
        engine.define(counting_shop()).await.expect("it is defined");
        engine.wait_until_actualized().await;
        for backup in 0..2 {
            for number in backup * 24..(backup + 1) * 24 {
                sell(&engine, number).await;
            }
            // Projections follow by themselves.
            tokio::time::sleep(Duration::from_secs(1)).await;
            let options = BackupOptions { file_bytes: 4 << 10 };
            engine.backup(Path::new(BACKUPS), options, Arc::new(|_| {})).await.expect("it is made");
        }
        let contents = contents(&engine).await.expect("it serves");
        engine.close().await;
        Self { files: files(&disk, Path::new(BACKUPS)), disk, contents }
    }
}

/// Two partitions, and a table that counts by rules.
fn counting_shop() -> Definition {
    let name = |name: &str| Name::new(name).expect("a name");
    let mut shop = Definition::new(name("shop"), NonZeroU16::new(2).expect("not 0"));
    shop.kinds.entry(name("default")).or_default().insert(name("invoice"), 1);
    let plan = serde_json::json!({"rules": {
        "ItemSold": {"kind": "upsert", "entity": "sold", "id": "all",
            "set": {"total": {"add": [{"row": "total"}, {"event": "amount"}]}, "last": {"event": "amount"}}},
    }});
    shop.with_projection(name("sold"), Plan::from_json(&plan).expect("a plan").to_text())
}

async fn sell(engine: &Engine, number: u64) {
    let sale = Write {
        payload: b"{\"amount\":3}",
        operations: vec![Operation::NextNumber { sequence: "invoice" }],
        ..Write::new(WorkspaceId::new(number % 4), "till", "ItemSold")
    };
    let key = IdempotencyKey::new((u128::from(number) + 1).to_be_bytes()).expect("not 0");
    let options = WriteOptions { patience: LONG };
    engine.write("shop", key, &sale, options).await.expect("nothing else is done");
}

/// All files below a directory, with their content.
fn files(disk: &MemoryIo, dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    for name in disk.list(dir).expect("it is there") {
        let path = dir.join(name);
        let file = disk.open(&path, OpenMode::Read).expect("it is there");
        let length = file.len().expect("it has a length");
        let mut bytes = vec![0; usize::try_from(length).expect("it is short")];
        read_exact_at(&*file, &mut bytes, 0).expect("it is as long");
        found.push((path, bytes));
    }
    for name in disk.list_dirs(dir).expect("it is there") {
        found.extend(files(disk, &dir.join(name)));
    }
    found.sort();
    found
}

/// What every partition has; none if one of them cannot be read.
async fn contents(engine: &Engine) -> Option<Contents> {
    let mut all = Contents::new();
    for report in engine.partitions() {
        let options = ReadOptions { consistency: Consistency::Stale, patience: LONG };
        let view = engine.view(report.partition, options).await.ok()?;
        let (mut found, mut next) = (Vec::new(), Some(PartitionOffset::FIRST));
        while let Some(from) = next {
            let page = view.outcomes(from, 1000, Direction::Forward).ok()?;
            next = page.last().and_then(|last| last.offset().next());
            found.extend(page.iter().map(|outcome| (outcome.header().log_index, outcome.bytes().to_vec())));
        }
        all.insert(report.partition, found);
    }
    Some(all)
}

/// Does what the bytes say to the files of a backup.
fn damage(disk: &MemoryIo, files: &[(PathBuf, Vec<u8>)], steps: &[u8]) {
    for step in steps.chunks_exact(STEP_BYTES).take(MAX_STEPS) {
        let [which, what, low, high, with] = *step else { continue };
        let (path, bytes) = &files[usize::from(which) % files.len()];
        let at = usize::from(u16::from_le_bytes([low, high])) % bytes.len().max(1);
        let place = at as u64;
        // One that was removed before stays away.
        let _ = match what % 8 {
            0 => disk.overwrite(path, place, &[bytes.get(at).copied().unwrap_or(0) ^ (1 << (with % 8))]),
            1 => disk.overwrite(path, place, &[with]),
            2 => disk.overwrite(path, place, &u32::from_le_bytes([with; 4]).to_le_bytes()),
            3 => disk.set_len(path, place),
            4 => disk.overwrite(path, bytes.len() as u64, &vec![with; at % 64 + 1]),
            5 => {
                // A part of another file, or of this one.
                let (_, other) = &files[usize::from(with) % files.len()];
                let part = other.iter().skip(at % other.len().max(1)).take(40).copied().collect::<Vec<_>>();
                disk.overwrite(path, place, &part)
            }
            6 => {
                // All of another file.
                let (_, other) = &files[usize::from(with) % files.len()];
                disk.set_len(path, 0).and_then(|()| disk.overwrite(path, 0, other))
            }
            _ => disk.remove(path),
        };
    }
}

fn restored(disk: &MemoryIo, point: RestorePoint) -> Result<LogIndex, RestoreError> {
    let config = config(disk, RESTORED);
    let mut options = RestoreOptions::new(NodeId::new(1), "embedded", 7);
    (options.point, options.log, options.partitions) = (point, config.log, config.partitions);
    let report = restore(&config.io, Path::new(BACKUPS), Path::new(RESTORED), &options, &mut |_| {})?;
    Ok(report.index)
}

/// A whole restore of what the bytes make of a backup.
pub fn backup(data: &[u8]) {
    let base = base();
    let (choice, steps) = data.split_first().unwrap_or((&0, &[]));
    let point = match choice % 4 {
        0 | 1 => RestorePoint::Latest,
        2 => RestorePoint::Index(LogIndex::new(u64::from(choice / 4))),
        _ => RestorePoint::Time(1_000_000_000 + u64::from(choice / 4) * 50),
    };
    count_panics();
    for is_sealed in [false, true] {
        let disk = base.disk.fork();
        damage(&disk, &base.files, steps);
        if is_sealed {
            seal_backup(&disk, Path::new(BACKUPS));
        }
        in_runtime(check(&disk, point, base, is_sealed));
        assert_eq!(PANICS.take(), 0, "something panicked, and nobody was told");
    }
}

async fn check(disk: &MemoryIo, point: RestorePoint, base: &Base, is_sealed: bool) {
    let index = match restored(disk, point) {
        Ok(index) => index,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            if let RestoreError::Backup(BackupError::Damaged { path, .. }) = &error {
                assert!(path.starts_with(BACKUPS), "{error}");
            }
            let is_whole = !is_sealed && files(disk, Path::new(BACKUPS)) == base.files;
            let is_none = matches!(error, RestoreError::NoSuchPoint { .. });
            assert!(!is_whole || is_none, "nothing was changed, and it is refused: {error}");
            return;
        }
    };
    if !is_sealed {
        let io = Arc::new(disk.clone()) as Arc<dyn Io>;
        let scratch = Scratch { io: Arc::new(MemoryIo::new()), dir: PathBuf::from("scratch") };
        let verified = verify_node(&io, Path::new(RESTORED), &scratch, Depth::Full, &mut |_| {});
        let verified = verified.expect("it is a node");
        assert!(verified.is_sound(), "{:?}", verified.findings);
    }
    let engine = match Engine::open(config(disk, RESTORED)).await {
        Ok(engine) => engine,
        Err(error) => {
            assert!(is_sealed, "what was restored is no node: {error}");
            return;
        }
    };
    let is_up = tokio::time::timeout(LONG, async {
        engine.wait_for_leader().await;
        engine.wait_until_actualized().await;
    });
    let is_up = is_up.await.is_ok();
    let found = if is_up { contents(&engine).await } else { None };
    engine.close().await;
    if !is_sealed {
        assert_eq!(found, Some(up_to(&base.contents, index)), "it is what was backed up");
    }
}

/// What of it is in entries up to this one.
fn up_to(contents: &Contents, index: LogIndex) -> Contents {
    let mut contents = contents.clone();
    for outcomes in contents.values_mut() {
        outcomes.retain(|(at, _)| *at <= index);
    }
    // Before its first outcome a partition is not there.
    contents.retain(|_, outcomes| !outcomes.is_empty());
    contents
}

thread_local! {
    /// Panics of this thread: one in a task of the runtime ends that task, and nothing else.
    static PANICS: Cell<u32> = const { Cell::new(0) };
}

fn count_panics() {
    static COUNTED: Once = Once::new();
    COUNTED.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            PANICS.set(PANICS.get() + 1);
            before(panic);
        }));
    });
    PANICS.set(0);
}
