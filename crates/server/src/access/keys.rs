//! Keys that tokens are signed with and checked with, as a set of JSON Web Keys (RFC 7517): each with an id and one algorithm.
//!
//! Invariants
//! - A key has one algorithm, fixed in the file. What a token says of itself never chooses another.
//! - Nothing here shows a secret: not in an error, not in `Debug`.
//!
//! Must not know: what tokens say.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::{Algorithm as JwtAlgorithm, DecodingKey, EncodingKey};
use ring::rand::{SecureRandom, SystemRandom};
use ring::signature::{Ed25519KeyPair, KeyPair};
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Most keys of a file.
const MAX_KEYS: usize = 64;
/// Longest id of a key, in bytes.
const MAX_ID_BYTES: usize = 128;
/// Least bytes of a shared secret: as many as the hash has.
const LEAST_SECRET_BYTES: usize = 32;
/// Bytes of an Ed25519 key, either half.
const ED25519_BYTES: usize = 32;

/// How tokens are signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Algorithm {
    /// Ed25519: whoever checks tokens cannot make any.
    EdDSA,
    /// HMAC with SHA-256: one secret for both.
    HS256,
}

impl Algorithm {
    /// The one that a header names, if keys can have it.
    pub(super) fn of(jwt: JwtAlgorithm) -> Option<Self> {
        [Self::EdDSA, Self::HS256].into_iter().find(|algorithm| algorithm.jwt() == jwt)
    }

    pub(super) fn jwt(self) -> JwtAlgorithm {
        match self {
            Self::EdDSA => JwtAlgorithm::EdDSA,
            Self::HS256 => JwtAlgorithm::HS256,
        }
    }
}

/// What is wrong with a file of keys.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum KeyError {
    /// It is not the JSON that it should be. Where is told; what stands there is not.
    #[error("no set of JSON Web Keys: unexpected content at line {line}, column {column}")]
    Malformed {
        /// From 1.
        line: usize,
        /// From 1.
        column: usize,
    },
    /// It has no key.
    #[error("there is no key in it")]
    Empty,
    /// It has too many.
    #[error("there are more than {MAX_KEYS} keys in it")]
    TooMany,
    /// Two keys have one id.
    #[error("two keys have the id `{0}`")]
    Twice(String),
    /// A key is none.
    #[error("key `{id}`: {why}")]
    Wrong {
        /// Its id.
        id: String,
        /// What is wrong.
        why: &'static str,
    },
    /// The key cannot sign.
    #[error("key `{0}` can check tokens but not sign them")]
    Public(String),
    /// The system has no randomness.
    #[error("the system gives no random numbers")]
    Random,
}

/// A key as it stands in a file.
#[derive(Clone, Serialize, Deserialize)]
pub struct Key {
    kty: String,
    /// Which key it is.
    #[serde(rename = "kid")]
    pub id: String,
    /// What it signs with.
    #[serde(rename = "alg")]
    pub algorithm: Algorithm,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    crv: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    x: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    d: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    k: Option<String>,
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Key")
            .field("id", &self.id)
            .field("algorithm", &self.algorithm)
            .finish_non_exhaustive()
    }
}

#[derive(Serialize, Deserialize)]
struct KeySet {
    keys: Vec<Key>,
}

impl Key {
    /// A new key that can sign.
    ///
    /// # Errors
    /// If the system has no randomness.
    pub fn generate(id: &str, algorithm: Algorithm) -> Result<Self, KeyError> {
        let mut seed = [0; ED25519_BYTES];
        SystemRandom::new().fill(&mut seed).map_err(|_| KeyError::Random)?;
        let secret = Some(URL_SAFE_NO_PAD.encode(seed));
        let id = id.to_owned();
        Ok(match algorithm {
            Algorithm::HS256 => {
                Self { kty: "oct".to_owned(), id, algorithm, crv: None, x: None, d: None, k: secret }
            }
            Algorithm::EdDSA => {
                let pair = Ed25519KeyPair::from_seed_unchecked(&seed).map_err(|_| KeyError::Random)?;
                let x = Some(URL_SAFE_NO_PAD.encode(pair.public_key().as_ref()));
                Self {
                    kty: "OKP".to_owned(),
                    id,
                    algorithm,
                    crv: Some("Ed25519".to_owned()),
                    x,
                    d: secret,
                    k: None,
                }
            }
        })
    }

    /// What whoever checks tokens needs of it. Of a shared secret that is all of it.
    #[must_use]
    pub fn to_check_with(&self) -> Self {
        Self { d: None, ..self.clone() }
    }

    /// For signing.
    ///
    /// # Errors
    /// If it cannot.
    pub(super) fn encoding(&self) -> Result<EncodingKey, KeyError> {
        let public = || KeyError::Public(self.id.clone());
        match self.algorithm {
            Algorithm::HS256 => Ok(EncodingKey::from_secret(&self.secret()?)),
            Algorithm::EdDSA => {
                let seed = self.bytes(self.d.as_ref().ok_or_else(public)?)?;
                if seed.len() != ED25519_BYTES {
                    return Err(self.wrong("`d` of an Ed25519 key has 32 bytes"));
                }
                Ok(EncodingKey::from_ed_der(&seed))
            }
        }
    }

