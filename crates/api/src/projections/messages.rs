//! Slots, rows and refusals as the wire says them.

use bytes::Bytes;
use gapless_engine::Leased;
use gapless_engine::projection::{
    Answer, Change, CommitStatus, Done, Effect, Grant, Next, Refusal, Row, RowWrite, RuleKind, Value,
};
use gapless_engine::types::PartitionOffset;

use crate::v1;
use crate::write::milliseconds;

/// Why a command was refused.
pub fn refused(refusal: Refusal) -> v1::Refused {
    use v1::RefusalCode as Code;
    let (code, message) = match refusal {
        Refusal::StaleToken => (Code::StaleToken, "somebody else was given the slot since"),
        Refusal::LeaseExpired => (Code::LeaseExpired, "the lease ran out"),
        Refusal::LeaseReleased => (Code::LeaseReleased, "the lease was given back, or ended with an error"),
        Refusal::LeaseReturned => {
            (Code::LeaseReturned, "the commit was sent back: a row it had read was changed")
        }
        Refusal::SlotFilled => (Code::SlotFilled, "the slot was filled"),
        Refusal::AlreadyCommitted => (Code::AlreadyCommitted, "the slot was committed; the lease is over"),
        Refusal::AlreadyResolved => (Code::AlreadyResolved, "the slot is committed or filled"),
        Refusal::PayloadMismatch => (Code::PayloadMismatch, "something else was committed with this token"),
        Refusal::UnknownSlot => (Code::UnknownSlot, "there is no such slot"),
        Refusal::UnknownToken => (Code::UnknownToken, "no such token was issued for the slot"),
        Refusal::WindowFull => (Code::WindowFull, "too many slots lie above the watermark"),
        Refusal::DomainHalted => {
            (Code::DomainHalted, "the attempts of a slot are used up, and an operator has to decide")
        }
        Refusal::RenewalLimit => (Code::RenewalLimit, "the grant was renewed as often as it can be"),
        Refusal::InvalidTtl => (Code::InvalidTtl, "a lease has to last at least a millisecond"),
        Refusal::InvalidPayload => (Code::InvalidPayload, "the payload is malformed or beyond a limit"),
        Refusal::InvalidPart => (
            Code::InvalidPart,
            "the part before it is missing, it differs from what came, or it is one too many",
        ),
        Refusal::NoRule => (Code::NoRule, "no rule was made for events of this type"),
    };
    v1::Refused { code: code.into(), message: message.to_owned() }
}

/// Whether a lease goes on although a command about it was refused.
pub fn holds_nevertheless(refusal: Refusal) -> bool {
    matches!(
        refusal,
        Refusal::RenewalLimit
            | Refusal::InvalidTtl
            | Refusal::InvalidPayload
            | Refusal::InvalidPart
            | Refusal::NoRule
            | Refusal::WindowFull
            | Refusal::DomainHalted
    )
}

/// A slot that was granted.
pub fn granted(leased: &Leased, watermark: u64) -> v1::GrantedSlot {
    let Grant { slot, token, expires_at, attempt, .. } = leased.grant;
    let event = leased.event.as_ref().map(|opened| {
        let event = opened.event();
        v1::SlotEvent {
            partition_offset: event.source.get(),
            workspace: event.workspace.get(),
            event_type: event.event_type.to_owned(),
            key: event.key.map(str::to_owned),
            payload: Bytes::copy_from_slice(event.payload),
        }
    });
    v1::GrantedSlot {
        partition: u32::from(leased.domain.partition.index.get()),
        slot,
        token,
        expires_at_ms: milliseconds(expires_at),
        ttl_ms: leased.ttl_ms,
        attempt,
        event,
        watermark,
    }
}

/// What became of a command, in the form that a stream answers with. Every other form has a part of it.
pub fn answered(done: Done) -> v1::work_answered::Result {
    use v1::work_answered::Result as Answered;
    match done {
        Done::Refused(refusal) => Answered::Refused(refused(refusal)),
        Done::Renewed { expires_at, renewals } => {
            Answered::Renewed(v1::Renewed { expires_at_ms: milliseconds(expires_at), renewals })
        }
        Done::Committed { status, is_duplicate } => {
            let status = match status {
                CommitStatus::Applied => v1::CommitStatus::Applied,
                CommitStatus::Staged => v1::CommitStatus::Staged,
                CommitStatus::Returned => v1::CommitStatus::Returned,
                CommitStatus::Filled => v1::CommitStatus::Filled,
            };
            Answered::Committed(v1::Committed { status: status.into(), duplicate: is_duplicate })
        }
        Done::PartReceived { parts } => Answered::Part(v1::PartReceived { parts }),
        Done::Released => Answered::Released(v1::Released {}),
        Done::Failed { attempts, next } => {
            let (next, retry_at) = match next {
                Next::Retry(at) => (v1::FailedNext::Retry, at),
                Next::Filled => (v1::FailedNext::Filled, 0),
                Next::Halted => (v1::FailedNext::Halted, 0),
            };
            Answered::Failed(v1::Failed { attempts, next: next.into(), retry_at_ms: milliseconds(retry_at) })
        }
        other @ (Done::Granted(_) | Done::Skipped | Done::LeaderChanged | Done::Ticked { .. }) => {
            unreachable!("no command about a lease is answered by {other:?}")
        }
    }
}

