//! `gapless write`.

use std::io::{Read, Write};

use anyhow::{Context, Result};
use gapless_api::json::{is_json, to_json};
use gapless_api::key::key_of;
use gapless_client::{Ledger, random_key, v1};

use super::advice::explained_write;
use super::proof::verified;
use super::{ask, hexadecimal, pairs};
use crate::cli::{DumpForm, WriteArguments};
use crate::output::write_json;
use crate::refusal::Refusal;

/// Runs the command.
pub(crate) fn run(arguments: &WriteArguments, out: &mut dyn Write) -> Result<()> {
    let request = request(arguments)?;
    let key = hexadecimal(&request.idempotency_key);
    let connection = &arguments.connection;
    let success = ask(connection, async |client| {
        client.write(request).await.map_err(|error| explained_write(error, connection, &key))
    })?;
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
        idempotency_key: arguments.key.as_deref().map_or_else(|| Ok(random_key()), key)?,
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

fn key(text: &str) -> Result<bytes::Bytes> {
    let key = key_of(text);
    let key =
        key.map_err(|error| Refusal::new(error.to_string(), "choose another --key, or leave it out"))?;
    Ok(bytes::Bytes::copy_from_slice(key.as_bytes()))
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
