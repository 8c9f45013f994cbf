//! `gapless proof`: what the server says is computed anew here, from the bytes of the event up to the root.

use std::io::Write;

use anyhow::Result;
use gapless_api::json::to_json;
use gapless_client::{Ledger, v1};
use gapless_partition::proof::{Hash, Head, LeafIndex, TreeSize, verify_inclusion};

use super::{answer, ask, hexadecimal};
use crate::cli::{DumpForm, ProofArguments};
use crate::output::write_json;
use crate::refusal::Refusal;

/// Runs the command.
pub(crate) fn run(arguments: &ProofArguments, out: &mut dyn Write) -> Result<()> {
    let connection = &arguments.connection;
    let request = v1::GetInclusionProofRequest {
        namespace: arguments.place.namespace.clone(),
        workspace: arguments.place.workspace,
        workspace_offset: arguments.offset,
        tree_size: arguments.size.unwrap_or(0),
        options: None,
    };
    let found =
        ask(connection, async |client| answer(client.get_inclusion_proof(request), connection).await)?;
    let proof = found.proof.clone().unwrap_or_default();
    let root = match &arguments.root {
        Some(kept) => from_hexadecimal(kept)?,
        None => proof.root.to_vec(),
    };
    let leaf = Hash::of_leaf(&found.leaf);
    verified(&root, arguments.size.unwrap_or(proof.tree_size), &proof, leaf.as_bytes())?;
    match connection.output {
        DumpForm::Json => write_json(out, &to_json("GetInclusionProofResponse", &found)),
        DumpForm::Raw => Ok(writeln!(out, "{}", hexadecimal(&root))?),
        DumpForm::Table => {
            let trusted = if arguments.root.is_some() { "which you kept" } else { "as the server says" };
            writeln!(out, "verified  event {} is one of the first {}", arguments.offset, proof.tree_size)?;
            writeln!(out, "leaf      {leaf}, of {} bytes", found.leaf.len())?;
            for hash in &proof.hashes {
                writeln!(out, "beside    {}", hexadecimal(hash))?;
            }
            writeln!(out, "root      {}, {trusted}", hexadecimal(&root))?;
            Ok(())
        }
    }
}

/// Checks a proof against a root.
pub(super) fn verified(root: &[u8], size: u64, proof: &v1::MerkleProof, leaf: &[u8]) -> Result<()> {
    let head = Head { size: TreeSize::new(size), root: hash(root)? };
    let hashes = proof.hashes.iter().map(|bytes| hash(bytes)).collect::<Result<Vec<_>>>()?;
    verify_inclusion(hash(leaf)?, LeafIndex::new(proof.leaf_index), &head, &hashes).map_err(|error| {
        let next = "keep what you have: the ledger is not the one that this root is of, or it was changed";
        Refusal::new(format!("the proof does not hold: {error}"), next).into()
    })
}

fn hash(bytes: &[u8]) -> Result<Hash> {
    let wrong =
        || Refusal::new("a hash does not have 32 bytes", "see that server and program have the same version");
    Ok(Hash::from_bytes(bytes.try_into().map_err(|_| wrong())?))
}

fn from_hexadecimal(text: &str) -> Result<Vec<u8>> {
    let digit = |at: usize| text.get(at..at + 2).and_then(|digits| u8::from_str_radix(digits, 16).ok());
    let bytes: Option<Vec<u8>> = (0..text.len()).step_by(2).map(digit).collect();
    bytes.filter(|bytes| bytes.len() == 32).ok_or_else(|| {
        Refusal::new(format!("`{text:.80}` is not a root"), "give 64 hexadecimal digits").into()
    })
}
