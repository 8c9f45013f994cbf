//! Bearer tokens: signed claims of who somebody is, what he may do, for whom and until when.
//!
//! ```text
//!  header {alg, kid} . claims {sub, aud, exp, nbf, namespaces, actions} . signature
//! ```
//!
//! Invariants
//! - The key that a token names decides how it is checked. `alg` in the header has to be that of the key.
//! - A stranger cannot find out which keys there are: of a token that no key signed he is told that, and nothing else; and as much is
//!   done for it whether there is a key of that id or not.
//! - `exp`, `aud`, `sub` and `kid` are there, or the token is none.
//! - Time is handed in.
//!
//! Must not know: where tokens come from; what is done with them.

use jsonwebtoken::{Header, Validation, decode, decode_header, encode};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::keys::{Algorithm, Key, KeyError, Keys, Signer, Unsigned};
use super::{MAX_PRINCIPAL_BYTES, Principal, Rights, crypto};

/// Longest token, in bytes.
pub const MAX_TOKEN_BYTES: usize = 4096;
/// Most namespaces of a token.
const MAX_NAMESPACES: usize = 256;

/// What a token says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claims {
    /// Who.
    pub sub: String,
    /// For which server.
    pub aud: Audience,
    /// Until when, in seconds since 1970.
    pub exp: u64,
    /// From when.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nbf: Option<u64>,
    /// When it was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iat: Option<u64>,
    /// What he may do.
    #[serde(flatten)]
    pub rights: Rights,
}

/// One server, or several.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Audience {
    /// One.
    One(String),
    /// Several.
    Several(Vec<String>),
}

impl Audience {
    fn has(&self, audience: &str) -> bool {
        match self {
            Self::One(one) => one == audience,
            Self::Several(several) => several.iter().any(|one| one == audience),
        }
    }
}

/// Why a token is not believed. None of them repeats anything of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum TokenError {
    /// It is longer than any that is taken.
    #[error("the token is longer than {MAX_TOKEN_BYTES} bytes")]
    TooLong,
    /// It is no token, or lacks something.
    #[error("the token is malformed, or lacks one of kid, sub, aud, exp, namespaces and actions")]
    Malformed,
    /// Nobody here signed it, or somebody changed it.
    #[error("no key of this server signed the token")]
    Signature(Unsigned),
    /// It is over.
    #[error("the token has expired")]
    Expired,
    /// Its time has not come.
    #[error("the token is not valid yet")]
    TooEarly,
    /// It is for somebody else.
    #[error("the token is for another audience")]
    Audience,
}

impl TokenError {
    /// For programs of whoever sent it.
    pub fn reason(self) -> &'static str {
        match self {
            Self::TooLong | Self::Malformed => "TOKEN_MALFORMED",
            Self::Signature(_) => "TOKEN_SIGNATURE",
            Self::Expired => "TOKEN_EXPIRED",
            Self::TooEarly => "TOKEN_TOO_EARLY",
            Self::Audience => "TOKEN_AUDIENCE",
        }
    }

    /// For those who have the keys.
    pub(super) fn audited(self) -> &'static str {
        match self {
            Self::Signature(Unsigned::UnknownKey) => "TOKEN_KEY_UNKNOWN",
            Self::Signature(Unsigned::Algorithm) => "TOKEN_ALGORITHM",
            _ => self.reason(),
        }
    }

    /// For those who have the keys, as a sentence.
    pub fn in_full(self) -> String {
        match self {
            Self::Signature(unsigned) => format!("{self}: {unsigned}"),
            _ => self.to_string(),
        }
    }
}

/// For whom tokens have to be, and how far clocks may be apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expected {
    /// The name of this server in tokens.
    pub audience: String,
    /// In seconds.
    pub leeway: u64,
}

/// Checks a token: its claims, if it is one to be believed at `now`, in seconds since 1970.
///
/// # Errors
/// If it is not.
pub fn checked(token: &str, keys: &Keys, expected: &Expected, now: u64) -> Result<Claims, TokenError> {
    believed(token, keys, expected, now).map(|(claims, _)| claims)
}

