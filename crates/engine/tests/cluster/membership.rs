//! Members that join, vote, hand over, lose their disks and leave, while clients write.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use gapless_consensus::{NodeId, Start};
use gapless_engine::Engine;
use gapless_partition::Committed;

use crate::harness::{Cluster, check_history, committed, eventually, id, sale};

fn set(nodes: &[u64]) -> BTreeSet<NodeId> {
    nodes.iter().copied().map(id).collect()
}

/// Writes so many more events while `change` goes on at whoever leads.
async fn write_during(
    cluster: &Cluster,
    acknowledged: &mut BTreeMap<u64, Committed>,
    change: impl AsyncFnOnce(Engine),
) {
    let leader = cluster.engine(cluster.leader().await);
    let writes = async {
        for _ in 0..40 {
            let number = acknowledged.len() as u64;
            let acknowledgement = cluster.write(number, &sale(1)).await;
            acknowledged.insert(number, committed(&acknowledgement).clone());
        }
    };
    tokio::join!(writes, change(leader));
}

/// It was elected when it was alone, and nobody is elected when others come.
#[tokio::test(start_paused = true)]
async fn a_leader_that_was_alone_keeps_the_log_for_whoever_came() {
    for learns in [false, true] {
        let mut cluster = Cluster::found_keeping(1, 510, 5).await;
        cluster.define(1).await;
        for number in 0..60 {
            cluster.write(number, &sale(0)).await;
        }
        let leader = cluster.engine(id(1));
        let term = leader.replicator().leadership().borrow().term;
        for node in [2, 3] {
            cluster.seat(node, Start::Join);
            cluster.start(id(node)).await;
            leader.replicator().add_learner(id(node), format!("node-{node}")).await.unwrap();
        }
        let voters = if learns { set(&[1, 2]) } else { set(&[1, 2, 3]) };
        leader.replicator().change_voters(voters).await.unwrap();
        cluster.agree().await;
        let installed = || cluster.engine(id(3)).replicator().statistics().snapshots_installed;
        let installed_before = installed();
        cluster.board.isolate(id(3));
        for number in 100..200 {
            cluster.write_except(&[id(3)], number, &sale(0)).await;
        }
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert_eq!(leader.replicator().leadership().borrow().term, term, "nobody was elected");
        let kept = leader.replicator().progress().borrow().first_kept.unwrap();
        let has = cluster.engine(id(3)).replicator().progress().borrow().durable.unwrap();
        assert!(kept <= has.next().unwrap(), "TRUNC-1: kept from {kept} on, but node 3 has {has}");
        cluster.board.heal();
        eventually("the log is cut once it has caught up", || {
            leader.replicator().progress().borrow().first_kept.unwrap() > has
        })
        .await;
        assert_eq!(installed(), installed_before, "it got all of it from the log");
        cluster.agree().await;
        cluster.close_all().await;
    }
}

#[tokio::test(start_paused = true)]
async fn members_change_while_clients_write() {
    let mut cluster = Cluster::found(3, 500).await;
    cluster.define(2).await;
    let mut acknowledged = BTreeMap::new();
    write_during(&cluster, &mut acknowledged, async |_| {}).await;

    // One joins, learns, and votes.
    cluster.seat(4, Start::Join);
    cluster.start(id(4)).await;
    write_during(&cluster, &mut acknowledged, async |leader| {
        leader.replicator().add_learner(id(4), "node-4".to_owned()).await.unwrap();
        leader.replicator().change_voters(set(&[1, 2, 3, 4])).await.unwrap();
    })
    .await;
    cluster.agree().await;

    // It leads, because it was asked to.
    let before = cluster.leader().await;
    write_during(&cluster, &mut acknowledged, async |leader| {
        leader.replicator().transfer_leadership(id(4)).await.unwrap();
    })
    .await;
    assert_ne!(before, id(4));
    eventually("another one leads", || cluster.engine(id(4)).replicator().leadership().borrow().is_ready())
        .await;

    // One of the founders loses its disk. What replaces it has another id, because an id is never used again.
    cluster.kill(id(1)).await;
    cluster.seats.remove(&id(1));
    cluster.seat(5, Start::Join);
    cluster.start(id(5)).await;
    write_during(&cluster, &mut acknowledged, async |leader| {
        leader.replicator().add_learner(id(5), "node-5".to_owned()).await.unwrap();
        assert_eq!(leader.replicator().members().learners(), set(&[5]));
        leader.replicator().change_voters(set(&[2, 3, 4, 5])).await.unwrap();
    })
    .await;
    let leader = cluster.leader().await;
    assert_eq!(cluster.engine(leader).replicator().members().all_voters(), set(&[2, 3, 4, 5]));
    cluster.agree().await;
    check_history(&cluster.engine(leader), 1, &acknowledged).await;
    cluster.close_all().await;
}
