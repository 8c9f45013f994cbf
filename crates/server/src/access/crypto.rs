//! Signatures of tokens, by the same library that TLS uses: HMAC with SHA-256, and Ed25519. No other algorithm exists here.
//!
//! Must not know: what is signed.

use jsonwebtoken::crypto::{CryptoProvider, JwtSigner, JwtVerifier, KeyUtils};
use jsonwebtoken::errors::{Error, ErrorKind, Result};
use jsonwebtoken::{Algorithm, AlgorithmFamily, DecodingKey, EncodingKey};
use ring::{hmac, signature as ed};
use signature::{Signer, Verifier};

static PROVIDER: CryptoProvider = CryptoProvider {
    signer_factory: signer,
    verifier_factory: verifier,
    key_utils: KeyUtils::new_unimplemented(),
};

/// Makes these the signatures of tokens. Whoever verifies or signs calls it first; all but the first call change nothing.
pub(super) fn install() {
    let _ = PROVIDER.install_default();
}

#[cfg(test)]
thread_local! {
    static VERIFICATIONS: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// How many signatures this thread has checked: what a stranger could measure is counted.
#[cfg(test)]
pub(super) fn verifications() -> u64 {
    VERIFICATIONS.get()
}

/// A signature is checked.
fn count() {
    #[cfg(test)]
    VERIFICATIONS.set(VERIFICATIONS.get() + 1);
}

struct Hmac(hmac::Key);

impl Signer<Vec<u8>> for Hmac {
    fn try_sign(&self, message: &[u8]) -> std::result::Result<Vec<u8>, signature::Error> {
        Ok(hmac::sign(&self.0, message).as_ref().to_vec())
    }
}

impl Verifier<Vec<u8>> for Hmac {
    fn verify(&self, message: &[u8], signature: &Vec<u8>) -> std::result::Result<(), signature::Error> {
        count();
        hmac::verify(&self.0, message, signature).map_err(|_| signature::Error::new())
    }
}

impl JwtSigner for Hmac {
    fn algorithm(&self) -> Algorithm {
        Algorithm::HS256
    }
}

impl JwtVerifier for Hmac {
    fn algorithm(&self) -> Algorithm {
        Algorithm::HS256
    }
}

struct EdSigner(ed::Ed25519KeyPair);

impl Signer<Vec<u8>> for EdSigner {
    fn try_sign(&self, message: &[u8]) -> std::result::Result<Vec<u8>, signature::Error> {
        Ok(self.0.sign(message).as_ref().to_vec())
    }
}

impl JwtSigner for EdSigner {
    fn algorithm(&self) -> Algorithm {
        Algorithm::EdDSA
    }
}

struct EdVerifier(ed::UnparsedPublicKey<Vec<u8>>);

impl Verifier<Vec<u8>> for EdVerifier {
    fn verify(&self, message: &[u8], signature: &Vec<u8>) -> std::result::Result<(), signature::Error> {
        count();
        self.0.verify(message, signature).map_err(|_| signature::Error::new())
    }
}

impl JwtVerifier for EdVerifier {
    fn algorithm(&self) -> Algorithm {
        Algorithm::EdDSA
    }
}

/// A key signs with the algorithm of its family and with no other, whatever a header says.
fn signer(algorithm: &Algorithm, key: &EncodingKey) -> Result<Box<dyn JwtSigner>> {
    match (algorithm, key.family()) {
        (Algorithm::HS256, AlgorithmFamily::Hmac) => {
            Ok(Box::new(Hmac(hmac::Key::new(hmac::HMAC_SHA256, key.as_bytes()))))
        }
        (Algorithm::EdDSA, AlgorithmFamily::Ed) => {
            let pair = ed::Ed25519KeyPair::from_seed_unchecked(key.as_bytes());
            Ok(Box::new(EdSigner(pair.map_err(|_| Error::from(ErrorKind::InvalidEddsaKey))?)))
        }
        _ => Err(ErrorKind::InvalidAlgorithm.into()),
    }
}

fn verifier(algorithm: &Algorithm, key: &DecodingKey) -> Result<Box<dyn JwtVerifier>> {
    let bytes = key.try_get_as_bytes()?;
    match (algorithm, key.family()) {
        (Algorithm::HS256, AlgorithmFamily::Hmac) => {
            Ok(Box::new(Hmac(hmac::Key::new(hmac::HMAC_SHA256, bytes))))
        }
        (Algorithm::EdDSA, AlgorithmFamily::Ed) => {
            Ok(Box::new(EdVerifier(ed::UnparsedPublicKey::new(&ed::ED25519, bytes.to_vec()))))
        }
        _ => Err(ErrorKind::InvalidAlgorithm.into()),
    }
}
