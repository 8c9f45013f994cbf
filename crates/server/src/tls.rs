//! TLS of the port that clients connect to: HTTP/2 and HTTP/1.1, and certificates of clients if an authority for them is named.
//!
//! Must not know: who may do what.

pub(crate) mod verifier;

use std::path::PathBuf;
use std::sync::Arc;

use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::{RootCertStore, ServerConfig};

use self::verifier::Silent;
use crate::access::reload::{Contents, Current};

/// What clients can speak, the best first.
const PROTOCOLS: [&[u8]; 2] = [b"h2", b"http/1.1"];

/// Files that a server proves itself with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsFiles {
    /// The chain of certificates, as PEM; that of the server first.
    pub certificate: PathBuf,
    /// The private key, as PEM.
    pub key: PathBuf,
    /// Authorities that certificates of clients have to be of; nobody is asked for one if it is empty.
    pub client_ca: PathBuf,
}

/// Whether a client has to have a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClientCertificates {
    /// There is no other way to say who one is.
    Required,
    /// There are tokens as well.
    Optional,
}

/// The algorithms: those of one library, the same everywhere.
pub(crate) fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

/// The set-up of TLS, made anew when its files change.
///
/// # Errors
/// If the files are not what they should be.
pub(crate) fn current(
    files: &TlsFiles,
    clients: ClientCertificates,
) -> Result<Current<Arc<ServerConfig>>, String> {
    let mut paths = vec![files.certificate.clone(), files.key.clone()];
    if !files.client_ca.as_os_str().is_empty() {
        paths.push(files.client_ca.clone());
    }
    Current::new("certificates", paths, move |contents| made(contents, clients))
}

fn made(contents: &Contents, clients: ClientCertificates) -> Result<Arc<ServerConfig>, String> {
    let chain = certificates(&contents[0])?;
    // What stands in a file of keys is never repeated.
    let key = PrivateKeyDer::from_pem_slice(&contents[1])
        .map_err(|_| "there is no private key in it".to_owned())?;
    let builder = ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    let builder = match contents.get(2) {
        None => builder.with_no_client_auth(),
        Some(authorities) => {
            let mut roots = RootCertStore::empty();
            for authority in certificates(authorities)? {
                roots.add(authority).map_err(|error| format!("an authority is none: {error}"))?;
            }
            // Whose certificates are taken is nobody's business who has none of them.
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider())
                .clear_root_hint_subjects();
            let verifier = match clients {
                ClientCertificates::Required => verifier,
                ClientCertificates::Optional => verifier.allow_unauthenticated(),
            };
            let verifier = verifier.build().map_err(|error| error.to_string())?;
            builder.with_client_cert_verifier(Arc::new(Silent(verifier)))
        }
    };
    let mut config = builder
        .with_single_cert(chain, key)
        .map_err(|error| format!("certificate and key do not belong together: {error}"))?;
    config.alpn_protocols = PROTOCOLS.map(<[u8]>::to_vec).to_vec();
    if contents.len() > 2 {
        // Whoever takes up a session again is believed to be who he was, without a look at his certificate; and again after that.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
    }
    Ok(Arc::new(config))
}

fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match all {
        Ok(all) if !all.is_empty() => Ok(all),
        _ => Err("there is no certificate in it".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use rustls::{ClientConfig, ClientConnection, Connection, HandshakeKind, ServerConnection};

    use super::*;

    fn pair(name: &str) -> (Vec<u8>, Vec<u8>) {
        let made = rcgen::generate_simple_self_signed([name.to_owned()]).unwrap();
        (made.cert.pem().into_bytes(), made.signing_key.serialize_pem().into_bytes())
    }

    #[test]
    fn certificate_and_key_belong_together() {
        let (one, its_key) = pair("one.example");
        let (_, other_key) = pair("two.example");
        let make = |contents: &[&[u8]]| {
            let contents = contents.iter().map(|part| part.to_vec()).collect();
            made(&contents, ClientCertificates::Required).map(|config| config.alpn_protocols.len())
        };
        assert_eq!(make(&[&one, &its_key]), Ok(2));
        assert_eq!(make(&[&one, &its_key, &one]), Ok(2));
        assert!(make(&[&one, &other_key]).unwrap_err().contains("do not belong together"));
        for wrong in [[&b""[..], &its_key], [&one, b""], [&its_key, &its_key], [&one, &one]] {
            let told = make(&wrong).unwrap_err();
            assert!(!told.contains("PRIVATE"), "{told}");
        }
        assert!(make(&[&one, &its_key, b"nothing"]).is_err());
    }

    /// Sends what one side has to say to the other.
    fn tell(from: &mut Connection, to: &mut Connection) {
        let mut said = Vec::new();
        while from.wants_write() {
            from.write_tls(&mut said).unwrap();
        }
        let mut said = said.as_slice();
        while !said.is_empty() {
            to.read_tls(&mut said).unwrap();
            to.process_new_packets().unwrap();
        }
    }

    /// Connects, and says how.
    fn met(server: &Arc<ServerConfig>, client: &Arc<ClientConfig>) -> HandshakeKind {
        let mut server = Connection::from(ServerConnection::new(server.clone()).unwrap());
        let name = "one.example".try_into().unwrap();
        let mut client = Connection::from(ClientConnection::new(client.clone(), name).unwrap());
        while client.is_handshaking() || server.is_handshaking() || server.wants_write() {
            tell(&mut client, &mut server);
            tell(&mut server, &mut client);
        }
        server.handshake_kind().unwrap()
    }

    /// A client that has no certificate, and writes down whose the server would like.
    #[derive(Debug, Default)]
    struct Curious(std::sync::Mutex<Option<usize>>);

    impl rustls::client::ResolvesClientCert for Curious {
        fn resolve(
            &self,
            hints: &[&[u8]],
            _: &[rustls::SignatureScheme],
        ) -> Option<Arc<rustls::sign::CertifiedKey>> {
            *self.0.lock().unwrap() = Some(hints.len());
            None
        }

        fn has_certs(&self) -> bool {
            true
        }
    }

    #[test]
    fn a_stranger_is_not_told_whose_certificates_are_taken() {
        let (certificate, key) = pair("one.example");
        let mut roots = RootCertStore::empty();
        roots.add(certificates(&certificate).unwrap().remove(0)).unwrap();
        let contents = vec![certificate.clone(), key, certificate];
        let server = made(&contents, ClientCertificates::Optional).unwrap();
        for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
            let curious = Arc::new(Curious::default());
            let client = ClientConfig::builder_with_provider(provider());
            let client = client.with_protocol_versions(&[version]).unwrap();
            let client = client.with_root_certificates(roots.clone());
            met(&server, &Arc::new(client.with_client_cert_resolver(curious.clone())));
            assert_eq!(
                *curious.0.lock().unwrap(),
                Some(0),
                "he is asked for one, and not told of which authority"
            );
        }
    }

    #[test]
    fn a_certificate_of_a_client_is_looked_at_whenever_it_connects() {
        let (certificate, key) = pair("one.example");
        let mut roots = RootCertStore::empty();
        roots.add(certificates(&certificate).unwrap().remove(0)).unwrap();
        for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
            for (contents, again) in [
                (vec![certificate.clone(), key.clone()], HandshakeKind::Resumed),
                (vec![certificate.clone(), key.clone(), certificate.clone()], HandshakeKind::Full),
            ] {
                let server = made(&contents, ClientCertificates::Optional).unwrap();
                let client = ClientConfig::builder_with_provider(provider());
                let client = client.with_protocol_versions(&[version]).unwrap();
                let client = client.with_root_certificates(roots.clone()).with_client_auth_cert(
                    certificates(&certificate).unwrap(),
                    PrivateKeyDer::from_pem_slice(&key).unwrap(),
                );
                let client = Arc::new(client.unwrap());
                assert_eq!(met(&server, &client), HandshakeKind::Full);
                assert_eq!(met(&server, &client), again, "{version:?}");
            }
        }
    }
}