/// What became of a commit.
pub fn commit_response(answer: Answer) -> v1::CommitResponse {
    use v1::commit_response::Result as Commit;
    use v1::work_answered::Result as Answered;
    let result = match answered(answer.done) {
        Answered::Committed(committed) => Commit::Committed(committed),
        Answered::Part(part) => Commit::Part(part),
        Answered::Refused(refused) => Commit::Refused(refused),
        other => unreachable!("a commit is not answered by {other:?}"),
    };
    v1::CommitResponse { watermark: answer.watermark, result: Some(result) }
}

/// What became of a renewal.
pub fn renew_response(answer: Answer) -> v1::RenewResponse {
    use v1::renew_response::Result as Renew;
    use v1::work_answered::Result as Answered;
    let result = match answered(answer.done) {
        Answered::Renewed(renewed) => Renew::Renewed(renewed),
        Answered::Refused(refused) => Renew::Refused(refused),
        other => unreachable!("a renewal is not answered by {other:?}"),
    };
    v1::RenewResponse { watermark: answer.watermark, result: Some(result) }
}

/// What became of a release.
pub fn release_response(answer: Answer) -> v1::ReleaseResponse {
    use v1::release_response::Result as Release;
    use v1::work_answered::Result as Answered;
    let result = match answered(answer.done) {
        Answered::Released(released) => Release::Released(released),
        Answered::Refused(refused) => Release::Refused(refused),
        other => unreachable!("a release is not answered by {other:?}"),
    };
    v1::ReleaseResponse { watermark: answer.watermark, result: Some(result) }
}

/// What became of a failure.
pub fn fail_response(answer: Answer) -> v1::FailResponse {
    use v1::fail_response::Result as Fail;
    use v1::work_answered::Result as Answered;
    let result = match answered(answer.done) {
        Answered::Failed(failed) => Fail::Failed(failed),
        Answered::Refused(refused) => Fail::Refused(refused),
        other => unreachable!("a failure is not answered by {other:?}"),
    };
    v1::FailResponse { watermark: answer.watermark, result: Some(result) }
}

/// What became of a skip.
pub fn skip_response(answer: Answer) -> v1::SkipResponse {
    use v1::skip_response::Result as Skip;
    let result = match answer.done {
        Done::Skipped => Skip::Skipped(v1::Skipped {}),
        Done::Refused(refusal) => Skip::Refused(refused(refusal)),
        other => unreachable!("a skip is not answered by {other:?}"),
    };
    v1::SkipResponse { watermark: answer.watermark, result: Some(result) }
}

/// The columns of a row.
pub fn columns(row: &Row) -> std::collections::BTreeMap<String, v1::ColumnValue> {
    use v1::column_value::Kind;
    let kind = |value: &Value| match value {
        Value::Null => Kind::Null(true),
        Value::Bool(value) => Kind::Boolean(*value),
        Value::Integer(value) => Kind::Integer(*value),
        Value::Text(text) => Kind::Text(text.to_string()),
        Value::Opaque(json) => Kind::Json(json.to_string()),
    };
    let column = |value| v1::ColumnValue { kind: Some(kind(value)) };
    row.iter().map(|(name, value)| (name.to_string(), column(value))).collect()
}

/// A row of a table.
pub fn row(id: &str, version: u64, row: Option<&Row>) -> v1::Row {
    v1::Row {
        id: id.to_owned(),
        version,
        columns: row.map(columns).unwrap_or_default(),
        absent: row.is_none(),
    }
}

/// What a slot changed, without its rows.
pub fn effect(effect: &Effect) -> v1::Effect {
    use v1::EffectKind as Kind;
    let kind = match &effect.change {
        Change::Rule { kind: RuleKind::Upsert, .. } => Kind::Upsert,
        Change::Rule { kind: RuleKind::Update, .. } => Kind::Update,
        Change::Rule { kind: RuleKind::Delete, .. } => Kind::Delete,
        Change::Rule { kind: RuleKind::NoOp, .. } => Kind::NoOp,
        Change::Effects(_) => Kind::Worker,
        Change::Result(_) => Kind::Result,
        Change::Fill { .. } => Kind::Fill,
    };
    let (filled_because, dead_letter) = match &effect.change {
        Change::Fill { why, claimed } => (why.name().to_owned(), *claimed),
        _ => (String::new(), false),
    };
    v1::Effect {
        slot: effect.slot,
        partition_offset: effect.source.map_or(0, PartitionOffset::get),
        applied_at_ms: milliseconds(effect.time),
        workspace: effect.workspace.get(),
        token: effect.token,
        kind: kind.into(),
        rows: Vec::new(),
        result: match &effect.change {
            Change::Result(json) => json.to_string(),
            _ => String::new(),
        },
        filled_because,
        dead_letter,
        has_more: false,
    }
}

/// A row as it will be, or as it became.
pub fn row_write(table: &str, id: &str, row: Option<&Row>) -> v1::RowWrite {
    v1::RowWrite {
        table: table.to_owned(),
        id: id.to_owned(),
        columns: row.map(columns).unwrap_or_default(),
        delete: row.is_none(),
    }
}

/// The same of a write.
pub fn row_write_of(write: &RowWrite) -> v1::RowWrite {
    row_write(&write.table, &write.id, write.row.as_ref())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_refusal_has_its_number_and_its_name_on_the_wire() {
        for refusal in Refusal::ALL {
            let code = v1::RefusalCode::try_from(refused(*refusal).code).unwrap();
            assert_eq!(code.as_str_name(), format!("REFUSAL_CODE_{}", refusal.code()));
            assert_eq!(code as i32, i32::from(*refusal as u8));
        }
    }
}
