//! The worker of the Rust client, over a socket and in the same process: the same trait, the same answers.

use std::collections::BTreeMap;
use std::time::Duration;

use gapless_api::v1;
use gapless_client::{Changes, Client, Embedded, Projections, Rows, Worked};

use crate::projections::{query, shop, sold};
use crate::support::{Ledger, Node, written};

const EVENTS: u64 = 40;

fn client(node: &Node) -> Client {
    Client::new(&[node.server.address().to_string()]).unwrap()
}

fn day(slot: &v1::GrantedSlot) -> (String, i64) {
    let event = slot.event.as_ref().unwrap();
    let fields: serde_json::Value = serde_json::from_slice(&event.payload).unwrap();
    (fields["day"].as_str().unwrap().to_owned(), fields["amount"].as_i64().unwrap())
}

/// What depends on everything before it.
fn chained(before: i64, amount: i64) -> i64 {
    (before * 31 + amount) % 1_000_003
}

async fn compute<P: Projections>(slot: v1::GrantedSlot, rows: Rows<P>) -> Result<Changes, String> {
    let (day, amount) = day(&slot);
    let row = rows.get("daily", &day).await.map_err(|error| error.to_string())?;
    let before = row.and_then(|row| row["chain"].as_integer()).unwrap_or(0);
    // Others get ahead meanwhile, so that some of this is in vain.
    tokio::task::yield_now().await;
    Ok(Changes::none().put("daily", &day, [("chain", chained(before, amount))]))
}

async fn sell(ledger: &mut Ledger) -> BTreeMap<String, i64> {
    let mut folded = BTreeMap::new();
    for number in 1..=EVENTS {
        let (day, amount) = (format!("day-{}", number % 3), i64::try_from(number * 7 % 13).unwrap());
        written(ledger, sold(number, &day, amount)).await;
        let row = folded.entry(day).or_insert(0);
        *row = chained(*row, amount);
    }
    folded
}

/// Two workers until everything is visible, then rows and what they did.
async fn worked<P: Projections>(projections: P) -> (BTreeMap<String, i64>, Worked) {
    // No lease ends by itself, however busy the machine is.
    let worker = || projections.worker("shop", "work").with_ttl(Duration::from_secs(60));
    let workers = [worker(), worker().named("other")];
    let stoppers = [workers[0].stopper(), workers[1].stopper()];
    let running = workers.map(|worker| tokio::spawn(worker.run(4, compute::<P>)));
    for attempt in 0.. {
        assert!(attempt < 3000, "it is never visible");
        let (namespace, projection) = ("shop".to_owned(), "work".to_owned());
        let request = v1::DescribeRequest { namespace, projection, ..Default::default() };
        if projections.describe(request).await.unwrap().domains[1].watermark == EVENTS {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    stoppers.iter().for_each(gapless_client::Stopper::stop);
    let mut all = Worked::default();
    for one in running {
        let one = one.await.unwrap().unwrap();
        all.committed += one.committed;
        all.returned += one.returned;
        all.fenced += one.fenced;
        all.failed += one.failed;
    }
    let rows = projections.query(query("work", None, 0)).await.unwrap().rows;
    let rows = rows.into_iter().map(|row| (row.id, row.columns["chain"].as_integer().unwrap()));
    (rows.collect(), all)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn workers_over_a_socket_make_what_one_would_have_made() {
    let (node, mut ledger, _) = shop().await;
    let folded = sell(&mut ledger).await;
    let (rows, worked) = worked(client(&node)).await;
    assert_eq!(rows, folded, "ORD-1");
    // A commit that is sent back when its turn comes was taken before.
    assert!(worked.committed >= EVENTS && worked.failed == 0 && worked.fenced == 0, "{worked:?}");
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn workers_in_the_same_process_make_the_same() {
    let (node, mut ledger, _) = shop().await;
    let folded = sell(&mut ledger).await;
    let (rows, worked) = worked(Embedded::new(node.engine.clone())).await;
    assert_eq!(rows, folded, "ORD-1");
    assert!(worked.committed >= EVENTS && worked.failed == 0, "{worked:?}");
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_is_stopped_gives_back_what_it_holds() {
    let (node, mut ledger, mut projections) = shop().await;
    written(&mut ledger, sold(1, "today", 1)).await;
    let worker = client(&node).worker("shop", "work");
    let stopper = worker.stopper();
    let stop = {
        let stopper = stopper.clone();
        move |_: v1::GrantedSlot, _: Rows<Client>| {
            stopper.stop();
            std::future::pending()
        }
    };
    let worked = worker.run(2, stop).await.unwrap();
    // Whoever was asking for more when it was stopped may have been given it again.
    assert_eq!(worked, Worked { released: worked.released.max(1), ..Worked::default() });
    let again = crate::projections::leased(&mut projections, "work", 60_000).await;
    assert_eq!((again.slot, again.attempt), (1, 1), "no attempt was lost");
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_is_renewed_while_its_work_goes_on_and_work_that_fails_is_tried_again() {
    let (node, mut ledger, _) = shop().await;
    written(&mut ledger, sold(1, "today", 1)).await;
    // It is renewed at half of that, and a busy machine has the other half.
    let ttl = Duration::from_secs(20);
    let worker = client(&node).worker("shop", "work").with_ttl(ttl);
    let stopper = worker.stopper();
    let (watching, working) = (node.engine.clone(), node.engine.clone());
    let running = tokio::spawn(worker.run(1, move |slot: v1::GrantedSlot, _: Rows<Client>| {
        let engine = working.clone();
        async move {
            if slot.attempt == 1 {
                return Err("not at first".to_owned());
            }
            // The work is done when its lease was renewed: it lasts longer than it was granted for.
            for _ in 0..3000 {
                let report = engine.projection("shop", "work").unwrap();
                let mut blocking =
                    report.domains.iter().filter_map(|domain| domain.status.as_ref()?.blocking.clone());
                if blocking.any(|slot| u128::from(slot.expires_at - slot.leased_at) > ttl.as_millis()) {
                    return Ok(Changes::result("{\"done\": true}"));
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            Err("it was never renewed".to_owned())
        }
    }));
    let domain = watching.domain("shop", "work", gapless_engine::types::PartitionIndex::new(1)).unwrap();
    watching.wait_for_slot(&domain, 1, crate::support::LONG).await.unwrap();
    stopper.stop();
    let worked = running.await.unwrap().unwrap();
    assert_eq!((worked.committed, worked.failed, worked.fenced), (1, 1, 0), "{worked:?}");
    node.stop().await;
}
