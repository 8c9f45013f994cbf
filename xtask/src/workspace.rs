//! Where things are in this clone.

use std::env;
use std::path::{Path, PathBuf};

/// The folders the commands work in.
#[derive(Debug)]
pub(crate) struct Workspace {
    /// The folder of the root manifest.
    pub(crate) root: PathBuf,
    /// Where cargo puts what it builds.
    pub(crate) target: PathBuf,
}

impl Workspace {
    pub(crate) fn of_this_process() -> Self {
        // Cargo tells a program it runs where its package is now; what was compiled in may be a clone that moved.
        let package = env::var_os("CARGO_MANIFEST_DIR")
            .map_or_else(|| env!("CARGO_MANIFEST_DIR").into(), PathBuf::from);
        let root = package.parent().unwrap_or(&package).to_path_buf();
        let target = root.join(env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into()));
        Self { root, target }
    }

    /// Where a clone keeps the programs it installed for itself.
    pub(crate) fn tools(&self) -> PathBuf {
        self.target.join("tools")
    }

    /// The manifests of the workspaces beside this one, those that exist.
    pub(crate) fn other_manifests(&self) -> Vec<PathBuf> {
        let manifests = [self.fuzz_manifest(), self.rivals_manifest()];
        manifests.into_iter().filter(|manifest| manifest.exists()).collect()
    }

    pub(crate) fn fuzz_manifest(&self) -> PathBuf {
        self.root.join("fuzz/Cargo.toml")
    }

    pub(crate) fn rivals_manifest(&self) -> PathBuf {
        self.root.join("bench/rivals/Cargo.toml")
    }

    /// The test cases that are data, and that several implementations share: beside the clone, not in it.
    pub(crate) fn vectors(&self) -> PathBuf {
        self.root.parent().unwrap_or(Path::new("..")).join("shared/vectors")
    }
}
