//! Reads the ledger back and checks every number that it ever gave out.
//!
//! Numbers are counted here from the headers of the partition log alone, from the first outcome on, and then compared with
//! the last numbers that the state names. A gap, a repeat or a difference is the end of the demonstration.
//!
//! Must not know: processes, what is shown.

use std::collections::BTreeMap;
use std::ops::Range;

use anyhow::Result;
use gapless_partition::{Header, OutcomeKind, View};
use gapless_types::{RecordId, WorkspaceId};

use super::check::every_outcome;
use super::ledger::{FIRST_INVOICE, INVOICE};
use super::trouble::{fault, must_not_happen};

/// Records read at a time.
const PAGE: usize = 1024;

/// Numbers without a gap and without a repeat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Dense(Range<u64>);

impl Dense {
    fn from(first: u64) -> Self {
        Self(first..first)
    }

    fn take(&mut self, number: u64, what: &str) -> Result<(), String> {
        if number != self.0.end {
            return Err(format!("{what} {number} stands where {} should", self.0.end));
        }
        self.0.end += 1;
        Ok(())
    }

    /// Those that were there.
    pub(super) fn range(&self) -> Range<u64> {
        self.0.clone()
    }

    /// The last one; none if there is none.
    pub(super) fn last(&self) -> Option<u64> {
        (!self.0.is_empty()).then(|| self.0.end - 1)
    }
}

/// Every number of a workspace.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Shop {
    pub(super) offsets: Dense,
    pub(super) records: Dense,
    pub(super) invoices: Dense,
    pub(super) clients: BTreeMap<String, Dense>,
}

impl Shop {
    fn new() -> Self {
        Self {
            offsets: Dense::from(1),
            records: Dense::from(RecordId::FIRST_USER.get()),
            invoices: Dense::from(FIRST_INVOICE),
            clients: BTreeMap::new(),
        }
    }

    fn take(&mut self, header: &Header<'_>) -> Result<(), String> {
        let offset = header.workspace_offset.ok_or("an event without a workspace offset")?;
        self.offsets.take(offset.get(), "workspace offset")?;
        let sequence = header.client_sequence.ok_or("an event without a client sequence")?;
        let client = self.clients.entry(header.client.to_owned()).or_insert_with(|| Dense::from(1));
        client.take(sequence.get(), "client sequence")?;
        header.record_ids.iter().try_for_each(|(_, id)| self.records.take(id.get(), "record id"))?;
        // The namespace has one sequence only.
        header.numbers.iter().try_for_each(|(_, number)| self.invoices.take(*number, "invoice number"))
    }
}

/// Every number of the ledger.
#[derive(Debug)]
pub(super) struct Audit {
    pub(super) outcomes: Dense,
    pub(super) events: u64,
    pub(super) refusals: u64,
    pub(super) duplicates: u64,
    pub(super) definitions: u64,
    pub(super) shops: BTreeMap<u64, Shop>,
}

impl Audit {
    /// Reads everything.
    pub(super) fn of(view: &View) -> Result<Self> {
        let mut audit = Self::new();
        every_outcome(view, |stored| {
            let header = stored.header();
            audit.take(&header).map_err(|problem| {
                format!("outcome {} of shop {}: {problem}", header.partition_offset, header.workspace)
            })
        })?;
        audit
            .shops
            .iter()
            .try_for_each(|(id, shop)| compare_with_state(view, WorkspaceId::new(*id), shop))?;
        Ok(audit)
    }

    fn new() -> Self {
        Self {
            outcomes: Dense::from(1),
            events: 0,
            refusals: 0,
            duplicates: 0,
            definitions: 0,
            shops: BTreeMap::new(),
        }
    }

    fn take(&mut self, header: &Header<'_>) -> Result<(), String> {
        self.outcomes.take(header.partition_offset.get(), "partition offset")?;
        match header.kind {
            OutcomeKind::Event => {
                self.events += 1;
                return self.shops.entry(header.workspace.get()).or_insert_with(Shop::new).take(header);
            }
            OutcomeKind::Refusal | OutcomeKind::KeyReuse => self.refusals += 1,
            OutcomeKind::Duplicate => self.duplicates += 1,
            OutcomeKind::Definition | OutcomeKind::DefinitionRefusal => self.definitions += 1,
        }
        let nothing = header.workspace_offset.is_none()
            && header.client_sequence.is_none()
            && header.record_ids.is_empty()
            && header.numbers.is_empty();
        if nothing { Ok(()) } else { Err("what is no event has taken a number".to_owned()) }
    }
}

