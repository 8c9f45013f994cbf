//! A replicated log for tests that only need one with everything in it.

use gapless_partition::{Condition, NewId, Operation, Value, Write};

use super::{define_command, definition, event, name, write_command};

/// The same, with a window of 24 milliseconds, and with a retry behind each command: of the one a little earlier, whose key is
/// known, and now and then of one whose key is not any more.
pub(crate) fn with_retries(count: usize) -> Vec<Vec<u8>> {
    let mut definition = definition();
    definition.idempotency.window_ms = 24;
    let mut all = vec![define_command(&definition)];
    // The definition in the middle has another window.
    let writes: Vec<Vec<u8>> = commands(count).into_iter().filter(|command| command[1] == 1).collect();
    for (at, command) in writes.iter().enumerate() {
        all.push(command.clone());
        let ago = if at % 5 == 4 { 20 } else { 4 };
        all.extend(at.checked_sub(ago).map(|earlier| writes[earlier].clone()));
    }
    all
}

/// The replicated log: a definition, then writes of all kinds, some of which are refused.
pub(crate) fn commands(count: usize) -> Vec<Vec<u8>> {
    let mut commands = vec![define_command(&definition())];
    for at in 1..count {
        let id = at as u64 % 3;
        let payload = vec![b'x'; (at * 97) % 700];
        let key = format!("entity {}", at % 5);
        let fields = vec![("at", Value::Integer(at as i64)), ("line", Value::Record(2))];
        let operations = match at % 6 {
            0 => vec![Operation::NextNumber { sequence: "invoice" }],
            1 => vec![
                Operation::CreateRecord { id: NewId::Raw(1), record_type: "order", fields, parent: None },
                Operation::CreateRecord {
                    id: NewId::Raw(2),
                    record_type: "line",
                    fields: Vec::new(),
                    parent: Some(1),
                },
            ],
            2 => vec![Operation::SetEntity {
                key: key.as_bytes(),
                value: &payload,
                condition: Condition::MustNotExist,
                expires_at: (at % 4 == 0).then_some(1000 + at as u64 * 3),
            }],
            3 => vec![Operation::DeleteEntity { key: key.as_bytes(), condition: Condition::None }],
            4 => vec![Operation::UpdateRecord {
                record: 200_001,
                fields: vec![("at", Value::Integer(at as i64))],
                active: Some(at % 8 == 0),
            }],
            _ => Vec::new(),
        };
        let expected_offset = (at % 7 == 6).then_some(0);
        let write = Write { payload: &payload, operations, expected_offset, ..event(id) };
        commands.push(write_command(at as u64, &write));
        if at == count / 2 {
            let mut more = definition();
            more.kinds.get_mut("till").unwrap().insert(name("late"), 7);
            commands.push(define_command(&more));
        }
    }
    commands
}
