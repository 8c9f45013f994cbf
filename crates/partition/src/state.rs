//! Step e: the rows that an event changes. Applying a write and folding a stored event walk through here, so that both come to
//! the same state.
//!
//! Must not know: whether the write was allowed, where the numbers came from.

use std::collections::BTreeMap;

use bytes::Bytes;
use gapless_proof::Hash;
use gapless_store::Batch;
use gapless_types::mistakes::{Mistake, makes};
use gapless_types::{PartitionId, RecordId, WorkspaceId, WorkspaceOffset};

use crate::definition::{IdempotencyRule, TrustLevel};
use crate::error::Fault;
use crate::hashes;
use crate::idempotency::{self, Memory};
use crate::outcome::Header;
use crate::rows;
use crate::rows::entity::EntityRow;
use crate::rows::record::RecordRow;
use crate::schema::Schema;
use crate::shared_store::SharedStore;
use crate::tiles::Tiles;
use crate::trust::{self, Ends, Entry};
use crate::write::{NewId, Operation, Value, Write};

/// Rows as they are before an outcome.
pub(crate) trait Reads {
    /// The value of a key.
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, Fault>;
}

/// Puts the schema into a batch.
pub(crate) fn put_schema(partition: PartitionId, schema: &Schema, batch: &mut Batch) -> Result<(), Fault> {
    let mut value = Vec::new();
    schema.encode(&mut value);
    Ok(batch.put(&rows::schema::key(partition.namespace), &value)?)
}

/// What rows depend on besides the outcome.
pub(crate) struct Context<'a> {
    pub(crate) partition: PartitionId,
    /// As it is before the outcome.
    pub(crate) schema: Option<&'a Schema>,
    pub(crate) store: &'a SharedStore,
    pub(crate) ends: Ends,
}

impl Context<'_> {
    fn level(&self) -> TrustLevel {
        self.schema.map_or(TrustLevel::default(), |schema| schema.definition().trust_level)
    }

    /// Whether no event of a workspace is at this offset or behind it, if the level of the namespace wants to know.
    pub(crate) fn end_before(&self, workspace: WorkspaceId, offset: WorkspaceOffset) -> bool {
        let key = rows::index::key(self.partition.namespace, workspace, offset.get());
        self.level() != TrustLevel::TrustAll && trust::ends_before(&self.store.lock(), &key)
    }

    /// Refuses to write over an entry that the level of the namespace checks.
    fn check(&self, entry: Entry, key: &[u8], expected: &[u8]) -> Result<(), Fault> {
        trust::check(self.level(), self.ends, entry, key, expected, self.store)
    }

    /// For how long keys are known.
    fn rule(&self) -> IdempotencyRule {
        self.schema.map_or(IdempotencyRule::default(), |schema| schema.definition().idempotency)
    }

    /// Which keys count.
    pub(crate) fn memory(&self) -> Memory {
        let forgotten_before = self.schema.map_or(0, Schema::forgotten_before);
        Memory { window_ms: self.rule().window_ms, forgotten_before }
    }

    /// Puts all rows of an outcome into a batch: that it exists, what an event changes, and that its key is decided. `outcome`
    /// is all of it, as it stands in the partition log.
    pub(crate) fn rows_of(
        &self,
        header: &Header<'_>,
        outcome: &[u8],
        write: Option<&Write<'_>>,
        tiles: &mut Tiles,
        batch: &mut Batch,
    ) -> Result<(), Fault> {
        let entry = Entry::Outcome(header.partition_offset);
        let value = rows::outcome::value(header.log_index, &header.digest);
        let key = rows::outcome::key(self.partition, header.partition_offset);
        self.check(entry, &key, &value)?;
        batch.put(&key, &value)?;
        if let Some(write) = write {
            change(self, header, outcome, write, tiles, batch)?;
        }
        let rule = self.rule();
        if makes(Mistake::CounterEvictedWithKey) {
            let oldest = self.store.lock().buckets().next();
            if oldest.is_some_and(|(oldest, _)| header.time.saturating_sub(oldest.0) >= rule.window_ms) {
                let mut key = Vec::new();
                rows::client::key(self.partition.namespace, header.workspace, header.client, &mut key);
                batch.delete(&key)?;
            }
        }
        idempotency::remember(&self.store.lock(), &rule, header, batch)
    }
}

/// Puts the rows of an event into a batch.
fn change(
    context: &Context<'_>,
    header: &Header<'_>,
    outcome: &[u8],
    write: &Write<'_>,
    tiles: &mut Tiles,
    batch: &mut Batch,
) -> Result<(), Fault> {
    let partition = context.partition;
    let (Some(offset), Some(sequence)) = (header.workspace_offset, header.client_sequence) else {
        return Err(Fault::Log("an event without its numbers"));
    };
    let (namespace, workspace) = (partition.namespace, header.workspace);
    let mut key = Vec::with_capacity(rows::CLIENT_KEY_BYTES);
    grow_tree(context, header, offset, Hash::of_leaf(outcome), tiles, batch)?;
    rows::client::key(namespace, workspace, header.client, &mut key);
    batch.put(&key, &rows::client::value(sequence))?;
    if let (1, Some(kind)) = (offset.get(), header.workspace_kind) {
        batch.put(&rows::workspace::key(namespace, workspace), &rows::workspace::value(kind))?;
    }
    if write.operations.is_empty() {
        return Ok(());
    }
    let mut value = Vec::new();
    for operation in &write.operations {
        match operation {
            Operation::SetEntity { key: entity, value: bytes, expires_at, .. } => {
                rows::entity::key(namespace, workspace, entity, &mut key);
                value.clear();
                EntityRow { version: offset.get(), expires_at: *expires_at, value: bytes }.encode(&mut value);
                batch.put(&key, &value)?;
            }
            Operation::DeleteEntity { key: entity, .. } => {
                rows::entity::key(namespace, workspace, entity, &mut key);
                batch.delete(&key)?;
            }
            Operation::CreateRecord { .. }
            | Operation::UpdateRecord { .. }
            | Operation::NextNumber { .. } => {}
        }
    }
    change_records(context, header, write, batch)
}

