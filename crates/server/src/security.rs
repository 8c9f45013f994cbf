//! What a server is told about its own protection, and what follows from it.
//!
//! Must not know: who may do what.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustls::ServerConfig;

use crate::access::authentication::Authentication;
use crate::access::certificates::Certificates;
use crate::access::clock::Clock;
use crate::access::keys::Keys;
use crate::access::reload::{Contents, Current, Reload};
use crate::access::tokens::Expected;
use crate::tls::{self, ClientCertificates, TlsFiles};

/// How a server protects itself. Paths that are empty are of files that nobody named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Security {
    /// TLS, if there are a certificate and a key.
    pub tls: TlsFiles,
    /// Keys that tokens are checked with.
    pub token_keys: PathBuf,
    /// The name of this server in tokens.
    pub audience: String,
    /// How far clocks may be apart.
    pub leeway: Duration,
    /// Names in client certificates, and what they may do.
    pub clients: PathBuf,
    /// How often files are looked at again.
    pub reload_interval: Duration,
}

impl Default for Security {
    fn default() -> Self {
        Self {
            tls: TlsFiles::default(),
            token_keys: PathBuf::new(),
            audience: "gapless".to_owned(),
            leeway: Duration::from_secs(30),
            clients: PathBuf::new(),
            reload_interval: Duration::from_secs(10),
        }
    }
}

/// What is allowed to anybody but the owner of a file.
const OTHERS: u32 = 0o077;

fn is_named(path: &Path) -> bool {
    !path.as_os_str().is_empty()
}

impl Security {
    /// Whether connections are encrypted.
    pub fn has_tls(&self) -> bool {
        is_named(&self.tls.certificate)
    }

    /// Whether everybody is asked who he is.
    pub fn has_authentication(&self) -> bool {
        is_named(&self.token_keys) || is_named(&self.clients)
    }

    /// What contradicts itself: the setting, and why.
    pub fn contradictions(&self) -> Vec<(&'static str, String)> {
        let mut found = Vec::new();
        if is_named(&self.tls.certificate) != is_named(&self.tls.key) {
            found.push(("tls.key", "certificate and key are given together, or neither".to_owned()));
        }
        if is_named(&self.tls.client_ca) && !self.has_tls() {
            found.push((
                "tls.client_ca",
                "clients have certificates only where the server has one".to_owned(),
            ));
        }
        if is_named(&self.clients) && !is_named(&self.tls.client_ca) {
            found.push(("access.clients", "certificates need an authority: tls.client_ca".to_owned()));
        }
        if self.audience.is_empty() {
            found.push(("access.audience", "a server has a name in tokens".to_owned()));
        }
        found
    }

    /// Reads all files.
    ///
    /// # Errors
    /// With what is wrong with one of them.
    pub(crate) fn open(&self, clock: Clock) -> Result<Opened, String> {
        let mut sources: Vec<Arc<dyn Reload>> = Vec::new();
        [&self.tls.key, &self.token_keys].into_iter().for_each(|path| warn_if_shared(path));
        let clients = match is_named(&self.token_keys) {
            true => ClientCertificates::Optional,
            false => ClientCertificates::Required,
        };
        let tls = if self.has_tls() {
            let tls = Arc::new(tls::current(&self.tls, clients)?);
            sources.push(tls.clone());
            Some(tls)
        } else {
            None
        };
        let tokens = if is_named(&self.token_keys) {
            let read = |contents: &Contents| Keys::read(&text(contents)?).map_err(|error| error.to_string());
            let keys = Arc::new(Current::new("keys of tokens", vec![self.token_keys.clone()], read)?);
            tracing::info!(keys = keys.get().len(), audience = self.audience, "tokens are taken");
            sources.push(keys.clone());
            Some((keys, Expected { audience: self.audience.clone(), leeway: self.leeway.as_secs() }))
        } else {
            None
        };
        let certificates = if is_named(&self.clients) {
            let read = |contents: &Contents| Certificates::read(&text(contents)?);
            let names = Arc::new(Current::new("names of clients", vec![self.clients.clone()], read)?);
            sources.push(names.clone());
            Some(names)
        } else {
            None
        };
        Ok(Opened {
            tls,
            authentication: Arc::new(Authentication::new(tokens, certificates, clock)),
            sources,
        })
    }
}

/// A file with a secret that others on this machine can read is no reason not to serve, but one to say so.
fn warn_if_shared(path: &Path) {
    let mode = std::fs::metadata(path).map(|metadata| metadata.permissions().mode());
    if mode.is_ok_and(|mode| mode & OTHERS != 0) {
        tracing::warn!(file = %path.display(), "others on this machine may read or change this file: chmod 600");
    }
}

/// The only file of a source, as text.
fn text(contents: &Contents) -> Result<String, String> {
    let bytes = contents.first().cloned().unwrap_or_default();
    String::from_utf8(bytes).map_err(|_| "it is not UTF-8".to_owned())
}

/// Everything that was read.
pub(crate) struct Opened {
    pub(crate) tls: Option<Arc<Current<Arc<ServerConfig>>>>,
    pub(crate) authentication: Arc<Authentication>,
    pub(crate) sources: Vec<Arc<dyn Reload>>,
}