/// The same, and whose key it is believed by.
pub(super) fn believed(
    token: &str,
    keys: &Keys,
    expected: &Expected,
    now: u64,
) -> Result<(Claims, Signer), TokenError> {
    crypto::install();
    if token.len() > MAX_TOKEN_BYTES {
        return Err(TokenError::TooLong);
    }
    let header = decode_header(token).map_err(|_| TokenError::Malformed)?;
    // Whoever signed it wants something understood that nobody here understands (RFC 7515, 4.1.11).
    if header.crit.is_some() {
        return Err(TokenError::Malformed);
    }
    let id = header.kid.ok_or(TokenError::Malformed)?;
    let algorithm = Algorithm::of(header.alg).ok_or(TokenError::Signature(Unsigned::Algorithm))?;
    let (key, is_known) = keys.key_or_decoy(&id, algorithm);
    let mut signature_only = Validation::new(algorithm.jwt());
    // Times are compared below, with a clock that is handed in; so is the audience, which has to be there.
    signature_only.validate_exp = false;
    signature_only.validate_aud = false;
    let decoded = decode::<Claims>(token, key, &signature_only);
    let why = is_known.err().unwrap_or(Unsigned::Signature);
    let claims = decoded.map_err(|error| match error.kind() {
        jsonwebtoken::errors::ErrorKind::InvalidSignature => TokenError::Signature(why),
        _ => TokenError::Malformed,
    })?;
    // What a decoy signed is not signed.
    is_known.map_err(TokenError::Signature)?;
    let signer = keys.signer(&id).ok_or(TokenError::Signature(Unsigned::UnknownKey))?;
    in_force(&claims.claims, expected, now)?;
    Ok((claims.claims, signer))
}

fn in_force(claims: &Claims, expected: &Expected, now: u64) -> Result<(), TokenError> {
    if claims.sub.is_empty()
        || claims.sub.len() > MAX_PRINCIPAL_BYTES
        || claims.sub.contains(char::is_control)
    {
        return Err(TokenError::Malformed);
    }
    if claims.rights.namespaces.len() > MAX_NAMESPACES {
        return Err(TokenError::Malformed);
    }
    if now >= claims.exp.saturating_add(expected.leeway) {
        return Err(TokenError::Expired);
    }
    if claims.nbf.is_some_and(|from| now.saturating_add(expected.leeway) < from) {
        return Err(TokenError::TooEarly);
    }
    if !claims.aud.has(&expected.audience) {
        return Err(TokenError::Audience);
    }
    Ok(())
}

impl From<Claims> for Principal {
    fn from(claims: Claims) -> Self {
        Self { name: claims.sub, rights: claims.rights }
    }
}

/// A token that says this, signed with this key.
///
/// # Errors
/// If the key cannot sign.
pub fn issued(claims: &Claims, key: &Key) -> Result<String, KeyError> {
    crypto::install();
    let mut header = Header::new(key.algorithm.jwt());
    header.kid = Some(key.id.clone());
    let signed = encode(&header, claims, &key.encoding()?);
    signed.map_err(|_| KeyError::Wrong { id: key.id.clone(), why: "nothing can be signed with it" })
}

