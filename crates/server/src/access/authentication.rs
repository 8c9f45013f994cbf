//! Finding out who asks: a bearer token, or the certificate of the connection. Whoever says nothing credible is nobody.
//!
//! ```text
//!  authorization: Bearer ... ──▶ known? (by its hash, until it expires) ──▶ checked ──▶ principal
//!  certificate of the connection ──▶ its names ──▶ principal
//! ```
//!
//! A token counts before a certificate, and a token that is not right is not made up for by one.
//!
//! Must not know: what anybody may do.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use axum::http::{HeaderMap, header};
use gapless_api::{Problem, ProblemKind};
use ring::digest;

use super::certificates::Certificates;
use super::clock::{Clock, Expiry};
use super::keys::Keys;
use super::reload::Current;
use super::tokens::{Expected, TokenError, checked};
use super::{Caller, Principal};

/// Tokens that are remembered as checked.
const MAX_KNOWN: usize = 4096;
/// Bytes of a hash.
const HASH_BYTES: usize = 32;

/// A connection, as far as whoever is at its other end is known by it.
#[derive(Clone, Debug)]
pub(crate) struct Connection {
    pub(crate) peer: SocketAddr,
    /// Names in the certificate that the other side proved to own.
    pub(crate) names: Arc<[String]>,
}

/// Why somebody is not believed. What he is told is a [`Problem`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// His token is not.
    Token(TokenError),
    /// He has something else than a token.
    Scheme,
    /// He has nothing, or a certificate of somebody unknown.
    Nobody,
}

impl Refused {
    /// What the audit is told: it may be more exact than what he is.
    pub(crate) fn audited(self) -> &'static str {
        match self {
            Self::Token(error) => error.audited(),
            Self::Scheme => "SCHEME_UNKNOWN",
            Self::Nobody => "NO_CREDENTIALS",
        }
    }
}

impl From<TokenError> for Refused {
    fn from(error: TokenError) -> Self {
        Self::Token(error)
    }
}

impl From<Refused> for Problem {
    fn from(refused: Refused) -> Self {
        let (reason, message) = match refused {
            Refused::Token(error) => (error.reason(), error.to_string()),
            Refused::Scheme => (
                refused.audited(),
                "this server takes bearer tokens: `authorization: Bearer TOKEN`".to_owned(),
            ),
            Refused::Nobody => (
                refused.audited(),
                "this server wants to know who asks: send a bearer token, or connect with a client certificate that it knows".to_owned(),
            ),
        };
        Self::new(ProblemKind::Unauthenticated, reason, message)
    }
}

/// A token that was checked.
#[derive(Debug)]
struct Known {
    principal: Arc<Principal>,
    expires: u64,
    /// Void as soon as keys are exchanged.
    keys: Arc<Keys>,
}

/// How one says who one is.
#[derive(Debug)]
pub(crate) struct Authentication {
    tokens: Option<(Arc<Current<Keys>>, Expected)>,
    certificates: Option<Arc<Current<Certificates>>>,
    known: Mutex<HashMap<[u8; HASH_BYTES], Known>>,
    anybody: Arc<Principal>,
    clock: Clock,
}

impl Authentication {
    pub(crate) fn new(
        tokens: Option<(Arc<Current<Keys>>, Expected)>,
        certificates: Option<Arc<Current<Certificates>>>,
        clock: Clock,
    ) -> Self {
        let anybody = Arc::new(Principal::anybody());
        Self { tokens, certificates, known: Mutex::default(), anybody, clock }
    }

    /// Whether anybody is asked who he is.
    pub(crate) fn is_on(&self) -> bool {
        self.tokens.is_some() || self.certificates.is_some()
    }

    /// Who asks.
    ///
    /// # Errors
    /// If that is not known.
    pub(crate) fn caller(&self, headers: &HeaderMap, connection: &Connection) -> Result<Caller, Refused> {
        let peer = connection.peer;
        if !self.is_on() {
            return Ok(Caller { principal: self.anybody.clone(), peer, expires: None });
        }
        if let (Some((keys, expected)), Some(token)) = (&self.tokens, bearer(headers)?) {
            let now = self.clock.now();
            let (principal, expires) = self.of_token(token, &keys.get(), expected, now)?;
            return Ok(Caller { principal, peer, expires: Some(Expiry::new(expires, &self.clock)) });
        }
        let certificates = self.certificates.as_ref();
        match certificates.and_then(|certificates| certificates.get().principal(&connection.names)) {
            Some(principal) => Ok(Caller { principal, peer, expires: None }),
            None => Err(Refused::Nobody),
        }
    }

    /// Whom a token stands for, and until when.
    fn of_token(
        &self,
        token: &str,
        keys: &Arc<Keys>,
        expected: &Expected,
        now: u64,
    ) -> Result<(Arc<Principal>, u64), TokenError> {
        let hash = hash(token);
        if let Some(known) = self.known().get(&hash)
            && now < known.expires
            && Arc::ptr_eq(&known.keys, keys)
        {
            return Ok((known.principal.clone(), known.expires));
        }
        // Nobody waits while a signature is checked.
        let claims = checked(token, keys, expected, now)?;
        let expires = claims.exp.saturating_add(expected.leeway);
        let principal = Arc::new(Principal::from(claims));
        let mut known = self.known();
        if known.len() >= MAX_KNOWN {
            known.retain(|_, known| now < known.expires && Arc::ptr_eq(&known.keys, keys));
            if known.len() >= MAX_KNOWN {
                known.clear();
            }
        }
        known.insert(hash, Known { principal: principal.clone(), expires, keys: keys.clone() });
        Ok((principal, expires))
    }

