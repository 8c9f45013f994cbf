//! An intended write: what it says never changes, however often it is asked for.
//!
//! Must not know: whom it is asked of.

use gapless_partition::{Condition, NewId, Operation, Value, Write};
use gapless_types::{IdempotencyKey, WorkspaceId};

/// A write that somebody wants, once.
#[derive(Clone, Debug)]
pub(crate) struct Intent {
    pub(crate) id: u64,
    pub(crate) namespace: &'static str,
    pub(crate) workspace: WorkspaceId,
    pub(crate) client: String,
    pub(crate) key: IdempotencyKey,
    payload: String,
    deed: Deed,
}

#[derive(Clone, Debug)]
enum Deed {
    /// Takes numbers and creates so many records.
    Sale { records: u16 },
    /// Sets one of few entities, which somebody may have done before.
    Put { entity: [u8; 1], must_not_exist: bool },
    /// Nobody else may have written there before.
    First,
}

impl Intent {
    pub(crate) fn new(id: u64, namespace: &'static str, client: &str, chance: &mut fastrand::Rng) -> Self {
        let deed = match chance.u8(..10) {
            0 => Deed::First,
            1 | 2 => Deed::Put { entity: [chance.u8(..3)], must_not_exist: chance.bool() },
            _ => Deed::Sale { records: chance.u16(..3) },
        };
        Self {
            id,
            namespace,
            workspace: WorkspaceId::new(chance.u64(..6)),
            client: client.to_owned(),
            key: key(id),
            payload: format!("{{\"intent\":{id}}}"),
            deed,
        }
    }

    /// The same write to the same workspace under a key that was used long ago.
    pub(crate) fn under_key_of(self, old: &Self) -> Self {
        Self { key: old.key, workspace: old.workspace, ..self }
    }

    /// Another request under the same key.
    pub(crate) fn with_other_body(&self) -> Self {
        Self { payload: format!("{{\"instead_of\":{}}}", self.id), ..self.clone() }
    }

    /// What it says.
    pub(crate) fn write(&self) -> Write<'_> {
        let mut write = Write::new(self.workspace, &self.client, "Done");
        write.payload = self.payload.as_bytes();
        match &self.deed {
            Deed::Sale { records } => {
                write.operations.push(Operation::NextNumber { sequence: "invoice" });
                for record in 1..=*records {
                    write.operations.push(Operation::CreateRecord {
                        id: NewId::Raw(record),
                        record_type: "line",
                        fields: vec![("amount", Value::Integer(i64::from(record)))],
                        parent: None,
                    });
                }
            }
            Deed::Put { entity, must_not_exist } => {
                write.operations.push(Operation::NextNumber { sequence: "ticket" });
                write.operations.push(Operation::SetEntity {
                    key: entity,
                    value: self.payload.as_bytes(),
                    condition: if *must_not_exist { Condition::MustNotExist } else { Condition::None },
                    expires_at: None,
                });
            }
            Deed::First => write.expected_offset = Some(0),
        }
        write
    }
}

fn key(id: u64) -> IdempotencyKey {
    let mut bytes = [7; 16];
    bytes[..8].copy_from_slice(&id.to_le_bytes());
    IdempotencyKey::new(bytes).expect("not all zeros")
}
