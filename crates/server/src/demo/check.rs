//! Compares what came back after the kill with what was acknowledged before it.
//!
//! Nothing acknowledged may be missing, and none of its numbers may be another one.
//!
//! Must not know: processes, what is shown.

use anyhow::Result;
use gapless_partition::{Outcome, StoredOutcome, View};
use gapless_store::Direction;
use gapless_types::PartitionOffset;

use super::receipt::Receipt;
use super::trouble::{fault, must_not_happen};

/// Outcomes read at a time.
const PAGE: usize = 1024;

/// Finds every acknowledged write with the numbers that were reported.
pub(super) fn check(view: &View, acknowledged: &[Receipt]) -> Result<()> {
    for receipt in acknowledged {
        let found = find(view, receipt.partition_offset)?;
        compare(receipt, found.as_ref()).map_err(|problem| must_not_happen(&problem))?;
    }
    Ok(())
}

/// The receipt of the event at an offset, if there is one.
fn find(view: &View, offset: u64) -> Result<Option<Receipt>> {
    let Some(offset) = PartitionOffset::new(offset) else { return Ok(None) };
    let found = view.outcomes(offset, 1, Direction::Forward).map_err(|error| fault(&error))?;
    let Some(stored) = found.first() else { return Ok(None) };
    match view.outcome(stored).map_err(|error| fault(&error))? {
        Outcome::Committed(committed) => Ok(Some(Receipt::new(stored.header().workspace, &committed))),
        _ => Ok(None),
    }
}

fn compare(acknowledged: &Receipt, found: Option<&Receipt>) -> Result<(), String> {
    match found {
        Some(found) if found == acknowledged => Ok(()),
        Some(found) => Err(format!("acknowledged was ({acknowledged}), found is ({found})")),
        None => Err(format!("acknowledged was ({acknowledged}), and it is gone")),
    }
}

/// Every outcome from the first one on.
pub(super) fn every_outcome(
    view: &View,
    mut each: impl FnMut(&StoredOutcome) -> Result<(), String>,
) -> Result<()> {
    let mut next = Some(PartitionOffset::FIRST);
    while let Some(from) = next {
        let page = view.outcomes(from, PAGE, Direction::Forward).map_err(|error| fault(&error))?;
        page.iter().try_for_each(&mut each).map_err(|problem| must_not_happen(&problem))?;
        next = page.last().and_then(|last| last.header().partition_offset.next());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_that_is_gone_or_has_another_number_is_noticed() {
        let receipt: Receipt = "7 1 5 3 200001 4 00ff".parse().unwrap();
        assert_eq!(compare(&receipt, Some(&receipt.clone())), Ok(()));
        assert!(compare(&receipt, None).unwrap_err().contains("gone"));
        for line in ["7 1 5 3 200001 5 00ff", "7 1 5 3 200002 4 00ff", "7 1 5 3 200001 4 00fe"] {
            let other: Receipt = line.parse().unwrap();
            assert!(compare(&receipt, Some(&other)).unwrap_err().contains(line), "{line}");
        }
    }
}
