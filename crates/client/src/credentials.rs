//! How a client and its servers prove themselves to each other.
//!
//! Must not know: what is asked.

use std::fmt;

use thiserror::Error;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::{Certificate, ClientTlsConfig, Identity};

/// Why something cannot be a credential. It repeats nothing of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum CredentialsError {
    /// It has characters that no token has.
    #[error("the token has characters that no token has")]
    Token,
}

/// A bearer token, an authority for servers, a client certificate; any of them, or none.
#[derive(Clone, Default)]
pub struct Credentials {
    token: Option<MetadataValue<Ascii>>,
    ca: Option<Vec<u8>>,
    certificate: Option<(Vec<u8>, Vec<u8>)>,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials")
            .field("token", &self.token.is_some())
            .field("ca", &self.ca.is_some())
            .field("certificate", &self.certificate.is_some())
            .finish()
    }
}

impl Credentials {
    /// The same with a bearer token, which goes along with every call.
    ///
    /// # Errors
    /// If it cannot be one.
    pub fn with_token(mut self, token: &str) -> Result<Self, CredentialsError> {
        let mut value: MetadataValue<Ascii> =
            format!("Bearer {token}").parse().map_err(|_| CredentialsError::Token)?;
        value.set_sensitive(true);
        self.token = Some(value);
        Ok(self)
    }

    /// The same with authorities, as PEM: servers have to have a certificate of one of them, and connections are encrypted.
    #[must_use]
    pub fn with_ca(mut self, pem: Vec<u8>) -> Self {
        self.ca = Some(pem);
        self
    }

    /// The same with a certificate and its private key, as PEM.
    #[must_use]
    pub fn with_certificate(mut self, certificate: Vec<u8>, key: Vec<u8>) -> Self {
        self.certificate = Some((certificate, key));
        self
    }

    pub(crate) fn token(&self) -> Option<MetadataValue<Ascii>> {
        self.token.clone()
    }

    /// Whether connections are encrypted if an address does not say.
    pub(crate) fn has_tls(&self) -> bool {
        self.ca.is_some()
    }

    /// The set-up of TLS, if there is an authority to believe.
    pub(crate) fn tls(&self) -> Option<ClientTlsConfig> {
        let mut config = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(self.ca.as_ref()?));
        if let Some((certificate, key)) = &self.certificate {
            config = config.identity(Identity::from_pem(certificate, key));
        }
        Some(config)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_of_a_credential_is_shown() {
        let credentials = Credentials::default()
            .with_token("planted-token")
            .unwrap()
            .with_certificate(b"planted".to_vec(), b"planted-key".to_vec());
        let shown = format!("{credentials:?} {:?}", credentials.token());
        assert!(!shown.contains("planted"), "{shown}");
        assert_eq!(Credentials::default().with_token("a\nb").unwrap_err(), CredentialsError::Token);
    }
}