    fn decoding(&self) -> Result<DecodingKey, KeyError> {
        if self.id.is_empty() || self.id.len() > MAX_ID_BYTES {
            return Err(self.wrong("an id has 1 to 128 bytes"));
        }
        match (self.algorithm, self.kty.as_str()) {
            (Algorithm::HS256, "oct") => Ok(DecodingKey::from_secret(&self.secret()?)),
            (Algorithm::EdDSA, "OKP") if self.crv.as_deref() == Some("Ed25519") => {
                let public = self.bytes(self.x.as_deref().unwrap_or_default())?;
                if public.len() != ED25519_BYTES {
                    return Err(self.wrong("`x` of an Ed25519 key has 32 bytes"));
                }
                Ok(DecodingKey::from_ed_der(&public))
            }
            _ => Err(self.wrong(
                "`kty`, `crv` and `alg` do not belong together: oct and HS256, or OKP, Ed25519 and EdDSA",
            )),
        }
    }

    fn secret(&self) -> Result<Vec<u8>, KeyError> {
        let secret = self.bytes(self.k.as_deref().unwrap_or_default())?;
        if secret.len() < LEAST_SECRET_BYTES {
            return Err(self.wrong("`k` of a shared secret has at least 32 bytes"));
        }
        Ok(secret)
    }

    fn bytes(&self, text: &str) -> Result<Vec<u8>, KeyError> {
        URL_SAFE_NO_PAD.decode(text).map_err(|_| self.wrong("its bytes are not base64url"))
    }

    fn wrong(&self, why: &'static str) -> KeyError {
        KeyError::Wrong { id: self.id.clone(), why }
    }
}

/// Why no key signed a token. It is for those who have the keys: whoever sent the token is not told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Unsigned {
    /// Nobody knows its key.
    #[error("there is no key of its id")]
    UnknownKey,
    /// It says another algorithm than its key has, or one that no key has.
    #[error("it says another algorithm than its key has")]
    Algorithm,
    /// Somebody else signed it, or changed it.
    #[error("its signature is not right")]
    Signature,
}

/// A key that can check.
#[derive(Debug)]
struct Checking {
    algorithm: Algorithm,
    key: DecodingKey,
}

impl Checking {
    /// Whether both check the same signatures.
    fn is(&self, other: &Self) -> bool {
        match (self.key.try_get_as_bytes(), other.key.try_get_as_bytes()) {
            (Ok(own), Ok(others)) => self.algorithm == other.algorithm && own == others,
            _ => false,
        }
    }
}

/// A key that a token was believed by.
#[derive(Clone, Debug)]
pub(super) struct Signer {
    id: String,
    key: Arc<Checking>,
}

/// Keys that nobody has, one of each algorithm: made with the file, and forgotten but for the half that checks.
#[derive(Debug)]
struct Decoys {
    ed_dsa: DecodingKey,
    hs_256: DecodingKey,
}

impl Decoys {
    fn generate() -> Result<Self, KeyError> {
        let decoy = |algorithm| Key::generate("decoy", algorithm)?.decoding();
        Ok(Self { ed_dsa: decoy(Algorithm::EdDSA)?, hs_256: decoy(Algorithm::HS256)? })
    }

    fn get(&self, algorithm: Algorithm) -> &DecodingKey {
        match algorithm {
            Algorithm::EdDSA => &self.ed_dsa,
            Algorithm::HS256 => &self.hs_256,
        }
    }
}

/// All keys that tokens are checked with, by id.
#[derive(Debug)]
pub struct Keys {
    known: BTreeMap<String, Arc<Checking>>,
    decoys: Decoys,
}

impl Keys {
    /// The keys of a file.
    ///
    /// # Errors
    /// If one of them is none.
    pub fn read(text: &str) -> Result<Self, KeyError> {
        let mut keys = BTreeMap::new();
        let all = key_set(text)?;
        if all.is_empty() {
            return Err(KeyError::Empty);
        }
        for key in all {
            let checking = Checking { algorithm: key.algorithm, key: key.decoding()? };
            if keys.insert(key.id.clone(), Arc::new(checking)).is_some() {
                return Err(KeyError::Twice(key.id));
            }
        }
        Ok(Self { known: keys, decoys: Decoys::generate()? })
    }

    /// How many.
    pub(crate) fn len(&self) -> usize {
        self.known.len()
    }

    /// Whoever signs with the key of this id.
    pub(super) fn signer(&self, id: &str) -> Option<Signer> {
        self.known.get(id).map(|key| Signer { id: id.to_owned(), key: key.clone() })
    }

