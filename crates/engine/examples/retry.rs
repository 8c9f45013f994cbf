//! A process that is gone between a write and its acknowledgement, and a retry that gets the numbers all the same.
//!
//! `cargo run -p gapless-engine --example retry [DIR]`. The program starts itself as a child. The child sells, sees its last sale in
//! the ledger, and aborts before anybody was told. The parent does not know whether that sale happened: it opens what the child left,
//! and asks again with the same key.
#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::error::Error;
use std::num::NonZeroU16;
use std::path::{Path, PathBuf};
use std::process::Command;

use gapless_engine::partition::{Committed, Definition, Operation, Write};
use gapless_engine::types::{Name, WorkspaceId, WorkspaceOffset};
use gapless_engine::{Acknowledgement, Engine, Follow, WriteError, WriteOptions, named_key};

const TILL: WorkspaceId = WorkspaceId::new(1);
const CHILD: &str = "--child";
/// Sales that the child is told about; the next one it is not.
const TOLD: u64 = 3;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    match arguments.as_slice() {
        [child, dir] if child == CHILD => sell_and_die(Path::new(dir)).await,
        _ => {
            let temporary = tempfile::tempdir()?;
            let dir = arguments.first().map_or(temporary.path().join("shop"), PathBuf::from);
            retry(&dir).await
        }
    }
}

async fn sell_and_die(dir: &Path) -> Result<(), Box<dyn Error>> {
    let engine = Engine::embed(dir).await?;
    let shop = Definition::new(Name::new("shop")?, NonZeroU16::MIN);
    engine.define(shop.with_sequence(Name::new("invoice")?, 1)).await?;
    for order in 1..=TOLD {
        let told = sell(&engine, order).await?;
        println!("child:  order {order} is sold, {}", numbers(told.committed()?));
    }
    let partition = engine.partition_of("shop", TILL).ok_or("the shop is gone")?;
    let place = WorkspaceOffset::new(TOLD + 1).ok_or("places begin at 1")?;
    let mut sales = engine.follow(Follow::Workspace(partition, TILL, place))?;
    let untold = {
        let engine = engine.clone();
        tokio::spawn(async move { sell(&engine, TOLD + 1).await })
    };
    // Whatever the ledger answers, nobody listens to it.
    sales.next().await?;
    println!("child:  order {} is in the ledger; aborting before anybody is told", TOLD + 1);
    drop(untold);
    std::process::abort()
}

async fn retry(dir: &Path) -> Result<(), Box<dyn Error>> {
    let child = Command::new(std::env::current_exe()?).arg(CHILD).arg(dir).status()?;
    println!("parent: the child ended with {child}");
    let engine = Engine::embed(dir).await?;
    for order in 1..=TOLD + 1 {
        let retried = sell(&engine, order).await?;
        println!("parent: order {order} again, {}", numbers(retried.committed()?));
        if !retried.duplicate || retried.committed()?.workspace_offset.get() != order {
            return Err("a sale was lost or sold twice".into());
        }
    }
    let next = sell(&engine, TOLD + 2).await?;
    // In a directory that an earlier run left behind it is there, too.
    let known = if next.duplicate { "again" } else { "is new" };
    println!("parent: order {} {known}, {}", TOLD + 2, numbers(next.committed()?));
    let sold = engine.head_of("shop", TILL).await?.size;
    println!("parent: {sold} orders, {sold} events, no number missing and none twice");
    engine.close().await;
    Ok(())
}

async fn sell(engine: &Engine, order: u64) -> Result<Acknowledgement, WriteError> {
    let payload = format!("{{\"order\":{order}}}");
    let operations = vec![Operation::NextNumber { sequence: "invoice" }];
    let sale = Write { payload: payload.as_bytes(), operations, ..Write::new(TILL, "till", "ItemSold") };
    engine.write("shop", named_key(&format!("order {order}")), &sale, WriteOptions::default()).await
}

fn numbers(committed: &Committed) -> String {
    let invoice = committed.numbers[0].1;
    let (event, transaction) = (committed.workspace_offset, committed.transaction);
    format!("invoice {invoice}, event {event}, transaction {transaction}")
}
