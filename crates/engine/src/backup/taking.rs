//! Making a backup of a running engine.
//!
//! Invariants
//! - All partitions and domains are caught at the same entry: nothing is dispatched while they are marked.
//! - ISO-1: nobody but the backup waits for a partition; one that has failed ends the backup, with its name.
//! - A view is held until its partition is copied, and no longer; entries are pinned as long as they are copied.
//!
//! Must not know: how a mark gets through a queue.

use std::path::{Component, Path};
use std::sync::{Arc, PoisonError};

use bytes::Bytes;
use gapless_consensus::{Committed, CommittedBody, Term};
use gapless_partition::{Direction, View};
use gapless_projection::Image;
use gapless_types::{LogIndex, PartitionId, PartitionOffset};
use tokio::sync::{oneshot, watch};

use super::directory::Directory;
use super::error::BackupError;
use super::manifest::{FileEntry, Manifest, What, members_of};
use super::piece::PieceWriter;
use super::{BackupOptions, BackupProgress, BackupReport, OnBackupProgress};
use crate::catalog::{StoredCatalog, encode_catalog};
use crate::engine::Engine;
use crate::log_time::LogTime;
use crate::node::Node;
use crate::projections::{DomainSlot, DomainState, ImageRequest};
use crate::retention::{Domain, Pin, PinKind};
use crate::slot::{Mark, Marked, PartitionState, Slot};

/// Outcomes that are read at once.
const PAGE: usize = 256;
/// Bytes of rows or entries that are read at once.
const PAGE_BYTES: u64 = 1 << 20;
/// Times that everything is marked anew because a namespace or a projection was dropped meanwhile.
const MAX_ATTEMPTS: u32 = 8;

impl Engine {
    /// Backs everything up into a directory, in addition to what is there. Writes go on meanwhile.
    ///
    /// # Errors
    /// If there is no backup; those made earlier are as they were.
    pub async fn backup(
        &self,
        dir: &Path,
        options: BackupOptions,
        progress: OnBackupProgress,
    ) -> Result<BackupReport, BackupError> {
        let node = self.node().clone();
        check_path(&node, dir)?;
        let directory = Directory::new(node.io.clone(), dir);
        let (lock, earlier) = {
            let (directory, cluster) = (directory.clone(), node.cluster);
            node.workers.run(move || prepare(&directory, cluster)).await?
        };
        let mut attempts = 1;
        let (manifest, added_files) = loop {
            match self.copy(&directory, options, earlier.last(), &progress).await {
                Err(error) if attempts < MAX_ATTEMPTS && is_of_something_dropped(&node, &error) => {
                    attempts += 1;
                    let (directory, earlier) = (directory.clone(), earlier.clone());
                    node.workers.run(move || directory.remove_leftovers(&earlier)).await?;
                }
                ended => break ended?,
            }
        };
        let report = BackupReport {
            dir: dir.to_path_buf(),
            number: manifest.number,
            index: manifest.index,
            time: manifest.time.as_millis(),
            partitions: manifest.partitions.len(),
            outcomes: manifest.partitions.iter().map(|(_, outcomes)| outcomes).sum(),
            files: manifest.files.len(),
            added_files,
            added_bytes: manifest.added_bytes,
            continuous: manifest.is_continuous(),
        };
        let publish = move || directory.publish(&manifest).map(|()| drop(lock));
        node.workers.run(publish).await?;
        Ok(report)
    }

    /// Copies everything as of now; the manifest, and how many files are new.
    async fn copy(
        &self,
        directory: &Directory,
        options: BackupOptions,
        previous: Option<&Manifest>,
        progress: &OnBackupProgress,
    ) -> Result<(Manifest, usize), BackupError> {
        let pin = previous.and_then(|previous| {
            let from = previous.index.next()?;
            self.retention().pin(PinKind::Reader, from).ok()
        });
        let marks = Marks::set(self.node())?;
        if let Some(previous) = previous.filter(|previous| previous.index > marks.at) {
            return Err(BackupError::Behind { last: previous.index, here: marks.at });
        }
        let copying = Copying {
            node: self.node().clone(),
            directory: directory.clone(),
            options,
            files: Vec::new(),
            added_files: 0,
            added_bytes: 0,
            told: BackupProgress::default(),
            progress: progress.clone(),
        };
        copying.run(marks, previous, pin).await
    }
}

/// Whether it failed because something was dropped that was there when everything was marked.
fn is_of_something_dropped(node: &Node, error: &BackupError) -> bool {
    match error {
        BackupError::Partition { partition, .. } => node.is_dropped(*partition),
        BackupError::Domain { domain, .. } => !node.catalog().has_domain(domain),
        _ => false,
    }
}