/// Puts the place and the leaf of an event into a batch, and the roots of subtrees that become full with it.
fn grow_tree(
    context: &Context<'_>,
    header: &Header<'_>,
    offset: WorkspaceOffset,
    leaf: Hash,
    tiles: &mut Tiles,
    batch: &mut Batch,
) -> Result<(), Fault> {
    let (namespace, workspace) = (context.partition.namespace, header.workspace);
    let place = rows::index::value(header.partition_offset, &leaf);
    let key = rows::index::key(namespace, workspace, offset.get());
    context.check(Entry::Event(workspace, offset.get()), &key, &place)?;
    batch.put(&key, &place)?;
    let tile = tiles.append(workspace, offset, leaf);
    let roots = hashes::completed(&context.store.lock(), namespace, workspace, offset, leaf, tile)?;
    for (subtree, root) in roots {
        let key = rows::subtree::key(namespace, workspace, subtree);
        context.check(Entry::Subtree(workspace, subtree), &key, root.as_bytes())?;
        batch.put(&key, root.as_bytes())?;
    }
    Ok(())
}

/// Puts the records that a write creates or updates into a batch, each once, as they are at its end.
fn change_records(
    context: &Context<'_>,
    header: &Header<'_>,
    write: &Write<'_>,
    batch: &mut Batch,
) -> Result<(), Fault> {
    let (partition, reads) = (context.partition, context.store);
    let ids = Ids(header.record_ids.iter().copied().collect());
    let offset = header.workspace_offset.map_or(0, |offset| offset.get());
    let mut stored: BTreeMap<u64, Bytes> = BTreeMap::new();
    for operation in &write.operations {
        if let Operation::UpdateRecord { record, .. } = operation {
            let id = ids.stored(*record)?;
            let key = rows::record::key(partition.namespace, header.workspace, id);
            if let Some(bytes) = reads.get(&key)? {
                stored.insert(id, bytes);
            }
        }
    }
    let mut changed: BTreeMap<u64, RecordRow<'_>> = BTreeMap::new();
    for operation in &write.operations {
        match operation {
            Operation::CreateRecord { id, record_type, fields, parent } => {
                let id = match *id {
                    NewId::Raw(raw) => ids.stored(u64::from(raw))?,
                    NewId::Explicit(id) => id,
                };
                let parent = parent.map(|parent| ids.stored(parent)).transpose()?.and_then(RecordId::new);
                let fields = ids.resolve(fields)?;
                let row =
                    RecordRow { active: true, created: offset, changed: offset, parent, record_type, fields };
                changed.insert(id, row);
            }
            Operation::UpdateRecord { record, fields, active } => {
                let id = ids.stored(*record)?;
                let row = match changed.entry(id) {
                    std::collections::btree_map::Entry::Occupied(row) => row.into_mut(),
                    std::collections::btree_map::Entry::Vacant(place) => {
                        let bytes =
                            stored.get(&id).ok_or(Fault::Log("an update of a record that is not there"))?;
                        place.insert(RecordRow::decode(bytes).map_err(Fault::Row)?)
                    }
                };
                row.changed = offset;
                row.active = active.unwrap_or(row.active);
                row.merge(ids.resolve(fields)?);
            }
            Operation::SetEntity { .. } | Operation::DeleteEntity { .. } | Operation::NextNumber { .. } => {}
        }
    }
    let mut value = Vec::new();
    for (id, row) in &changed {
        value.clear();
        row.encode(&mut value);
        let key = rows::record::key(partition.namespace, header.workspace, *id);
        if row.created == offset {
            context.check(Entry::Record(header.workspace, *id), &key, &value)?;
        }
        batch.put(&key, &value)?;
    }
    Ok(())
}

/// Raw ids and what became of them.
struct Ids(BTreeMap<u16, RecordId>);

impl Ids {
    /// The stored id of a raw or stored one.
    fn stored(&self, id: u64) -> Result<u64, Fault> {
        let Ok(raw) = u16::try_from(id) else { return Ok(id) };
        if raw == 0 {
            return Ok(0);
        }
        self.0.get(&raw).map(|id| id.get()).ok_or(Fault::Log("a raw id that got no record id"))
    }

    /// Fields with stored ids in place of raw ones.
    fn resolve<'w>(&self, fields: &[(&'w str, Value<'w>)]) -> Result<Vec<(&'w str, Value<'w>)>, Fault> {
        let resolved = |(name, value): &(&'w str, Value<'w>)| {
            let value = match value {
                Value::Record(id) => Value::Record(self.stored(*id)?),
                other => *other,
            };
            Ok((*name, value))
        };
        fields.iter().map(resolved).collect()
    }
}
