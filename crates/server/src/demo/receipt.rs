//! What a write was given, as one line: how the writing process reports it, and how it is compared afterwards.
//!
//! Must not know: processes, files, what is shown.

use std::fmt;
use std::str::FromStr;

use anyhow::{Context, Result, bail};
use gapless_partition::Committed;
use gapless_types::WorkspaceId;

/// Everything a write was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Receipt {
    /// Its place in the partition.
    pub(super) partition_offset: u64,
    /// The shop.
    pub(super) workspace: u64,
    /// Its place there.
    pub(super) workspace_offset: u64,
    /// Its place among those of its till there.
    pub(super) client_sequence: u64,
    /// Ids of the records it created.
    pub(super) records: Vec<u64>,
    /// Invoice numbers it took.
    pub(super) invoices: Vec<u64>,
    /// Follows from what was written and where: another write has another one.
    pub(super) transaction: String,
}

impl Receipt {
    /// The receipt of a write to this workspace.
    pub(super) fn new(workspace: WorkspaceId, committed: &Committed) -> Self {
        Self {
            partition_offset: committed.partition_offset.get(),
            workspace: workspace.get(),
            workspace_offset: committed.workspace_offset.get(),
            client_sequence: committed.client_sequence.get(),
            records: committed.record_ids.iter().map(|(_, id)| id.get()).collect(),
            invoices: committed.numbers.iter().map(|(_, number)| *number).collect(),
            transaction: committed.transaction.to_string(),
        }
    }
}

/// `OFFSET WORKSPACE OFFSET SEQUENCE RECORD,RECORD INVOICE TRANSACTION`, with `-` for an empty list.
impl fmt::Display for Receipt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { partition_offset, workspace, workspace_offset, client_sequence, .. } = self;
        write!(f, "{partition_offset} {workspace} {workspace_offset} {client_sequence} ")?;
        write!(f, "{} {} {}", list(&self.records), list(&self.invoices), self.transaction)
    }
}

impl FromStr for Receipt {
    type Err = anyhow::Error;

    fn from_str(line: &str) -> Result<Self> {
        let parts: Vec<&str> = line.split(' ').collect();
        let [partition_offset, workspace, workspace_offset, client_sequence, records, invoices, transaction] =
            parts[..]
        else {
            bail!("the writing process reports something strange: {line}");
        };
        let number = |text: &str| {
            text.parse().with_context(|| format!("the writing process reports a strange number: {line}"))
        };
        let numbers = |text: &str| match text {
            "-" => Ok(Vec::new()),
            _ => text.split(',').map(number).collect::<Result<Vec<u64>>>(),
        };
        Ok(Self {
            partition_offset: number(partition_offset)?,
            workspace: number(workspace)?,
            workspace_offset: number(workspace_offset)?,
            client_sequence: number(client_sequence)?,
            records: numbers(records)?,
            invoices: numbers(invoices)?,
            transaction: transaction.to_owned(),
        })
    }
}

fn list(numbers: &[u64]) -> String {
    match numbers {
        [] => "-".to_owned(),
        _ => numbers.iter().map(u64::to_string).collect::<Vec<_>>().join(","),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_receipt_comes_back_from_its_line() {
        for line in ["7 1 5 3 200001,200002 4 00ff", "7 1 5 3 - - 00ff"] {
            let receipt: Receipt = line.parse().unwrap();
            assert_eq!(receipt.to_string(), line);
        }
        let receipt: Receipt = "7 1 5 3 200001,200002 4 00ff".parse().unwrap();
        assert_eq!((&receipt.records[..], &receipt.invoices[..]), (&[200_001, 200_002][..], &[4][..]));
    }

    #[test]
    fn anything_else_is_no_receipt() {
        for line in ["", "7", "7 1 5 3 - -", "7 1 5 x - - 00", "7 1 5 3 1,,2 - 00", "7 1 5 3 - - 00 1"] {
            assert!(line.parse::<Receipt>().is_err(), "{line}");
        }
    }
}