/// A path that means the same to everybody, outside the directory of the node.
fn check_path(node: &Node, dir: &Path) -> Result<(), BackupError> {
    let climbs = dir.components().any(|part| matches!(part, Component::ParentDir | Component::CurDir));
    // Simulated disks have no root.
    let simulated = !node.catalog_file.dir().is_absolute();
    if climbs || !(dir.is_absolute() || simulated) {
        return Err(BackupError::NotAbsolute(dir.to_path_buf()));
    }
    if dir.starts_with(node.catalog_file.dir()) || node.catalog_file.dir().starts_with(dir) {
        return Err(BackupError::InsideData(dir.to_path_buf()));
    }
    Ok(())
}

type Lock = Box<dyn gapless_log::io::DirectoryLock>;

/// Takes the directory, looks at the backups in it, and tidies up.
fn prepare(
    directory: &Directory,
    own: gapless_consensus::ClusterId,
) -> Result<(Lock, Vec<Manifest>), BackupError> {
    let lock = directory.lock()?;
    directory.check_ours()?;
    let manifests = directory.manifests()?;
    if let Some(other) = manifests.iter().find(|manifest| manifest.cluster != own) {
        let (dir, found) = (directory.root.clone(), other.cluster);
        return Err(BackupError::OtherCluster { dir, found, own });
    }
    directory.remove_leftovers(&manifests)?;
    Ok((lock, manifests))
}

/// What will come of every partition and domain, all at one entry.
struct Marks {
    at: LogIndex,
    time: LogTime,
    catalog: Bytes,
    views: Vec<(Arc<Slot>, oneshot::Receiver<Marked>)>,
    images: Vec<(Arc<DomainSlot>, oneshot::Receiver<Image>)>,
}

impl Marks {
    fn set(node: &Arc<Node>) -> Result<Self, BackupError> {
        if *node.closing.borrow() {
            return Err(BackupError::Closing);
        }
        let _taking = node.taking.try_read().map_err(|_| BackupError::Installing)?;
        // Nothing is dispatched until everybody has his mark.
        let _between = node.between_entries.lock().unwrap_or_else(PoisonError::into_inner);
        let at = (*node.dispatched.borrow()).ok_or(BackupError::NothingYet)?;
        let (catalog, time) = (node.catalog(), node.core().time);
        let mark = |slot: Arc<Slot>| {
            let (reply, marked) = oneshot::channel();
            slot.mark(Mark { at, reply });
            (slot, marked)
        };
        let views = node.all_slots().into_iter().map(mark).collect();
        let request = |slot: Arc<DomainSlot>| {
            let (reply, image) = oneshot::channel();
            slot.request_image(ImageRequest { at, reply });
            (slot, image)
        };
        let images = node.projections.all().into_iter().map(request).collect();
        let stored = StoredCatalog {
            catalog: (*catalog).clone(),
            covered: Some(at),
            time,
            cluster: Some(node.cluster),
            ..StoredCatalog::default()
        };
        Ok(Self { at, time, catalog: encode_catalog(&stored).into(), views, images })
    }
}

/// Waits for an answer, as long as whoever gives it does well.
async fn answered<T, S: Clone>(
    answer: oneshot::Receiver<T>,
    mut state: watch::Receiver<S>,
    trouble: impl Fn(&S) -> Option<String>,
) -> Result<T, String> {
    let failed = async {
        match state.wait_for(|state| trouble(state).is_some()).await {
            Ok(state) => trouble(&state).unwrap_or_default(),
            Err(_) => "it was closed".to_owned(),
        }
    };
    tokio::select! {
        biased;
        answer = answer => answer.map_err(|_| "it was closed".to_owned()),
        reason = failed => Err(reason),
    }
}

fn partition_trouble(state: &PartitionState) -> Option<String> {
    match state {
        PartitionState::Failed(reason) => Some(format!("it has failed: {reason}")),
        PartitionState::Quarantined(reason) => Some(format!("it is quarantined: {reason}")),
        PartitionState::Closed => Some("it was closed".to_owned()),
        PartitionState::Actualizing | PartitionState::Serving | PartitionState::CatchingUp => None,
    }
}

fn domain_trouble(state: &DomainState) -> Option<String> {
    match state {
        DomainState::Failed(reason) => Some(format!("it has failed: {reason}")),
        DomainState::Quarantined(reason) => Some(format!("it is quarantined: {reason}")),
        DomainState::Closed => Some("it was closed".to_owned()),
        DomainState::Opening | DomainState::Serving | DomainState::CatchingUp => None,
    }
}

