//! Domains of projections hold the replicated log until their checkpoints contain what is in it.

use std::time::Duration;

use gapless_engine::retention::{Domain, DomainRefused};
use gapless_types::{LogIndex, Name, WorkspaceId};

use crate::harness::{Cluster, id, sale};

#[tokio::test(start_paused = true)]
async fn the_log_is_kept_for_a_domain_until_its_checkpoint_covers_it_also_over_a_restart() {
    let mut cluster = Cluster::found_keeping(1, 1, 5).await;
    cluster.define(1).await;
    let engine = cluster.engine(id(1));
    let partition = engine.partition_of("shop", WorkspaceId::new(0)).unwrap();
    let domain = Domain { projection: Name::new("sales").unwrap(), version: 1, partition };
    let kept = |cluster: &Cluster| {
        let progress = *cluster.engine(id(1)).replicator().progress().borrow();
        progress.first_kept.map_or(0, LogIndex::get)
    };
    let from = LogIndex::new(10);
    engine.register_domain(domain.clone(), from).unwrap();
    for number in 0..100 {
        cluster.write(number, &sale(0)).await;
    }
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert!(kept(&cluster) <= 10, "TRUNC-1: kept from {} on", kept(&cluster));
    engine.domain_covers(&domain, LogIndex::new(40));
    engine.domain_covers(&domain, LogIndex::new(30));
    cluster.cut_beyond(id(1), 30).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(kept(&cluster), 41, "the first that it needs");
    let refused = engine.register_domain(Domain { version: 2, ..domain.clone() }, from).unwrap_err();
    assert!(matches!(refused, DomainRefused::TooLate { wanted, .. } if wanted == from), "{refused}");
    // Opened again with what the domain's own checkpoint says, it is held before anybody could register.
    drop(engine);
    cluster.kill(id(1)).await;
    cluster.seats.get_mut(&id(1)).unwrap().domains = vec![(domain.clone(), LogIndex::new(41))];
    cluster.start(id(1)).await;
    for number in 100..200 {
        cluster.write(number, &sale(0)).await;
    }
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(kept(&cluster), 41);
    cluster.engine(id(1)).release_domain(&domain);
    cluster.cut_beyond(id(1), 150).await;
    cluster.close_all().await;
}
