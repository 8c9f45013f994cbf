//! A shop with invoice numbers: it writes, retries, crashes, recovers, subscribes and proves, in one process and on real files.
//!
//! `cargo run -p gapless-engine --example embed [DIR]`, where DIR is kept; run it again, and nothing is sold twice.
#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::error::Error;
use std::num::NonZeroU16;
use std::path::PathBuf;

use gapless_engine::partition::{Definition, Operation, Write};
use gapless_engine::types::{Name, WorkspaceId, WorkspaceOffset};
use gapless_engine::{Engine, Follow, WriteOptions, named_key};

const TILL: WorkspaceId = WorkspaceId::new(1);

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let temporary = tempfile::tempdir()?;
    let dir = std::env::args_os().nth(1).map_or(temporary.path().join("shop"), PathBuf::from);
    let engine = Engine::embed(&dir).await?;
    let shop = Definition::new(Name::new("shop")?, NonZeroU16::MIN);
    engine.define(shop.with_sequence(Name::new("invoice")?, 1)).await?;

    for order in ["order 1", "order 2", "order 3", "order 2"] {
        sell(&engine, order).await?;
    }
    let kept = engine.head_of("shop", TILL).await?;

    println!("the process dies; what was acknowledged is on disk");
    engine.kill().await;
    let engine = Engine::embed(&dir).await?;
    for order in ["order 3", "order 4"] {
        sell(&engine, order).await?;
    }

    let partition = engine.partition_of("shop", TILL).ok_or("the shop is gone")?;
    let mut sales = engine.follow(Follow::Workspace(partition, TILL, WorkspaceOffset::FIRST))?;
    for _ in 1..=4 {
        let event = sales.next().await?.outcome;
        let payload = event.write()?.map(|write| String::from_utf8_lossy(write.payload).into_owned());
        println!("followed: invoice {}: {}", event.header().numbers[0].1, payload.unwrap_or_default());
    }

    let first = engine.proof_of("shop", TILL, WorkspaceOffset::FIRST, kept.size).await?;
    first.verify(&kept)?;
    println!("proven: invoice 1 is what it was when there were {} events with root {}", kept.size, kept.root);
    engine.close().await;
    Ok(())
}

async fn sell(engine: &Engine, order: &str) -> Result<(), Box<dyn Error>> {
    let payload = format!("{{\"order\":\"{order}\"}}");
    let operations = vec![Operation::NextNumber { sequence: "invoice" }];
    let sale = Write { payload: payload.as_bytes(), operations, ..Write::new(TILL, "till", "ItemSold") };
    let sold = engine.write("shop", named_key(order), &sale, WriteOptions::default()).await?;
    let again = if sold.duplicate { ", as it was told before" } else { "" };
    println!("{order}: invoice {}{again}", sold.committed()?.numbers[0].1);
    Ok(())
}
