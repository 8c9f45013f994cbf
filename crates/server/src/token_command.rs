//! `gapless token`: keys that sign tokens, tokens, and what tokens say. No server is asked.
//!
//! Must not know: what a server does with tokens.

use std::io::{Read, Write};
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Result;
use gapless_server::access::Rights;
use gapless_server::access::keys::{Key, Keys, key_set, to_file};
use gapless_server::access::tokens::{
    Audience, Claims, Expected, MAX_TOKEN_BYTES, checked, issued, unchecked,
};

use crate::cli::{IssueArguments, TokenCommand};
use crate::output::heading;
use crate::private_file::{self, Existing};
use crate::refusal::Refusal;

/// Runs the command.
pub(crate) fn run(command: &TokenCommand, out: &mut dyn Write) -> Result<()> {
    match command {
        TokenCommand::Keygen { id, algorithm, key, keys } => {
            let made = Key::generate(id, (*algorithm).into()).map_err(|error| refused(&error))?;
            let mut set = if keys.exists() { read_keys(keys)? } else { Vec::new() };
            set.push(made.to_check_with());
            let set = to_file(&set);
            Keys::read(&set).map_err(|error| refused(&error))?;
            private_file::write(key, to_file(&[made]).as_bytes(), Existing::Refused)?;
            private_file::write(keys, set.as_bytes(), Existing::Replaced)?;
            writeln!(
                out,
                "{} signs tokens; keep it where tokens are issued, and nowhere else",
                key.display()
            )?;
            writeln!(out, "{} checks them: access.token_keys of every server", keys.display())?;
            Ok(())
        }
        TokenCommand::Issue(arguments) => issue(arguments, out),
        TokenCommand::Inspect { keys, audience } => inspect(keys.as_deref(), audience, out),
    }
}

fn issue(arguments: &IssueArguments, out: &mut dyn Write) -> Result<()> {
    let keys = read_keys(&arguments.key)?;
    let [key] = keys.as_slice() else {
        let problem = format!("{} is not the file of one key", arguments.key.display());
        return Err(Refusal::new(problem, "name the file that `gapless token keygen --key` made").into());
    };
    let now = now();
    let claims = Claims {
        sub: arguments.subject.clone(),
        aud: Audience::One(arguments.audience.clone()),
        exp: now.saturating_add(arguments.expires.as_secs()),
        nbf: None,
        iat: Some(now),
        rights: Rights { namespaces: arguments.namespaces.clone(), actions: arguments.actions.clone() },
    };
    let token = issued(&claims, key).map_err(|error| refused(&error))?;
    // What no server would take is not handed out.
    let own = Keys::read(&to_file(&[key.to_check_with()])).map_err(|error| refused(&error))?;
    let expected = Expected { audience: arguments.audience.clone(), leeway: 0 };
    checked(&token, &own, &expected, now).map_err(|error| {
        Refusal::new(
            error.to_string(),
            "choose a shorter subject, fewer namespaces, and an end in the future",
        )
    })?;
    match &arguments.out {
        None => writeln!(out, "{token}")?,
        Some(file) => {
            private_file::write(file, format!("{token}\n").as_bytes(), Existing::Replaced)?;
            writeln!(
                out,
                "{} has the token; whoever can read it is {}",
                file.display(),
                claims.sub.escape_debug()
            )?;
        }
    }
    Ok(())
}

fn inspect(keys: Option<&Path>, audience: &str, out: &mut dyn Write) -> Result<()> {
    let mut token = String::new();
    std::io::stdin().take(2 * MAX_TOKEN_BYTES as u64).read_to_string(&mut token)?;
    let token = token.trim();
    let malformed = |error: &dyn std::fmt::Display| {
        Refusal::new(error.to_string(), "pass a token to stdin, as `gapless token issue` writes it")
    };
    let (key, claims) = unchecked(token).map_err(|error| malformed(&error))?;
    let rights = &claims.rights;
    let list = |items: Vec<String>| items.join(" ");
    writeln!(out, "{}", heading("The token says"))?;
    // Whoever made it may have wanted to be looked at on a terminal.
    writeln!(out, "  subject     {}", claims.sub.escape_debug())?;
    writeln!(out, "  audience    {}", serde_json::to_string(&claims.aud)?)?;
    writeln!(out, "  namespaces  {}", list(rights.namespaces.iter().map(ToString::to_string).collect()))?;
    writeln!(
        out,
        "  actions     {}",
        list(rights.actions.iter().map(|action| action.name().to_owned()).collect())
    )?;
    writeln!(out, "  expires     {}", moment(claims.exp))?;
    writeln!(out, "  key         {}", key.as_deref().unwrap_or("-").escape_debug())?;
    let Some(keys) = keys else {
        writeln!(out, "whether it is true was not checked: --keys FILE")?;
        return Ok(());
    };
    let keys = Keys::read(&to_file(&read_keys(keys)?)).map_err(|error| refused(&error))?;
    let expected = Expected { audience: audience.to_owned(), leeway: 0 };
    match checked(token, &keys, &expected, now()) {
        Ok(_) => Ok(writeln!(out, "a server with these keys believes it")?),
        Err(error) => Err(Refusal::new(
            format!("a server with these keys does not believe it: {}", error.in_full()),
            "issue another one: gapless token issue",
        )
        .into()),
    }
}

fn read_keys(path: &Path) -> Result<Vec<Key>> {
    let told = |error: &dyn std::fmt::Display| {
        Refusal::new(
            format!("{}: {error}", path.display()),
            "name a file that `gapless token keygen` made, or another set of JSON Web Keys",
        )
    };
    let text = std::fs::read_to_string(path).map_err(|error| told(&error))?;
    Ok(key_set(&text).map_err(|error| told(&error))?)
}

fn refused(error: &dyn std::fmt::Display) -> Refusal {
    Refusal::new(error.to_string(), "see `gapless token --help` for what is needed")
}

/// A second since 1970 as people write it, as far as they do.
fn moment(seconds: u64) -> String {
    const YEAR_10000: u64 = 253_402_300_800;
    if seconds >= YEAR_10000 {
        return "after the year 9999".to_owned();
    }
    humantime::format_rfc3339_seconds(UNIX_EPOCH + Duration::from_secs(seconds)).to_string()
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_second_can_be_shown() {
        assert_eq!(moment(0), "1970-01-01T00:00:00Z");
        assert_eq!(moment(253_402_300_799), "9999-12-31T23:59:59Z");
        for beyond in [253_402_300_800, u64::MAX] {
            assert_eq!(moment(beyond), "after the year 9999");
        }
    }
}