    fn known(&self) -> std::sync::MutexGuard<'_, HashMap<[u8; HASH_BYTES], Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn hash(token: &str) -> [u8; HASH_BYTES] {
    let digest = digest::digest(&digest::SHA256, token.as_bytes());
    digest.as_ref().try_into().expect("SHA-256 has 32 bytes")
}

/// The token of a request, if it has one.
fn bearer(headers: &HeaderMap) -> Result<Option<&str>, Refused> {
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(TokenError::Malformed.into());
    }
    let text = value.to_str().map_err(|_| TokenError::Malformed)?;
    match text.split_once(' ').or(Some((text, ""))) {
        Some((scheme, token)) if scheme.eq_ignore_ascii_case("bearer") => Ok(Some(token.trim())),
        _ => Err(Refused::Scheme),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::keys::{Algorithm, Key, Unsigned, to_file};
    use crate::access::tokens::{Claims, issued};

    #[test]
    fn what_was_checked_is_remembered_until_it_expires_or_its_key_is_gone() {
        let key = Key::generate("one", Algorithm::EdDSA).unwrap();
        let text = r#"{"sub":"till","aud":"gapless","exp":1000,"namespaces":["*"],"actions":["read"]}"#;
        let claims: Claims = serde_json::from_str(text).unwrap();
        let token = issued(&claims, &key).unwrap();
        let expected = Expected { audience: "gapless".to_owned(), leeway: 10 };
        let keys = Arc::new(Keys::read(&to_file(&[key.to_check_with()])).unwrap());
        let authentication = Authentication::new(None, None, Clock::default());
        let first = authentication.of_token(&token, &keys, &expected, 999).unwrap();
        let again = authentication.of_token(&token, &keys, &expected, 1009).unwrap();
        assert!(Arc::ptr_eq(&first.0, &again.0), "it was not checked twice");
        let over = authentication.of_token(&token, &keys, &expected, 1010);
        assert_eq!(over.unwrap_err(), TokenError::Expired);
        let other = Key::generate("two", Algorithm::EdDSA).unwrap();
        let rotated = Arc::new(Keys::read(&to_file(&[other.to_check_with()])).unwrap());
        let gone = authentication.of_token(&token, &rotated, &expected, 999);
        assert_eq!(gone.unwrap_err(), TokenError::Signature(Unsigned::UnknownKey));
    }

    #[test]
    fn a_machine_that_does_not_know_the_time_believes_no_token() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("keys.json");
        let key = Key::generate("one", Algorithm::EdDSA).unwrap();
        std::fs::write(&file, to_file(&[key.to_check_with()])).unwrap();
        let asked = |clock, ends: u64| {
            let read = |contents: &crate::access::reload::Contents| {
                Keys::read(std::str::from_utf8(&contents[0]).unwrap()).map_err(|error| error.to_string())
            };
            let keys = Arc::new(Current::new("keys", vec![file.clone()], read).unwrap());
            let expected = Expected { audience: "gapless".to_owned(), leeway: 30 };
            let authentication = Authentication::new(Some((keys, expected)), None, clock);
            let claims = serde_json::json!(
                {"sub": "till", "aud": "gapless", "exp": ends, "namespaces": ["*"], "actions": ["read"]}
            );
            let token = issued(&serde_json::from_value(claims).unwrap(), &key).unwrap();
            let mut headers = HeaderMap::new();
            headers.insert(header::AUTHORIZATION, format!("Bearer {token}").parse().unwrap());
            let connection = Connection { peer: ([127, 0, 0, 1], 5).into(), names: Arc::new([]) };
            authentication.caller(&headers, &connection).map(|caller| caller.principal.name.clone())
        };
        for ends in [4_000_000_000, u64::MAX] {
            assert_eq!(asked(Clock::default(), ends).unwrap(), "till", "it is good where the time is known");
            assert_eq!(asked(Clock::unset(), ends).unwrap_err(), TokenError::Expired.into(), "{ends}");
        }
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let key = Key::generate("one", Algorithm::HS256).unwrap();
        let keys = Arc::new(Keys::read(&to_file(std::slice::from_ref(&key))).unwrap());
        let expected = Expected { audience: "gapless".to_owned(), leeway: 0 };
        let authentication = Authentication::new(None, None, Clock::default());
        for number in 0..MAX_KNOWN + 10 {
            let text = format!(
                r#"{{"sub":"till-{number}","aud":"gapless","exp":1000,"namespaces":[],"actions":[]}}"#
            );
            let token = issued(&serde_json::from_str(&text).unwrap(), &key).unwrap();
            authentication.of_token(&token, &keys, &expected, 1).unwrap();
            assert!(authentication.known().len() <= MAX_KNOWN);
        }
    }

    #[test]
    fn one_token_is_sent_once_and_as_a_bearer() {
        let mut headers = HeaderMap::new();
        assert_eq!(bearer(&headers).unwrap(), None);
        headers.insert(header::AUTHORIZATION, "bearer abc".parse().unwrap());
        assert_eq!(bearer(&headers).unwrap(), Some("abc"));
        headers.append(header::AUTHORIZATION, "Bearer def".parse().unwrap());
        assert_eq!(bearer(&headers).unwrap_err(), TokenError::Malformed.into());
        headers.insert(header::AUTHORIZATION, "Basic planted".parse().unwrap());
        let refused = Problem::from(bearer(&headers).unwrap_err());
        assert_eq!((&*refused.reason, refused.message.contains("planted")), ("SCHEME_UNKNOWN", false));
    }
}
