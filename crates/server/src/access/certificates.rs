//! Whom a client certificate stands for: names in certificates, each with what its owner may do, from a file.
//!
//! ```toml
//! [[client]]
//! name = "till-1.shop.example"      # a DNS name or a URI among the subject's alternative names
//! namespaces = ["shop*"]
//! actions = ["read", "write"]
//! ```
//!
//! Must not know: whether a certificate is genuine. Whoever made the connection has checked that.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::{CertificateError, OtherError};
use serde::Deserialize;
use webpki::{EndEntityCert, KeyUsage};

use super::{MAX_PRINCIPAL_BYTES, Principal, Rights};
use crate::tls::verifier::NotTaken;

/// Most names that are looked at in one certificate.
const MAX_NAMES: usize = 16;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    client: Vec<Client>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Client {
    name: String,
    namespaces: Vec<super::NamespacePattern>,
    actions: Vec<super::Action>,
}

/// Names, and whom they stand for.
#[derive(Debug, Default)]
pub struct Certificates(BTreeMap<String, Arc<Principal>>);

impl Certificates {
    /// The names in a file.
    ///
    /// # Errors
    /// With what is wrong with it.
    pub fn read(text: &str) -> Result<Self, String> {
        let file: File = toml::from_str(text).map_err(|error| error.to_string())?;
        let mut clients = BTreeMap::new();
        for Client { name, namespaces, actions } in file.client {
            if name.is_empty() || name.len() > MAX_PRINCIPAL_BYTES || name.contains(char::is_control) {
                return Err(format!("a name has 1 to {MAX_PRINCIPAL_BYTES} bytes, and `{name:.40}` has not"));
            }
            let rights = Rights { namespaces, actions };
            let principal = Arc::new(Principal { name: name.clone(), rights });
            if clients.insert(name.clone(), principal).is_some() {
                return Err(format!("`{name}` is there twice"));
            }
        }
        Ok(Self(clients))
    }

    /// Every name with what its owner may do.
    pub fn rights(&self) -> impl Iterator<Item = (&str, &Rights)> {
        self.0.iter().map(|(name, principal)| (name.as_str(), &principal.rights))
    }

    /// Whom a certificate stands for: the first of its names that is known.
    pub(crate) fn principal(&self, names: &[String]) -> Option<Arc<Principal>> {
        names.iter().find_map(|name| self.0.get(name)).cloned()
    }
}

/// The names in a certificate. One that cannot be read has none.
pub(crate) fn names(certificate: &CertificateDer<'_>) -> Vec<String> {
    let Ok(certificate) = EndEntityCert::try_from(certificate) else { return Vec::new() };
    let names = certificate.valid_dns_names().chain(certificate.valid_uri_names());
    names.take(MAX_NAMES).map(str::to_owned).collect()
}

/// The first second since 1970 at which a certificate is over. One that cannot be read is over.
pub(crate) fn ends(certificate: &CertificateDer<'_>) -> u64 {
    let Ok(certificate) = EndEntityCert::try_from(certificate) else { return 0 };
    // Whoever looks at the end of all times is told when it ended, before anything else is looked at.
    let last = UnixTime::since_unix_epoch(Duration::from_secs(u64::MAX));
    match certificate.verify_for_usage(&[], &[], &[], last, KeyUsage::client_auth(), None, None) {
        Err(webpki::Error::CertExpired { not_after, .. }) => not_after.as_secs().saturating_add(1),
        _ => 0,
    }
}

/// Why a handshake failed, if it is that somebody did not prove who he is, for programs. Whatever else can go wrong says nothing
/// about whoever is at the other end.
pub(crate) fn refused(error: &io::Error) -> Option<&'static str> {
    match error.get_ref()?.downcast_ref()? {
        rustls::Error::InvalidCertificate(CertificateError::Other(OtherError(cause))) => {
            cause.downcast_ref().map(NotTaken::audited).or(Some("CERTIFICATE_REFUSED"))
        }
        rustls::Error::InvalidCertificate(_) => Some("CERTIFICATE_REFUSED"),
        rustls::Error::NoCertificatesPresented => Some("NO_CERTIFICATE"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::Action;

    /// From one seed: files and certificates of any bytes.
    #[test]
    fn any_file_and_any_certificate_is_taken_or_refused() {
        let good = b"[[client]]\nname = 'till'\nnamespaces = ['shop*']\nactions = ['read']\n";
        let certificate = rcgen::generate_simple_self_signed(["till".to_owned()]).unwrap().cert;
        assert_eq!(names(certificate.der()), ["till"]);
        let mut chance = fastrand::Rng::with_seed(7);
        let mut change = |bytes: &[u8]| {
            let mut bytes = bytes.to_vec();
            for _ in 0..chance.usize(1..4) {
                let at = chance.usize(..bytes.len());
                bytes[at] = chance.u8(..);
            }
            bytes.truncate(chance.usize(1..=bytes.len() * 4));
            bytes
        };
        for _ in 0..5_000 {
            let _ = Certificates::read(&String::from_utf8_lossy(&change(good)));
            for name in names(&CertificateDer::from(change(certificate.der()))) {
                assert!(!name.is_empty() && name.is_ascii(), "{name:?}");
            }
        }
    }

    #[test]
    fn names_stand_for_what_the_file_says() {
        let file = "[[client]]\nname = 'till'\nnamespaces = ['shop*']\nactions = ['read']\n";
        let certificates = Certificates::read(file).unwrap();
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let till = certificates.principal(&names(&["unknown", "till"])).unwrap();
        assert!(till.may(Action::Read, "shop2") && !till.may(Action::Write, "shop2"));
        assert_eq!(certificates.principal(&names(&["Till", "till.example"])), None);
        for wrong in [
            "[[client]]\nname = ''\nnamespaces = []\nactions = []",
            "[[client]]\nname = 'a'\nnamespaces = ['A']\nactions = []",
            "[[client]]\nname = 'a'\nnamespaces = []\nactions = ['all']",
            "[[client]]\nname = 'a'\nactions = ['read']",
            "[[clients]]\nname = 'a'\nnamespaces = []\nactions = []",
            &format!("{file}{file}"),
        ] {
            assert!(Certificates::read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_certificate_ends_when_it_says() {
        let mut params = rcgen::CertificateParams::new(vec!["till".to_owned()]).unwrap();
        for (year, ends_at) in [(2021, 1_609_459_201), (2096, 3_976_214_401)] {
            params.not_before = rcgen::date_time_ymd(2020, 1, 1);
            params.not_after = rcgen::date_time_ymd(year, 1, 1);
            let certificate = params.self_signed(&rcgen::KeyPair::generate().unwrap()).unwrap();
            assert_eq!(ends(certificate.der()), ends_at);
        }
        assert_eq!(ends(&CertificateDer::from(vec![0x30, 0x03, 1, 2, 3])), 0, "what is none is over");
    }

    #[test]
    fn what_is_no_certificate_has_no_names() {
        assert_eq!(names(&CertificateDer::from(vec![0x30, 0x03, 1, 2, 3])), Vec::<String>::new());
        let made = rcgen::generate_simple_self_signed(["till.example".to_owned()]).unwrap();
        assert_eq!(names(made.cert.der()), ["till.example"]);
    }
}
