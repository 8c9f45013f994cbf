//! Members that join, vote, hand over, lose their disks and leave, while clients write.

use std::collections::{BTreeMap, BTreeSet};

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