    /// Whether he still signs with that key.
    pub(super) fn has(&self, signer: &Signer) -> bool {
        self.known.get(&signer.id).is_some_and(|key| key.is(&signer.key))
    }

    /// The key of this id and algorithm. If there is none, another one of that algorithm to check with nevertheless, so that it
    /// takes as long to find out, and why it is none: nothing is to be believed by it.
    pub(super) fn key_or_decoy(
        &self,
        id: &str,
        algorithm: Algorithm,
    ) -> (&DecodingKey, Result<(), Unsigned>) {
        match self.known.get(id) {
            Some(known) if known.algorithm == algorithm => (&known.key, Ok(())),
            Some(_) => (self.decoys.get(algorithm), Err(Unsigned::Algorithm)),
            None => (self.decoys.get(algorithm), Err(Unsigned::UnknownKey)),
        }
    }

    /// The same keys with this one as a decoy, which nobody has otherwise.
    #[cfg(test)]
    pub(super) fn with_decoy(mut self, decoy: &Key) -> Self {
        let key = decoy.decoding().expect("it is a key");
        match decoy.algorithm {
            Algorithm::EdDSA => self.decoys.ed_dsa = key,
            Algorithm::HS256 => self.decoys.hs_256 = key,
        }
        self
    }
}

/// The keys in a file, as they stand there.
///
/// # Errors
/// If it is no such file.
pub fn key_set(text: &str) -> Result<Vec<Key>, KeyError> {
    let malformed =
        |error: &serde_json::Error| KeyError::Malformed { line: error.line(), column: error.column() };
    let set: KeySet = serde_json::from_str(text).map_err(|error| malformed(&error))?;
    if set.keys.len() > MAX_KEYS {
        return Err(KeyError::TooMany);
    }
    Ok(set.keys)
}

/// A file with these keys.
pub fn to_file(keys: &[Key]) -> String {
    let set = KeySet { keys: keys.to_vec() };
    format!("{}\n", serde_json::to_string_pretty(&set).expect("keys are texts"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_says_what_it_said() {
        for algorithm in [Algorithm::EdDSA, Algorithm::HS256] {
            let key = Key::generate("one", algorithm).unwrap();
            let file = to_file(&[key.to_check_with()]);
            assert_eq!(Keys::read(&file).unwrap().len(), 1);
            assert!(!file.contains("\"d\""), "what signs stays with whoever signs");
            assert!(key.encoding().is_ok());
            assert_eq!(key.to_check_with().encoding().is_ok(), algorithm == Algorithm::HS256);
        }
    }

    #[test]
    fn a_key_is_the_same_in_another_file_and_another_one_of_its_id_is_not() {
        for algorithm in [Algorithm::EdDSA, Algorithm::HS256] {
            let [one, two, impostor] =
                ["one", "two", "one"].map(|id| Key::generate(id, algorithm).unwrap().to_check_with());
            let read = |keys: &[&Key]| {
                let keys: Vec<Key> = keys.iter().map(|key| (*key).clone()).collect();
                Keys::read(&to_file(&keys)).unwrap()
            };
            let signer = read(&[&one]).signer("one").unwrap();
            assert!(read(&[&two, &one]).has(&signer));
            assert!(!read(&[&two]).has(&signer));
            assert!(!read(&[&impostor]).has(&signer));
            assert!(read(&[&two]).signer("one").is_none());
        }
    }

    #[test]
    fn what_is_no_key_is_refused_and_its_bytes_are_not_repeated() {
        let short = URL_SAFE_NO_PAD.encode(b"planted-secret");
        for file in [
            "planted-secret".to_owned(),
            "{\"keys\":[]}".to_owned(),
            format!("{{\"keys\":[{{\"kty\":\"oct\",\"kid\":\"a\",\"alg\":\"HS256\",\"k\":\"{short}\"}}]}}"),
            format!("{{\"keys\":[{{\"kty\":\"oct\",\"kid\":\"a\",\"alg\":\"EdDSA\",\"k\":\"{short}\"}}]}}"),
            format!(
                "{{\"keys\":[{{\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"kid\":\"a\",\"alg\":\"EdDSA\",\"x\":\"{short}\"}}]}}"
            ),
            format!("{{\"keys\":[{{\"kty\":\"oct\",\"kid\":\"a\",\"alg\":\"none\",\"k\":\"{short}\"}}]}}"),
            format!("{{\"keys\":[{{\"kty\":\"oct\",\"kid\":\"a\",\"alg\":\"HS256\",\"k\":\"{short}"),
        ] {
            let error = Keys::read(&file).unwrap_err();
            let told = format!("{error} {error:?}");
            assert!(!told.contains("planted") && !told.contains(&short), "{told}");
        }
        let one = Key::generate("one", Algorithm::EdDSA).unwrap();
        assert_eq!(Keys::read(&to_file(&[one.clone(), one])).unwrap_err(), KeyError::Twice("one".to_owned()));
    }
}
