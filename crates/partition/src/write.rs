//! A write: one event and what it changes, to one workspace, all or nothing.
//!
//! A write borrows everything from whoever made it, so that taking one apart copies nothing. Its bytes are canonical: one
//! write has one encoding, and the request digest is taken over it (see [`encoding`]).
//!
//! Must not know: numbers, which are assigned when it is applied; the idempotency key, which is not part of what is asked for.

mod check;
pub(crate) mod encoding;

pub use check::Violation;

use gapless_types::WorkspaceId;

/// What a client asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write<'a> {
    /// Where it goes. A write that names no workspace goes to [`WorkspaceId::NAMESPACE`].
    pub workspace: WorkspaceId,
    /// The workspace's kind; the first write fixes it.
    pub kind: &'a str,
    /// Who writes.
    pub client: &'a str,
    /// What happened.
    pub event_type: &'a str,
    /// How the payload is to be read.
    pub content_type: &'a str,
    /// The event itself.
    pub payload: &'a [u8],
    /// By ascending key, each once.
    pub metadata: Vec<(&'a str, &'a str)>,
    /// Refused unless the workspace log ends exactly there; 0 for a workspace without events.
    pub expected_offset: Option<u64>,
    /// What it changes besides being an event, in order.
    pub operations: Vec<Operation<'a>>,
}

/// One change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation<'a> {
    /// A new record.
    CreateRecord {
        /// Which id it gets.
        id: NewId,
        /// What it is. Types declared as singletons have one record in each workspace.
        record_type: &'a str,
        /// By ascending name, each once.
        fields: Vec<(&'a str, Value<'a>)>,
        /// Raw or stored id of the record it belongs to.
        parent: Option<u64>,
    },
    /// Merges fields into a record.
    UpdateRecord {
        /// Raw or stored id.
        record: u64,
        /// By ascending name, each once.
        fields: Vec<(&'a str, Value<'a>)>,
        /// Activates or deactivates it.
        active: Option<bool>,
    },
    /// A value under a key.
    SetEntity {
        /// The key.
        key: &'a [u8],
        /// The value.
        value: &'a [u8],
        /// When it may be set.
        condition: Condition<'a>,
        /// Log time in milliseconds from which on it no longer exists.
        expires_at: Option<u64>,
    },
    /// No value under a key any more.
    DeleteEntity {
        /// The key.
        key: &'a [u8],
        /// When it may be deleted.
        condition: Condition<'a>,
    },
    /// The next number of a declared sequence.
    NextNumber {
        /// Its name.
        sequence: &'a str,
    },
}

/// Which id a new record gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NewId {
    /// The next one; inside this write it goes by this placeholder, 1 to 65 535.
    Raw(u16),
    /// This one, which the client brings along.
    Explicit(u64),
}

/// What must hold for an entity to be changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Condition<'a> {
    /// Nothing.
    #[default]
    None,
    /// There is no value.
    MustNotExist,
    /// There is one.
    MustExist,
    /// There is one, last changed at this workspace offset.
    VersionEquals(u64),
    /// There is exactly this one.
    ValueEquals(&'a [u8]),
}

/// A value of a record's field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value<'a> {
    /// None.
    Null,
    /// True or false.
    Boolean(bool),
    /// A number.
    Integer(i64),
    /// Characters.
    Text(&'a str),
    /// Bytes.
    Blob(&'a [u8]),
    /// Another record: its raw id in the same write, or its stored one.
    Record(u64),
}

impl<'a> Write<'a> {
    /// An event without payload and operations, to be filled in.
    pub fn new(workspace: WorkspaceId, client: &'a str, event_type: &'a str) -> Self {
        Self {
            workspace,
            kind: crate::definition::DEFAULT_KIND,
            client,
            event_type,
            content_type: "application/json",
            payload: &[],
            metadata: Vec::new(),
            expected_offset: None,
            operations: Vec::new(),
        }
    }
}
