//! Finding out who asks: a bearer token, or the certificate of the connection. Whoever says nothing credible is nobody.
//!
//! ```text
//!  authorization: Bearer ... ──▶ known? (by its hash, until it expires) ──▶ checked ──▶ principal
//!  certificate of the connection ──▶ its names ──▶ principal
//! ```
//!
//! A token counts before a certificate, and a token that is not right is not made up for by one.
//!
//! Invariants
//! - Nobody is believed for longer than what he was believed by: his token or certificate ends, its key or his line in a file goes.
//!
//! Must not know: what anybody may do.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};

use axum::http::{HeaderMap, header};
use gapless_api::{Problem, ProblemKind};
use ring::digest;
use tokio::sync::watch;

use super::certificates::Certificates;
use super::clock::{Clock, Expiry, Standing};
use super::failures::{self, Failures};
use super::fairness;
use super::keys::{Keys, Signer};
use super::reload::Current;
use super::tokens::{Expected, TokenError, believed};
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
    /// The first second since 1970 at which that certificate is over.
    pub(crate) ends: u64,
    /// As whom it counts, as long as nobody says who he is.
    pub(crate) stranger: Arc<str>,
}

impl Connection {
    pub(crate) fn new(peer: SocketAddr, names: Arc<[String]>, ends: u64) -> Self {
        Self { peer, names, ends, stranger: fairness::stranger(peer.ip()) }
    }
}

/// Why somebody is not believed. What he is told is a [`Problem`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// His token is not.
    Token(TokenError),
    /// Too many tokens from where he is were not.
    TooOften,
    /// He has something else than a token.
    Scheme,
    /// The certificate of his connection has ended.
    Certificate,
    /// He has nothing, or a certificate of somebody unknown.
    Nobody,
}

