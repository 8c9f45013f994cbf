//! Tokens, files of keys and of clients, as arbitrary bytes: nothing panics, nobody is believed who was not signed for, and nobody has a
//! name that nobody can have.
//!
//! Plain functions, one per fuzz target, so that the fuzzer and the bounded test of `crates/server` run the same code.

#![allow(dead_code, reason = "each fuzz target uses one of the functions")]

use std::sync::OnceLock;

use gapless_server::access::certificates::Certificates;
use gapless_server::access::keys::{Algorithm, Key, Keys, to_file};
use gapless_server::access::tokens::{Audience, Claims, Expected, checked, issued, unchecked};
use gapless_server::access::{Action, Rights};

/// When tokens are looked at.
const NOW: u64 = 1_800_000_000;

fn expected() -> Expected {
    Expected { audience: "gapless".to_owned(), leeway: 0 }
}

fn claims() -> Claims {
    let rights =
        Rights { namespaces: vec!["shop*".parse().expect("a pattern")], actions: vec![Action::Read] };
    let aud = Audience::One("gapless".to_owned());
    Claims { sub: "till".to_owned(), aud, exp: NOW + 60, nbf: None, iat: None, rights }
}

/// Keys of both kinds, and a good token of each.
fn known() -> &'static (Keys, Vec<String>) {
    static KNOWN: OnceLock<(Keys, Vec<String>)> = OnceLock::new();
    KNOWN.get_or_init(|| {
        let keys = [("one", Algorithm::EdDSA), ("two", Algorithm::HS256)]
            .map(|(id, algorithm)| Key::generate(id, algorithm).expect("there is randomness"));
        let tokens = keys.iter().map(|key| issued(&claims(), key).expect("they sign")).collect();
        (Keys::read(&to_file(&keys)).expect("they are keys"), tokens)
    })
}

/// A token as it is, and a good one with these changes: pairs of a place and a byte.
pub fn token(data: &[u8]) {
    let (keys, tokens) = known();
    let text = String::from_utf8_lossy(data);
    let _ = unchecked(&text);
    assert!(checked(&text, keys, &expected(), NOW).is_err(), "nobody signed it");
    for token in tokens {
        let mut changed = token.clone().into_bytes();
        for pair in data.chunks_exact(3).take(4) {
            let at = usize::from(u16::from_le_bytes([pair[0], pair[1]])) % changed.len();
            changed[at] = pair[2];
        }
        let Ok(changed) = String::from_utf8(changed) else { continue };
        let believed = checked(&changed, keys, &expected(), NOW);
        // Bits of the last character of a part that say nothing may differ; then it says the same.
        assert!(believed.is_err() || believed == Ok(claims()), "{changed}");
    }
}

/// A file of keys.
pub fn token_keys(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Ok(keys) = Keys::read(text) {
        for token in &known().1 {
            let _ = checked(token, &keys, &expected(), NOW);
        }
    }
}

/// A file of clients: what is taken says the same once it is written again.
pub fn clients(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Ok(clients) = Certificates::read(text) else { return };
    let mut again = String::new();
    for (name, Rights { namespaces, actions }) in clients.rights() {
        assert!((1..=128).contains(&name.len()) && !name.contains(char::is_control), "{name:?}");
        let text = |text: &dyn std::fmt::Display| serde_json::Value::from(text.to_string()).to_string();
        let namespaces: Vec<_> = namespaces.iter().map(|pattern| text(pattern)).collect();
        let actions: Vec<_> = actions.iter().map(|action| text(&action.name())).collect();
        let lists = (namespaces.join(","), actions.join(","));
        again += &format!(
            "[[client]]\nname = {}\nnamespaces = [{}]\nactions = [{}]\n",
            text(&name),
            lists.0,
            lists.1
        );
    }
    let again = Certificates::read(&again).expect("what was taken is taken again");
    assert!(clients.rights().eq(again.rights()), "{text}");
}
