//! What a directory says when it is opened, and which cluster a node without a past belongs to.
//!
//! The id of the cluster is on disk before consensus makes its own files, which repeat it: a directory whose parts say different ids
//! is not opened.
//!
//! Must not know: how nodes of other clusters are refused on the way; consensus does that by the same id.

use gapless_consensus::{ClusterId, Members, Start};
use sha2::{Digest, Sha256};

use crate::catalog::{CatalogFile, StoredCatalog};
use crate::engine::Config;
use crate::error::OpenError;
use crate::machine_version::UnknownMachineVersion;
use crate::restore;
use crate::workers::Workers;

/// What is on disk. A node without a past gets its cluster, which is durable when this returns.
pub(crate) async fn read_or_found(
    config: &Config,
    workers: &Workers,
) -> Result<(StoredCatalog, ClusterId), OpenError> {
    let unfinished = {
        let (io, dir) = (config.io.clone(), config.dir.clone());
        workers.run(move || restore::is_unfinished(&*io, &dir)).await
    };
    let failed = |source| OpenError::Io { action: "list", path: config.dir.clone(), source };
    if unfinished.map_err(failed)? {
        return Err(OpenError::Unfinished(config.dir.clone()));
    }
    let file = CatalogFile::new(config.io.clone(), &config.dir);
    let mut stored = {
        let file = file.clone();
        workers.run(move || file.read()).await?
    };
    // Before anything else is read: it may be of a form that this program does not know.
    UnknownMachineVersion::check(stored.catalog.machine_version(), config.known_version)?;
    match (stored.cluster, config.cluster) {
        (Some(stored), Some(given)) if stored != given => {
            return Err(OpenError::AnotherCluster { stored, given });
        }
        (Some(cluster), _) => return Ok((stored, cluster)),
        (None, _) => {}
    }
    let cluster = match (config.cluster, &config.start) {
        (Some(given), _) => given,
        (None, Start::Found(members)) => founded(config, members),
        (None, Start::Join) => {
            let needs = "a node that joins has to be told the id of the cluster";
            return Err(OpenError::Configuration(needs.to_owned()));
        }
    };
    stored.cluster = Some(cluster);
    let written = stored.clone();
    workers.run(move || file.write(&written)).await?;
    Ok((stored, cluster))
}

fn founded(config: &Config, members: &Members) -> ClusterId {
    let mut hash = Sha256::new();
    hash.update(b"gapless cluster 1\0");
    if members.addresses.len() <= 1 {
        // Where chance and time come from is handed in.
        hash.update(config.consensus.seed.to_le_bytes());
        hash.update(config.clock.wall().as_nanos().to_le_bytes());
    } else {
        // All founders have to come to the same.
        for (node, address) in &members.addresses {
            hash.update(node.get().to_le_bytes());
            hash.update((address.len() as u64).to_le_bytes());
            hash.update(address);
        }
    }
    let hash: [u8; 32] = hash.finalize().into();
    ClusterId::from_bytes(*hash.first_chunk().expect("a hash is longer than an id"))
}