impl Refused {
    /// What the audit is told: it may be more exact than what he is.
    pub(crate) fn audited(self) -> &'static str {
        match self {
            Self::Token(error) => error.audited(),
            Self::TooOften => "RATE_LIMITED",
            Self::Scheme => "SCHEME_UNKNOWN",
            Self::Certificate => "CERTIFICATE_EXPIRED",
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
            Refused::TooOften => {
                let message = "too many tokens from this address were not right; ask later".to_owned();
                return Self::new(ProblemKind::Exhausted, refused.audited(), message)
                    .with("limit", "failed_tokens")
                    .after(failures::PACE.refill);
            }
            Refused::Certificate => (
                refused.audited(),
                "the certificate of this connection has expired: connect with another one".to_owned(),
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
#[derive(Clone, Debug)]
struct Known {
    principal: Arc<Principal>,
    expires: u64,
    signer: Arc<Signer>,
    /// It is checked again as soon as keys are exchanged.
    keys: Arc<Keys>,
}

/// That a key which signed a token is still one.
#[derive(Debug)]
struct Signed {
    keys: Arc<Current<Keys>>,
    by: Arc<Keys>,
    signer: Arc<Signer>,
}

impl Standing for Signed {
    fn stands(&self) -> bool {
        let now = self.keys.get();
        Arc::ptr_eq(&now, &self.by) || now.has(&self.signer)
    }

    fn renewed(&self) -> watch::Receiver<()> {
        self.keys.renewed()
    }
}

/// That the owner of a certificate is still in the file, and may do there what he might.
#[derive(Debug)]
struct Listed {
    certificates: Arc<Current<Certificates>>,
    by: Arc<Certificates>,
    names: Arc<[String]>,
    principal: Arc<Principal>,
}

impl Standing for Listed {
    fn stands(&self) -> bool {
        let now = self.certificates.get();
        Arc::ptr_eq(&now, &self.by) || now.principal(&self.names).as_ref() == Some(&self.principal)
    }

    fn renewed(&self) -> watch::Receiver<()> {
        self.certificates.renewed()
    }
}

/// How one says who one is.
#[derive(Debug)]
pub(crate) struct Authentication {
    tokens: Option<(Arc<Current<Keys>>, Expected)>,
    certificates: Option<Arc<Current<Certificates>>>,
    known: Mutex<HashMap<[u8; HASH_BYTES], Known>>,
    failures: Failures,
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
        let (known, failures) = (Mutex::default(), Failures::default());
        Self { tokens, certificates, known, failures, anybody, clock }
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
        if let (Some((current, expected)), Some(token)) = (&self.tokens, bearer(headers)?) {
            let known = self.of_token(token, &current.get(), expected, self.clock.now(), peer.ip())?;
            let Known { principal, expires, signer, keys: by } = known;
            let standing = Signed { keys: current.clone(), by, signer };
            let expires = Expiry::new(expires, &self.clock).while_stands(Arc::new(standing));
            return Ok(Caller { principal, peer, expires: Some(expires) });
        }
        let Some(certificates) = &self.certificates else { return Err(Refused::Nobody) };
        let (by, names) = (certificates.get(), connection.names.clone());
        let principal = by.principal(&names).ok_or(Refused::Nobody)?;
        let standing = Listed { certificates: certificates.clone(), by, names, principal: principal.clone() };
        let expires = Expiry::new(connection.ends, &self.clock).while_stands(Arc::new(standing));
        if expires.is_over() {
            return Err(Refused::Certificate);
        }
        Ok(Caller { principal, peer, expires: Some(expires) })
    }

    /// Whom a token stands for, until when, and by which key. What came from where it does decides whether it is looked at.
    fn of_token(
        &self,
        token: &str,
        keys: &Arc<Keys>,
        expected: &Expected,
        now: u64,
        from: IpAddr,
    ) -> Result<Known, Refused> {
        let hash = hash(token);
        if let Some(known) = self.known().get(&hash)
            && now < known.expires
            && Arc::ptr_eq(&known.keys, keys)
        {
            return Ok(known.clone());
        }
        if self.failures.are_too_many(from) {
            return Err(Refused::TooOften);
        }
        // Nobody waits while a signature is checked.
        let checked = believed(token, keys, expected, now);
        let (claims, signer) = checked.inspect_err(|_| self.failures.note(from))?;
        let expires = claims.exp.saturating_add(expected.leeway);
        let principal = Arc::new(Principal::from(claims));
        let new = Known { principal, expires, signer: Arc::new(signer), keys: keys.clone() };
        let mut known = self.known();
        if known.len() >= MAX_KNOWN {
            known.retain(|_, known| now < known.expires && Arc::ptr_eq(&known.keys, keys));
            if known.len() >= MAX_KNOWN {
                known.clear();
            }
        }
        known.insert(hash, new.clone());
        Ok(new)
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
    use crate::access::reload::{Contents, Reload};
    use crate::access::tokens::{Claims, issued};

    const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    #[test]
    fn what_was_checked_is_remembered_until_it_expires_or_its_key_is_gone() {
        let key = Key::generate("one", Algorithm::EdDSA).unwrap();
        let text = r#"{"sub":"till","aud":"gapless","exp":1000,"namespaces":["*"],"actions":["read"]}"#;
        let claims: Claims = serde_json::from_str(text).unwrap();
        let token = issued(&claims, &key).unwrap();
        let expected = Expected { audience: "gapless".to_owned(), leeway: 10 };
        let keys = Arc::new(Keys::read(&to_file(&[key.to_check_with()])).unwrap());
        let authentication = Authentication::new(None, None, Clock::default());
        let first = authentication.of_token(&token, &keys, &expected, 999, HERE).unwrap();
        let again = authentication.of_token(&token, &keys, &expected, 1009, HERE).unwrap();
        assert!(Arc::ptr_eq(&first.principal, &again.principal), "it was not checked twice");
        let over = authentication.of_token(&token, &keys, &expected, 1010, HERE);
        assert_eq!(over.unwrap_err(), TokenError::Expired.into());
        let other = Key::generate("two", Algorithm::EdDSA).unwrap();
        let rotated = Arc::new(Keys::read(&to_file(&[other.to_check_with()])).unwrap());
        let gone = authentication.of_token(&token, &rotated, &expected, 999, HERE);
        assert_eq!(gone.unwrap_err(), TokenError::Signature(Unsigned::UnknownKey).into());
    }

    #[test]
    fn a_machine_that_does_not_know_the_time_believes_no_token() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("keys.json");
        let key = Key::generate("one", Algorithm::EdDSA).unwrap();
        std::fs::write(&file, to_file(&[key.to_check_with()])).unwrap();
        let asked = |clock, ends: u64| {
            let read = |contents: &Contents| {
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
            let connection = Connection::new(([127, 0, 0, 1], 5).into(), Arc::new([]), 0);
            authentication.caller(&headers, &connection).map(|caller| caller.principal.name.clone())
        };
        for ends in [4_000_000_000, u64::MAX] {
            assert_eq!(asked(Clock::default(), ends).unwrap(), "till", "it is good where the time is known");
            assert_eq!(asked(Clock::unset(), ends).unwrap_err(), TokenError::Expired.into(), "{ends}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn where_too_many_wrong_tokens_come_from_nothing_new_is_checked_and_the_known_are_served() {
        let expected = Expected { audience: "gapless".to_owned(), leeway: 0 };
        let [key, forger] = [(); 2].map(|()| Key::generate("one", Algorithm::HS256).unwrap());
        let keys = Arc::new(Keys::read(&to_file(std::slice::from_ref(&key))).unwrap());
        let authentication = Authentication::new(None, None, Clock::default());
        let token = |name: &str, key: &Key| {
            let text =
                format!(r#"{{"sub":"{name}","aud":"gapless","exp":1000,"namespaces":[],"actions":[]}}"#);
            issued(&serde_json::from_str(&text).unwrap(), key).unwrap()
        };
        let ask = |token: &str, from| {
            authentication
                .of_token(token, &keys, &expected, 1, from)
                .map(|known| known.principal.name.clone())
        };
        let (till, late) = (token("till", &key), token("late", &key));
        ask(&till, HERE).unwrap();
        let forged = token("forged", &forger);
        for _ in 0..failures::PACE.burst {
            assert!(matches!(ask(&forged, HERE), Err(Refused::Token(TokenError::Signature(_)))));
        }
        assert_eq!(ask(&forged, HERE), Err(Refused::TooOften));
        assert_eq!(ask(&late, HERE), Err(Refused::TooOften), "whether it is right is not looked at");
        assert_eq!(ask(&till, HERE).unwrap(), "till");
        assert_eq!(ask(&late, [10, 0, 0, 2].into()).unwrap(), "late");
        tokio::time::advance(failures::PACE.refill).await;
        let problem = Problem::from(Refused::TooOften);
        assert_eq!(
            (problem.kind, problem.retry_after),
            (ProblemKind::Exhausted, Some(failures::PACE.refill))
        );
        assert!(matches!(ask(&forged, HERE), Err(Refused::Token(_))), "one more in a while");
    }

    #[test]
    fn whoever_came_with_a_certificate_is_believed_until_it_ends_or_his_line_is_changed() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("clients.toml");
        let line = |actions: &str| {
            let line = format!("[[client]]\nname = 'till'\nnamespaces = ['shop']\nactions = [{actions}]\n");
            std::fs::write(&file, line).unwrap();
        };
        line("'read'");
        let read = |contents: &Contents| Certificates::read(std::str::from_utf8(&contents[0]).unwrap());
        let names = Arc::new(Current::new("names", vec![file.clone()], read).unwrap());
        let (clock, told) = watch::channel(100);
        let authentication = Authentication::new(None, Some(names.clone()), Clock::told_by(told));
        let connection = Connection::new((HERE, 5).into(), Arc::new(["till".to_owned()]), 200);
        let ask = || authentication.caller(&HeaderMap::new(), &connection);
        let expires = || ask().unwrap().expires.unwrap();
        let (first, other) = (expires(), "[[client]]\nname = 'other'\nnamespaces = []\nactions = []\n");
        std::fs::write(&file, format!("{}{other}", std::fs::read_to_string(&file).unwrap())).unwrap();
        names.look();
        assert!(!first.is_over(), "others come and go");
        line("'read', 'write'");
        names.look();
        assert!(first.is_over() && !expires().is_over(), "what he may do is something else");
        let second = expires();
        clock.send_replace(199);
        assert!(!second.is_over());
        clock.send_replace(200);
        assert!(second.is_over());
        assert_eq!(ask().unwrap_err(), Refused::Certificate);
        clock.send_replace(100);
        std::fs::write(&file, other).unwrap();
        names.look();
        assert!(second.is_over());
        assert_eq!(ask().unwrap_err(), Refused::Nobody);
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
            authentication.of_token(&token, &keys, &expected, 1, HERE).unwrap();
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