/// A backup under way.
struct Copying {
    node: Arc<Node>,
    directory: Directory,
    options: BackupOptions,
    files: Vec<FileEntry>,
    added_files: usize,
    added_bytes: u64,
    told: BackupProgress,
    progress: OnBackupProgress,
}

impl Copying {
    async fn run(
        mut self,
        marks: Marks,
        previous: Option<&Manifest>,
        pin: Option<Pin>,
    ) -> Result<(Manifest, usize), BackupError> {
        let Marks { at, time, catalog, views, images } = marks;
        let mut term = self.node.replicator().leadership().borrow().term;
        let mut held = Vec::new();
        for (slot, marked) in views {
            let partition = slot.id;
            match answered(marked, slot.state.subscribe(), partition_trouble).await {
                Ok(marked) => held.push((partition, marked.view)),
                Err(reason) => return Err(BackupError::Partition { partition, reason }),
            }
        }
        let count = |view: &View| view.applied().map_or(0, PartitionOffset::get);
        let partitions: Vec<(PartitionId, u64)> =
            held.iter().map(|(partition, view)| (*partition, count(view))).collect();
        let known = |partition| previous.map_or(0, |previous| known_outcomes(previous, partition));
        self.told.of = partitions.iter().map(|(partition, all)| all.saturating_sub(known(*partition))).sum();
        if let Some((previous, pin)) = previous.zip(pin) {
            term = self.entries(previous.index, at, pin).await?.unwrap_or(term);
        }
        for (partition, view) in held {
            let kept = previous.into_iter().flat_map(|previous| previous.outcomes_of(partition));
            self.files.extend(kept.cloned());
            self.outcomes(partition, view, known(partition)).await?;
        }
        for (slot, image) in images {
            let image = answered(image, slot.state.subscribe(), domain_trouble).await;
            let image = image.map_err(|reason| BackupError::Domain { domain: slot.id.clone(), reason })?;
            let what = What::Rows(slot.id.clone());
            let same: Vec<FileEntry> = previous
                .into_iter()
                .flat_map(|previous| previous.files.iter())
                .filter(|file| file.what == what && file.first == image.next.get())
                .cloned()
                .collect();
            // A domain that got nothing since is as it was.
            match same.is_empty() {
                true => self.rows(slot.id.clone(), image).await?,
                false => self.files.extend(same),
            }
        }
        let Self { node, mut files, added_files, added_bytes, .. } = self;
        files.sort();
        let manifest = Manifest {
            cluster: node.cluster,
            group: node.group,
            node: node.id,
            number: previous.map_or(1, |previous| previous.number + 1),
            added_bytes,
            index: at,
            term,
            time,
            made_at: u64::try_from(node.clock.wall().as_millis()).unwrap_or(u64::MAX),
            previous: previous.map(|previous| previous.index),
            members: members_of(&node.replicator().members()),
            catalog,
            partitions,
            files,
        };
        Ok((manifest, added_files))
    }

    /// Entries behind the backup before; the term of the last one. None if some of them are gone: then they are of no use.
    async fn entries(
        &mut self,
        after: LogIndex,
        at: LogIndex,
        mut pin: Pin,
    ) -> Result<Option<Term>, BackupError> {
        let Some(first) = after.next().filter(|first| *first <= at) else { return Ok(None) };
        let end = at.next().unwrap_or(LogIndex::MAX);
        let (mut next, mut pieces) = (first, Pieces::new(self, What::Entries));
        let mut term = None;
        while next < end {
            let entries = match self.node.replicator().entries(next, end, PAGE_BYTES).await {
                Ok(entries) if !entries.is_empty() => entries,
                // Cut all the same, because the log was too long: this backup stands alone.
                _ => return Ok(None),
            };
            let last = entries.last().expect("there is one");
            term = Some(last.term);
            next = last.index.next().unwrap_or(end);
            pin.advance(next);
            let from = entries[0].index.get();
            let items = entries.iter().map(encode_entry).collect();
            pieces = self.node.workers.run(move || pieces.put(from, items)).await?;
        }
        let ended = self.node.workers.run(move || pieces.finish(at.get())).await?;
        self.take_in(ended);
        Ok(term)
    }

