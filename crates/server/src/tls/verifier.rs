//! Certificates of clients, looked at without telling strangers why one is not taken.
//!
//! An alert of TLS says what was wrong with a certificate, and with that whose certificates are right: one that somebody made himself in
//! the name of our authority fails otherwise than one of an authority that nobody here knows. So all that is wrong is one error, and one
//! alert. What it was is inside, for the audit.
//!
//! Invariants
//! - Every refusal is sent as `certificate_unknown`.
//!
//! Must not know: whom certificates stand for.

use std::sync::Arc;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, OtherError, SignatureScheme,
};
use thiserror::Error;

/// Looks at certificates as another verifier does, and tells nobody else why.
#[derive(Debug)]
pub(super) struct Silent(pub(super) Arc<dyn ClientCertVerifier>);

/// Why a certificate is not taken: for those who may know.
#[derive(Clone, Debug, Error)]
#[error("the certificate is not taken")]
pub(crate) struct NotTaken(Error);

impl NotTaken {
    /// What the audit is told.
    pub(crate) fn audited(&self) -> &'static str {
        let Error::InvalidCertificate(error) = &self.0 else { return "CERTIFICATE_REFUSED" };
        match error {
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => "CERTIFICATE_EXPIRED",
            CertificateError::UnknownIssuer => "CERTIFICATE_ISSUER_UNKNOWN",
            CertificateError::BadSignature => "CERTIFICATE_SIGNATURE",
            _ => "CERTIFICATE_REFUSED",
        }
    }
}

fn silently(cause: Error) -> Error {
    CertificateError::Other(OtherError(Arc::new(NotTaken(cause)))).into()
}

impl ClientCertVerifier for Silent {
    fn offer_client_auth(&self) -> bool {
        self.0.offer_client_auth()
    }

    fn client_auth_mandatory(&self) -> bool {
        self.0.client_auth_mandatory()
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.0.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        self.0.verify_client_cert(certificate, intermediates, now).map_err(silently)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls12_signature(message, certificate, signature).map_err(silently)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls13_signature(message, certificate, signature).map_err(silently)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }

    fn requires_raw_public_keys(&self) -> bool {
        self.0.requires_raw_public_keys()
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};
    use rustls::pki_types::PrivateKeyDer;
    use rustls::{
        AlertDescription, ClientConfig, ClientConnection, Connection, RootCertStore, ServerConnection,
    };

    use super::super::{ClientCertificates, made, provider};
    use super::*;

    const AUTHORITY: &str = "the authority";

    fn authority(name: &str) -> CertificateParams {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        params
    }

    /// A certificate for a client, by the authority of this name and key, until the year; and its key.
    fn client(name: &str, signs: &KeyPair, until: i32) -> (CertificateDer<'static>, PrivateKeyDer<'static>) {
        let mut params = CertificateParams::new(vec!["till".to_owned()]).unwrap();
        params.not_after = rcgen::date_time_ymd(until, 1, 1);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate().unwrap();
        let issuer = Issuer::new(authority(name), signs);
        let certificate = params.signed_by(&key, &issuer).unwrap();
        (certificate.der().clone(), PrivateKeyDer::try_from(key.serialize_der()).unwrap())
    }

    /// Talks until one side has had enough: what the server thinks of it, and what the client is told.
    fn met(mut server: Connection, mut client: Connection) -> (Result<(), Error>, Option<AlertDescription>) {
        let mut thinks = Ok(());
        for _ in 0..10 {
            let (mut said, mut answered) = (Vec::new(), Vec::new());
            while client.wants_write() {
                client.write_tls(&mut said).unwrap();
            }
            let mut said = said.as_slice();
            while !said.is_empty() && thinks.is_ok() {
                server.read_tls(&mut said).unwrap();
                thinks = server.process_new_packets().map(drop);
            }
            while server.wants_write() {
                server.write_tls(&mut answered).unwrap();
            }
            let mut answered = answered.as_slice();
            while !answered.is_empty() {
                client.read_tls(&mut answered).unwrap();
                if let Err(Error::AlertReceived(alert)) = client.process_new_packets() {
                    return (thinks, Some(alert));
                }
            }
        }
        (thinks, None)
    }

    #[test]
    fn whatever_is_wrong_with_a_certificate_its_owner_is_told_the_same() {
        let ours = KeyPair::generate().unwrap();
        let ca = authority(AUTHORITY).self_signed(&ours).unwrap();
        let of_server = rcgen::generate_simple_self_signed(["one.example".to_owned()]).unwrap();
        let contents = vec![
            of_server.cert.pem().into_bytes(),
            of_server.signing_key.serialize_pem().into_bytes(),
            ca.pem().into_bytes(),
        ];
        let server = made(&contents, ClientCertificates::Optional).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(of_server.cert.der().clone()).unwrap();
        let theirs = KeyPair::generate().unwrap();
        let (borrowed, _) = client(AUTHORITY, &ours, 2096);
        let (_, other_key) = client(AUTHORITY, &ours, 2096);
        for (what, (certificate, key), audited) in [
            ("of nobody known", client("somebody", &theirs, 2096), "CERTIFICATE_ISSUER_UNKNOWN"),
            ("in the name of the authority", client(AUTHORITY, &theirs, 2096), "CERTIFICATE_SIGNATURE"),
            ("of yesterday", client(AUTHORITY, &ours, 2021), "CERTIFICATE_EXPIRED"),
            ("somebody else's", (borrowed, other_key), "CERTIFICATE_SIGNATURE"),
        ] {
            for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
                let client = ClientConfig::builder_with_provider(provider());
                let client = client.with_protocol_versions(&[version]).unwrap();
                let client = client.with_root_certificates(roots.clone());
                let shown = Shown::new(certificate.clone(), &key);
                let client = Arc::new(client.with_client_cert_resolver(Arc::new(shown)));
                let name = "one.example".try_into().unwrap();
                let client = Connection::from(ClientConnection::new(client, name).unwrap());
                let server = Connection::from(ServerConnection::new(server.clone()).unwrap());
                let (thinks, told) = met(server, client);
                assert_eq!(told, Some(AlertDescription::CertificateUnknown), "{what}: {thinks:?}");
                let Err(Error::InvalidCertificate(CertificateError::Other(OtherError(cause)))) = thinks
                else {
                    panic!("{what}: {thinks:?}");
                };
                assert_eq!(cause.downcast_ref::<NotTaken>().unwrap().audited(), audited, "{what}");
            }
        }
    }

    /// Shows a certificate, whether its key is at hand or another one.
    #[derive(Debug)]
    struct Shown(Arc<rustls::sign::CertifiedKey>);

    impl Shown {
        fn new(certificate: CertificateDer<'static>, key: &PrivateKeyDer<'static>) -> Self {
            let key = provider().key_provider.load_private_key(key.clone_key()).unwrap();
            Self(Arc::new(rustls::sign::CertifiedKey::new(vec![certificate], key)))
        }
    }

    impl rustls::client::ResolvesClientCert for Shown {
        fn resolve(
            &self,
            _hints: &[&[u8]],
            _schemes: &[SignatureScheme],
        ) -> Option<Arc<rustls::sign::CertifiedKey>> {
            Some(self.0.clone())
        }

        fn has_certs(&self) -> bool {
            true
        }
    }
}