/// What a token says, whoever signed it: for people who look at one.
///
/// # Errors
/// If it is none.
pub fn unchecked(token: &str) -> Result<(Option<String>, Claims), TokenError> {
    let read =
        jsonwebtoken::dangerous::insecure_decode::<Claims>(token).map_err(|_| TokenError::Malformed)?;
    Ok((read.header.kid, read.claims))
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;

    use super::*;
    use crate::access::keys::to_file;

    const NOW: u64 = 1_800_000_000;
    const UNKNOWN: TokenError = TokenError::Signature(Unsigned::UnknownKey);
    const ALGORITHM: TokenError = TokenError::Signature(Unsigned::Algorithm);
    const FORGED: TokenError = TokenError::Signature(Unsigned::Signature);

    fn claims() -> Claims {
        let text =
            r#"{"sub":"till","aud":"gapless","exp":1800000100,"namespaces":["shop*"],"actions":["read"]}"#;
        serde_json::from_str(text).unwrap()
    }

    fn expected() -> Expected {
        Expected { audience: "gapless".to_owned(), leeway: 30 }
    }

    fn keys(keys: &[&Key]) -> Keys {
        Keys::read(&to_file(&keys.iter().map(|key| key.to_check_with()).collect::<Vec<_>>())).unwrap()
    }

    fn part(json: &str) -> String {
        URL_SAFE_NO_PAD.encode(json)
    }

    #[test]
    fn a_token_of_a_known_key_is_believed_until_it_is_over() {
        for algorithm in [Algorithm::EdDSA, Algorithm::HS256] {
            let (one, other) =
                (Key::generate("one", algorithm).unwrap(), Key::generate("two", algorithm).unwrap());
            let token = issued(&claims(), &one).unwrap();
            let both = keys(&[&one, &other]);
            assert_eq!(checked(&token, &both, &expected(), NOW), Ok(claims()));
            assert_eq!(checked(&token, &both, &expected(), NOW + 129), Ok(claims()), "within the leeway");
            assert_eq!(checked(&token, &both, &expected(), NOW + 130), Err(TokenError::Expired));
            // Rotated away.
            assert_eq!(checked(&token, &keys(&[&other]), &expected(), NOW), Err(UNKNOWN));
            let impostor = Key::generate("one", algorithm).unwrap();
            assert_eq!(checked(&token, &keys(&[&impostor]), &expected(), NOW), Err(FORGED));
            let elsewhere = Expected { audience: "other".to_owned(), leeway: 30 };
            assert_eq!(checked(&token, &both, &elsewhere, NOW), Err(TokenError::Audience));
            let later = Claims { nbf: Some(NOW + 31), ..claims() };
            let early = checked(&issued(&later, &one).unwrap(), &both, &expected(), NOW);
            assert_eq!(early, Err(TokenError::TooEarly));
        }
    }

    #[test]
    fn what_a_token_says_of_its_algorithm_is_never_followed() {
        let key = Key::generate("one", Algorithm::EdDSA).unwrap();
        let known = keys(&[&key]);
        let token = issued(&claims(), &key).unwrap();
        let parts: Vec<&str> = token.split('.').collect();
        let none = format!("{}.{}.", part(r#"{"alg":"none","kid":"one"}"#), parts[1]);
        assert_eq!(checked(&none, &known, &expected(), NOW), Err(TokenError::Malformed));
        // The public key is known to everybody; as a secret it must not open anything.
        let public = serde_json::to_value(key.to_check_with()).unwrap()["x"].as_str().unwrap().to_owned();
        let secret = URL_SAFE_NO_PAD.decode(public).unwrap();
        let message = format!("{}.{}", part(r#"{"alg":"HS256","kid":"one"}"#), parts[1]);
        let tag =
            ring::hmac::sign(&ring::hmac::Key::new(ring::hmac::HMAC_SHA256, &secret), message.as_bytes());
        let confused = format!("{message}.{}", URL_SAFE_NO_PAD.encode(tag));
        assert_eq!(checked(&confused, &known, &expected(), NOW), Err(ALGORITHM));
        let without = format!("{}.{}.{}", part(r#"{"alg":"EdDSA"}"#), parts[1], parts[2]);
        assert_eq!(checked(&without, &known, &expected(), NOW), Err(TokenError::Malformed));
        // A key of its own, or one from elsewhere, is not even looked at.
        let jwk =
            serde_json::to_string(&Key::generate("one", Algorithm::EdDSA).unwrap().to_check_with()).unwrap();
        let brought =
            part(&format!(r#"{{"alg":"EdDSA","kid":"one","jwk":{jwk},"jku":"https://evil.example/keys"}}"#));
        let brought = format!("{brought}.{}.{}", parts[1], parts[2]);
        assert!(checked(&brought, &known, &expected(), NOW).is_err());
    }

    /// Tokens as strangers make them: every algorithm, a signature of any form, the id of a key that is there or is not.
    #[test]
    fn what_a_stranger_is_told_does_not_depend_on_which_keys_there_are() {
        let (one, two) = (
            Key::generate("one", Algorithm::EdDSA).unwrap(),
            Key::generate("two", Algorithm::HS256).unwrap(),
        );
        let known = keys(&[&one, &two]);
        let forger = |id: &str, algorithm| issued(&claims(), &Key::generate(id, algorithm).unwrap()).unwrap();
        let claims = part(&serde_json::to_string(&claims()).unwrap());
        for algorithm in ["EdDSA", "HS256", "HS384", "RS256", "PS512", "ES256"] {
            for (claims, signature) in [
                (claims.as_str(), part(&"s".repeat(64))),
                (&claims, part(&"s".repeat(32))),
                (&claims, String::new()),
                (&claims, "!".to_owned()),
                ("!", part("s")),
                ("", String::new()),
            ] {
                let told = ["one", "two", "three", "", &"long".repeat(100)].map(|id| {
                    let header = part(&format!(r#"{{"alg":"{algorithm}","kid":"{id}"}}"#));
                    let refused =
                        checked(&format!("{header}.{claims}.{signature}"), &known, &expected(), NOW);
                    let refused = refused.unwrap_err();
                    (refused.reason(), refused.to_string())
                });
                assert!(told.iter().all(|other| *other == told[0]), "{algorithm} {signature}: {told:?}");
            }
        }
        for algorithm in [Algorithm::EdDSA, Algorithm::HS256] {
            for (id, why) in [("one", Algorithm::EdDSA), ("two", Algorithm::HS256)] {
                let why = if why == algorithm { FORGED } else { ALGORITHM };
                assert_eq!(checked(&forger(id, algorithm), &known, &expected(), NOW), Err(why));
            }
            assert_eq!(checked(&forger("three", algorithm), &known, &expected(), NOW), Err(UNKNOWN));
        }
        for (error, audited) in
            [(UNKNOWN, "TOKEN_KEY_UNKNOWN"), (ALGORITHM, "TOKEN_ALGORITHM"), (FORGED, "TOKEN_SIGNATURE")]
        {
            assert_eq!((error.reason(), error.to_string()), (FORGED.reason(), FORGED.to_string()));
            assert_eq!(error.audited(), audited, "those who have the keys may know");
        }
    }

    #[test]
    fn as_many_signatures_are_checked_whether_there_is_a_key_or_not() {
        let [one, two] = [("one", Algorithm::EdDSA), ("two", Algorithm::HS256)]
            .map(|(id, algorithm)| Key::generate(id, algorithm).unwrap());
        let known = keys(&[&one, &two]);
        for algorithm in [Algorithm::EdDSA, Algorithm::HS256] {
            for id in ["one", "two", "three", ""] {
                let mut forger = Key::generate("forger", algorithm).unwrap();
                id.clone_into(&mut forger.id);
                let token = issued(&claims(), &forger).unwrap();
                let before = crypto::verifications();
                checked(&token, &known, &expected(), NOW).unwrap_err();
                assert_eq!(crypto::verifications() - before, 1, "{algorithm:?} `{id}`");
            }
        }
    }

    #[test]
    fn nobody_is_believed_by_a_decoy_even_if_it_signed() {
        for algorithm in [Algorithm::EdDSA, Algorithm::HS256] {
            let other = match algorithm {
                Algorithm::EdDSA => Algorithm::HS256,
                Algorithm::HS256 => Algorithm::EdDSA,
            };
            let decoy = Key::generate("decoy", algorithm).unwrap();
            let known = keys(&[&Key::generate("one", other).unwrap()]).with_decoy(&decoy);
            let named = |id: &str| {
                let mut key = decoy.clone();
                id.clone_into(&mut key.id);
                key
            };
            for claims in [
                claims(),
                Claims { exp: 1, ..claims() },
                Claims { nbf: Some(u64::MAX), ..claims() },
                Claims { sub: String::new(), ..claims() },
                Claims { aud: Audience::Several(Vec::new()), ..claims() },
            ] {
                // Its signature is right, where it is a key.
                let own = named("own");
                let signed = checked(&issued(&claims, &own).unwrap(), &keys(&[&own]), &expected(), NOW);
                assert!(!matches!(signed, Err(TokenError::Signature(_))), "{signed:?}");
                for (id, why) in [("decoy", UNKNOWN), ("", UNKNOWN), ("one", ALGORITHM)] {
                    let token = issued(&claims, &named(id)).unwrap();
                    assert_eq!(checked(&token, &known, &expected(), NOW), Err(why), "{algorithm:?} `{id}`");
                }
            }
        }
    }

    #[test]
    fn what_a_token_wants_understood_and_nobody_understands_is_refused() {
        crypto::install();
        let key = Key::generate("one", Algorithm::EdDSA).unwrap();
        let mut header = Header::new(key.algorithm.jwt());
        header.kid = Some("one".to_owned());
        let sign = |header: &Header| encode(header, &claims(), &key.encoding().unwrap()).unwrap();
        assert_eq!(checked(&sign(&header), &keys(&[&key]), &expected(), NOW), Ok(claims()));
        header.crit = Some(vec!["exp".to_owned()]);
        assert_eq!(checked(&sign(&header), &keys(&[&key]), &expected(), NOW), Err(TokenError::Malformed));
    }

    #[test]
    fn a_token_that_was_changed_or_lacks_something_is_none() {
        let key = Key::generate("one", Algorithm::HS256).unwrap();
        let known = keys(&[&key]);
        let token = issued(&claims(), &key).unwrap();
        for at in 0..token.len() {
            let mut changed = token.clone().into_bytes();
            changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
            let changed = String::from_utf8(changed).unwrap();
            assert!(checked(&changed, &known, &expected(), NOW).is_err(), "changed at {at}");
        }
        assert_eq!(checked(&"a".repeat(4097), &known, &expected(), NOW), Err(TokenError::TooLong));
        let whole = serde_json::to_value(claims()).unwrap();
        for lacking in ["sub", "aud", "exp", "namespaces", "actions"] {
            let mut some = whole.clone();
            some.as_object_mut().unwrap().remove(lacking);
            crypto::install();
            let mut header = Header::new(key.algorithm.jwt());
            header.kid = Some("one".to_owned());
            let token = encode(&header, &some, &key.encoding().unwrap()).unwrap();
            assert_eq!(checked(&token, &known, &expected(), NOW), Err(TokenError::Malformed), "{lacking}");
        }
        let empty = Claims { sub: String::new(), ..claims() };
        let token = issued(&empty, &key).unwrap();
        assert_eq!(checked(&token, &known, &expected(), NOW), Err(TokenError::Malformed));
    }
}