/// The state must name the same last numbers as the log, and hold exactly the records whose ids were given out.
fn compare_with_state(view: &View, id: WorkspaceId, shop: &Shop) -> Result<()> {
    let workspace = view.workspace(id).map_err(|error| fault(&error))?;
    let sequences = view.sequences(id).map_err(|error| fault(&error))?;
    let invoice = sequences.iter().find(|sequence| sequence.name.as_str() == INVOICE);
    let mut pairs = vec![
        ("workspace offset", shop.offsets.last(), workspace.as_ref().map(|found| found.last_offset.get())),
        ("record id", shop.records.last(), workspace.and_then(|found| found.last_record).map(RecordId::get)),
        ("record", shop.records.last(), last_record(view, id, &shop.records)?),
        ("invoice number", shop.invoices.last(), invoice.and_then(|invoice| invoice.last)),
    ];
    for (client, sequence) in &shop.clients {
        let found = view.client_sequence(id, client).map_err(|error| fault(&error))?;
        pairs.push(("client sequence", sequence.last(), found.map(|found| found.get())));
    }
    match pairs.iter().find(|(_, log, state)| log != state) {
        None => Ok(()),
        Some((what, log, state)) => Err(must_not_happen(&format!(
            "in shop {id} the last {what} is {log:?} in the log and {state:?} in the state"
        ))),
    }
}

/// The last record of a workspace, if all of them are there and no other.
fn last_record(view: &View, id: WorkspaceId, given: &Dense) -> Result<Option<u64>> {
    let mut expected = Dense::from(given.range().start);
    let mut after = None;
    loop {
        let page = view.records(id, after, PAGE).map_err(|error| fault(&error))?;
        let Some(last) = page.last() else { return Ok(expected.last()) };
        after = Some(last.id);
        for record in page {
            expected.take(record.id.get(), "record").map_err(|problem| must_not_happen(&problem))?;
        }
    }
}

#[cfg(test)]
mod tests {
    use gapless_partition::RequestDigest;
    use gapless_types::{ClientSequence, LogIndex, PartitionOffset, SequenceId, WorkspaceOffset};

    use super::*;

    /// An event of shop 1 with one record and one invoice number.
    fn event(outcome: u64, offset: u64, record: u64, invoice: u64) -> Header<'static> {
        Header {
            kind: OutcomeKind::Event,
            partition_offset: PartitionOffset::new(outcome).unwrap(),
            log_index: LogIndex::new(outcome),
            time: 0,
            workspace: WorkspaceId::new(1),
            workspace_kind: None,
            workspace_offset: WorkspaceOffset::new(offset),
            client_sequence: ClientSequence::new(offset),
            highest_record: None,
            key: None,
            digest: RequestDigest::of(b""),
            client: "till-1",
            record_ids: vec![(1, RecordId::new(record).unwrap())],
            numbers: vec![(SequenceId::new(3), invoice)],
        }
    }

    fn audit(headers: &[Header<'_>]) -> Result<Audit, String> {
        let mut audit = Audit::new();
        headers.iter().try_for_each(|header| audit.take(header)).map(|()| audit)
    }

    #[test]
    fn dense_numbers_pass() {
        let audit = audit(&[event(1, 1, 200_001, 1), event(2, 2, 200_002, 2)]).unwrap();
        let shop = &audit.shops[&1];
        assert_eq!((audit.events, shop.offsets.last(), shop.invoices.last()), (2, Some(2), Some(2)));
        assert_eq!(shop.records.range(), 200_001..200_003);
    }

    #[test]
    fn every_gap_and_every_repeat_is_noticed() {
        for (second, what) in [
            (event(3, 2, 200_002, 2), "partition offset 3"),
            (event(1, 2, 200_002, 2), "partition offset 1"),
            (event(2, 3, 200_002, 2), "workspace offset 3"),
            (event(2, 1, 200_002, 2), "workspace offset 1"),
            (event(2, 2, 200_003, 2), "record id 200003"),
            (event(2, 2, 200_001, 2), "record id 200001"),
            (event(2, 2, 200_002, 3), "invoice number 3"),
            (event(2, 2, 200_002, 1), "invoice number 1"),
            (
                Header { client_sequence: ClientSequence::new(3), ..event(2, 2, 200_002, 2) },
                "client sequence 3",
            ),
        ] {
            let problem = audit(&[event(1, 1, 200_001, 1), second]).unwrap_err();
            assert!(problem.starts_with(what), "{problem}");
        }
    }

    #[test]
    fn a_refusal_that_took_a_number_is_noticed() {
        let refusal = |numbers| Header {
            kind: OutcomeKind::Refusal,
            workspace_offset: None,
            client_sequence: None,
            record_ids: Vec::new(),
            numbers,
            ..event(1, 1, 200_001, 1)
        };
        assert_eq!(audit(&[refusal(Vec::new())]).unwrap().refusals, 1);
        assert!(audit(&[refusal(vec![(SequenceId::new(3), 1)])]).is_err());
    }
}