    /// Outcomes behind those that are known.
    async fn outcomes(&mut self, partition: PartitionId, view: View, known: u64) -> Result<(), BackupError> {
        let Some(last) = view.applied().filter(|last| last.get() > known) else { return Ok(()) };
        let mut next = PartitionOffset::new(known + 1);
        let mut pieces = Pieces::new(self, What::Outcomes(partition));
        while let Some(from) = next.filter(|next| *next <= last) {
            let view = view.clone();
            let (read, put) = self
                .node
                .workers
                .run(move || {
                    let outcomes = view
                        .outcomes(from, PAGE, Direction::Forward)
                        .map_err(|fault| BackupError::Partition { partition, reason: fault.to_string() })?;
                    let items: Vec<Vec<Bytes>> =
                        outcomes.iter().map(|outcome| vec![outcome.bytes().clone()]).collect();
                    let read = items.len() as u64;
                    Ok((read, pieces.put(from.get(), items)?))
                })
                .await?;
            pieces = put;
            next = PartitionOffset::new(from.get() + read);
            self.told.outcomes += read;
            self.tell(pieces.bytes());
            if *self.node.closing.borrow() {
                return Err(BackupError::Closing);
            }
        }
        let ended = self.node.workers.run(move || pieces.finish(last.get())).await?;
        self.take_in(ended);
        Ok(())
    }

    /// All rows of a domain.
    async fn rows(&mut self, domain: Domain, image: Image) -> Result<(), BackupError> {
        let (directory, limit) = (self.directory.clone(), self.options.file_bytes);
        let write = move || {
            let what = What::Rows(domain.clone());
            let (at, mut part, mut files) = (image.next.get(), 0, Vec::new());
            let create = || PieceWriter::create(&directory.io, &directory.root, what.clone(), at);
            let mut writer = create()?;
            for row in image.rows.range(Bytes::new().., Direction::Forward) {
                let (key, value) = row.map_err(|error| BackupError::Domain {
                    domain: domain.clone(),
                    reason: error.to_string(),
                })?;
                let length = u32::try_from(key.len()).expect("keys are shorter than 4 GiB").to_le_bytes();
                writer.put(&[&length, &key, &value])?;
                if writer.length() >= limit {
                    files.push(writer.finish(part)?);
                    part += 1;
                    writer = create()?;
                }
            }
            files.push(writer.finish(part)?);
            Ok(files)
        };
        let files = self.node.workers.run(write).await?;
        self.take_in(files);
        Ok(())
    }

    fn take_in(&mut self, files: Vec<FileEntry>) {
        self.added_files += files.len();
        self.added_bytes += files.iter().map(|file| file.length).sum::<u64>();
        self.files.extend(files);
        self.tell(0);
    }

    /// Tells how far it is, with so many bytes in files that are not ended.
    fn tell(&mut self, bytes: u64) {
        self.told.bytes = self.added_bytes + bytes;
        (self.progress)(self.told);
    }
}

fn known_outcomes(manifest: &Manifest, partition: PartitionId) -> u64 {
    let found = manifest.partitions.binary_search_by_key(&partition, |(known, _)| *known);
    found.map_or(0, |place| manifest.partitions[place].1)
}

fn encode_entry(entry: &Committed) -> Vec<Bytes> {
    let mut head = entry.term.get().to_le_bytes().to_vec();
    match &entry.body {
        // Who the members were says nothing to a cluster that is founded anew.
        CommittedBody::Blank | CommittedBody::Members(_) => {
            head.push(0);
            vec![head.into()]
        }
        CommittedBody::Entry(bytes) => {
            head.push(1);
            vec![head.into(), bytes.clone()]
        }
    }
}

/// Items that are written to files of a bounded length.
struct Pieces {
    directory: Directory,
    what: What,
    limit: u64,
    writer: Option<PieceWriter>,
    ended: Vec<FileEntry>,
}

impl Pieces {
    fn new(copying: &Copying, what: What) -> Self {
        let (directory, limit) = (copying.directory.clone(), copying.options.file_bytes);
        Self { directory, what, limit, writer: None, ended: Vec::new() }
    }

    fn bytes(&self) -> u64 {
        self.ended.iter().map(|file| file.length).sum::<u64>()
            + self.writer.as_ref().map_or(0, PieceWriter::length)
    }

    /// Items with numbers from `first` on.
    fn put(mut self, first: u64, items: Vec<Vec<Bytes>>) -> Result<Self, BackupError> {
        for (number, item) in (first..).zip(items) {
            if let Some(full) = self.writer.take_if(|writer| writer.length() >= self.limit) {
                self.ended.push(full.finish(number - 1)?);
            }
            let Directory { io, root } = &self.directory;
            let writer = match &mut self.writer {
                Some(writer) => writer,
                none => none.insert(PieceWriter::create(io, root, self.what.clone(), number)?),
            };
            let parts: Vec<&[u8]> = item.iter().map(|part| &part[..]).collect();
            writer.put(&parts)?;
        }
        Ok(self)
    }

    /// The last item has this number.
    fn finish(mut self, last: u64) -> Result<Vec<FileEntry>, BackupError> {
        if let Some(writer) = self.writer.take() {
            self.ended.push(writer.finish(last)?);
        }
        Ok(self.ended)
    }
}
