//! What work sees of the read model, and what it makes of it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use gapless_api::v1;
use gapless_api::v1::ColumnValue;

use super::PlaceOfWork;
use crate::error::Error;
use crate::projections::Projections;

/// Rows of the slot's workspace, as they are now. What is read is noted: if it is changed by a lower slot before this one's turn
/// comes, the work is done again.
#[derive(Clone, Debug)]
pub struct Rows<P> {
    projections: P,
    place: Arc<PlaceOfWork>,
    workspace: u64,
    reads: Arc<Mutex<BTreeMap<(String, String), u64>>>,
}

/// The columns of a row by name.
pub type Columns = BTreeMap<String, ColumnValue>;

impl<P: Projections> Rows<P> {
    pub(super) fn new(projections: P, place: Arc<PlaceOfWork>, workspace: u64) -> Self {
        Self { projections, place, workspace, reads: Arc::default() }
    }

    /// A row; none if there is none, which is noted as well.
    ///
    /// # Errors
    /// If it cannot be read.
    pub async fn get(&self, table: &str, id: &str) -> Result<Option<Columns>, Error> {
        let request = v1::QueryRequest {
            namespace: self.place.namespace.clone(),
            projection: self.place.projection.clone(),
            table: table.to_owned(),
            workspace: self.workspace,
            id: Some(id.to_owned()),
            ..Default::default()
        };
        let found = self.projections.query(request).await?.rows.pop();
        let row = found.ok_or(Error::Protocol("a row that is asked for by its id has an answer"))?;
        let mut reads = self.reads.lock().unwrap_or_else(PoisonError::into_inner);
        // The first one counts: what came later may have seen more.
        reads.entry((table.to_owned(), id.to_owned())).or_insert(row.version);
        Ok((!row.absent).then_some(row.columns))
    }

    /// Everything that was read.
    pub(super) fn reads(&self) -> Vec<v1::RowRead> {
        let reads = self.reads.lock().unwrap_or_else(PoisonError::into_inner);
        let read = |((table, id), version): (&(String, String), &u64)| v1::RowRead {
            table: table.clone(),
            id: id.clone(),
            version: *version,
        };
        reads.iter().map(read).collect()
    }
}

/// What work comes to: rows as they shall be, or a result.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Changes {
    pub(super) rows: Vec<v1::RowWrite>,
    pub(super) result: Option<String>,
}

impl Changes {
    /// Nothing.
    pub fn none() -> Self {
        Self::default()
    }

    /// A result alone: JSON, which is kept with the slot.
    pub fn result(json: impl Into<String>) -> Self {
        Self { rows: Vec::new(), result: Some(json.into()) }
    }

    /// The same with a row that has these columns and no others.
    #[must_use]
    pub fn put<N: Into<String>, V: Into<ColumnValue>>(
        mut self,
        table: &str,
        id: &str,
        columns: impl IntoIterator<Item = (N, V)>,
    ) -> Self {
        let columns = columns.into_iter().map(|(name, value)| (name.into(), value.into())).collect();
        self.rows.push(v1::RowWrite { table: table.to_owned(), id: id.to_owned(), columns, delete: false });
        self
    }

    /// The same without a row.
    #[must_use]
    pub fn delete(mut self, table: &str, id: &str) -> Self {
        let (table, id) = (table.to_owned(), id.to_owned());
        self.rows.push(v1::RowWrite { table, id, delete: true, ..Default::default() });
        self
    }
}
