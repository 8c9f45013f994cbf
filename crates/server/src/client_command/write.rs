//! `gapless write`.

use std::io::{Read, Write};

use anyhow::{Context, Result};
use gapless_api::json::{is_json, to_json};
use gapless_client::{Ledger, random_key, v1};
use gapless_engine::named_key;
use gapless_types::IdempotencyKey;

use super::proof::verified;
use super::{answer, ask, hexadecimal, pairs};
use crate::cli::{DumpForm, WriteArguments};
use crate::output::write_json;
use crate::refusal::Refusal;

/// Runs the command.
pub(crate) fn run(arguments: &WriteArguments, out: &mut dyn Write) -> Result<()> {
    let request = request(arguments)?;
    let key = hexadecimal(&request.idempotency_key);
    let connection = &arguments.connection;
    let success = ask(connection, async |client| answer(client.write(request.clone()), connection).await)?;
    if let (Some(header), Some(proof)) = (&success.block_header, &success.tx_proof) {
        verified(&header.root, proof.tree_size, proof, &header.leaf_hash)?;
    }
    match connection.output {
        DumpForm::Json => write_json(out, &to_json("WriteSuccess", &success)),
        DumpForm::Raw => Ok(writeln!(out, "{}", success.workspace_offset)?),
        DumpForm::Table => table(&success, &key, out),
    }
}

fn request(arguments: &WriteArguments) -> Result<v1::WriteRequest> {
    let payload = match arguments.payload.as_deref() {
        None => Vec::new(),
        Some("-") => {
            let mut payload = Vec::new();
            std::io::stdin().read_to_end(&mut payload).context("cannot read the payload from stdin")?;
            payload
        }
        Some(text) => text.as_bytes().to_vec(),
    };
    if is_json(&arguments.content_type)
        && !payload.is_empty()
        && let Err(error) = serde_json::from_slice::<serde_json::Value>(&payload)
    {
        let next = "quote it for your shell, or say what it is: --content-type text/plain";
        return Err(Refusal::new(format!("the payload is no JSON: {error}"), next).into());
    }
    let mut operations = Vec::new();
    for pair in &arguments.set {
        operations.push(v1::operation::Op::SetEntity(set(pair, arguments.if_absent)?));
    }
    for sequence in &arguments.number {
        operations.push(v1::operation::Op::NextNumber(v1::NextNumber { sequence: sequence.clone() }));
    }
    Ok(v1::WriteRequest {
        namespace: arguments.place.namespace.clone(),
        workspace: arguments.place.workspace,
        client_id: arguments.client.clone(),
        idempotency_key: arguments.key.as_deref().map_or_else(random_key, key),
        operations: operations.into_iter().map(|op| v1::Operation { op: Some(op) }).collect(),
        include_tx_proof: arguments.proof,
        event_type: arguments.event_type.clone(),
        payload: payload.into(),
        content_type: arguments.content_type.clone(),
        expected_workspace_offset: arguments.expect_offset,
        kind: arguments.kind.clone(),
        ..Default::default()
    })
}

fn set(pair: &str, if_absent: bool) -> Result<v1::SetEntity> {
    let wrong = || Refusal::new(format!("`{pair}` sets nothing"), "write it as KEY=VALUE");
    let (key, value) = pair.split_once('=').ok_or_else(wrong)?;
    let condition =
        if_absent.then_some(v1::Condition { kind: Some(v1::condition::Kind::MustNotExist(true)) });
    Ok(v1::SetEntity {
        key: key.as_bytes().to_vec().into(),
        value: value.as_bytes().to_vec().into(),
        condition,
        expires_at_ms: None,
    })
}

/// 32 hexadecimal digits are the key itself; anything else is the name of what is intended.
fn key(text: &str) -> bytes::Bytes {
    let digits: Option<Vec<u8>> = text
        .is_ascii()
        .then(|| {
            (0..text.len() / 2).map(|at| u8::from_str_radix(&text[2 * at..2 * at + 2], 16).ok()).collect()
        })
        .flatten();
    let bytes = digits.filter(|bytes| text.len() == 32 && IdempotencyKey::try_from(&bytes[..]).is_ok());
    bytes.unwrap_or_else(|| named_key(text).as_bytes().to_vec()).into()
}

fn table(success: &v1::WriteSuccess, key: &str, out: &mut dyn Write) -> Result<()> {
    let again = if success.duplicate { " (it had been written before; nothing was done)" } else { "" };
    writeln!(out, "workspace offset  {}{again}", success.workspace_offset)?;
    writeln!(out, "client sequence   {}", success.assigned_sequence)?;
    writeln!(out, "numbers           {}", pairs(&success.numbers))?;
    if !success.record_ids.is_empty() {
        writeln!(out, "record ids        {}", pairs(&success.record_ids))?;
    }
    writeln!(out, "partition         {}, offset {}", success.partition, success.partition_offset)?;
    writeln!(out, "log index         {}", success.log_index)?;
    writeln!(out, "transaction       {}", success.tx_id)?;
    writeln!(out, "key               {key}")?;
    if let Some(header) = &success.block_header {
        writeln!(out, "leaf              {}", hexadecimal(&header.leaf_hash))?;
        writeln!(
            out,
            "root              {}, of {} events; the proof was verified",
            hexadecimal(&header.root),
            header.height
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_digits_or_a_name() {
        assert_eq!(hexadecimal(&key("112672006de516b935135cf97bb8595f")), "112672006de516b935135cf97bb8595f");
        assert_eq!(hexadecimal(&key("order 1")), "112672006de516b935135cf97bb8595f");
        assert_eq!(key("é").len(), 16);
    }
}
