//! `gapless tls`: an authority of one's own, and certificates that it signs. No server is asked.
//!
//! The authority always has the same name, so that its key is all that is needed to sign with it.
//!
//! Must not know: what certificates are used for.

use std::io::Write;
use std::path::Path;
use std::time::{Duration, SystemTime};

use anyhow::Result;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};

use crate::cli::TlsCommand;
use crate::private_file::{self, Existing};
use crate::refusal::Refusal;

/// What the authority is called.
const AUTHORITY: &str = "Gapless private authority";
/// Clocks may be this far apart.
const LEEWAY: Duration = Duration::from_secs(3600);
/// Nothing is valid for longer: 100 years, and dates that every program can read.
const LONGEST: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// Runs the command.
pub(crate) fn run(command: &TlsCommand, out: &mut dyn Write) -> Result<()> {
    match command {
        TlsCommand::Init { dir, expires } => init(dir, *expires, out),
        TlsCommand::Issue { dir, names, expires } => issue(dir, names, *expires, out),
    }
}

fn init(dir: &Path, expires: Duration, out: &mut dyn Write) -> Result<()> {
    std::fs::create_dir_all(dir).map_err(|error| {
        Refusal::new(format!("{}: {error}", dir.display()), "name a directory that can be made")
    })?;
    let key = KeyPair::generate()?;
    let authority = authority(expires)?.self_signed(&key)?;
    private_file::write(&dir.join("ca.key"), key.serialize_pem().as_bytes(), Existing::Refused)?;
    private_file::write(&dir.join("ca.pem"), authority.pem().as_bytes(), Existing::Refused)?;
    writeln!(
        out,
        "{} is what clients and servers believe: --ca, tls.client_ca",
        dir.join("ca.pem").display()
    )?;
    writeln!(out, "{} signs certificates; keep it off the servers", dir.join("ca.key").display())?;
    Ok(())
}

fn issue(dir: &Path, names: &[String], expires: Duration, out: &mut dyn Write) -> Result<()> {
    let path = dir.join("ca.key");
    let told = |error: &dyn std::fmt::Display| {
        Refusal::new(format!("{}: {error}", path.display()), "make an authority first: gapless tls init DIR")
    };
    let text = std::fs::read_to_string(&path).map_err(|error| told(&error))?;
    let authority_key = KeyPair::from_pem(&text).map_err(|_| told(&"there is no private key in it"))?;
    let issuer = Issuer::new(authority(expires)?, authority_key);
    let first = names.first().map(String::as_str).unwrap_or_default();
    if first.is_empty() || first.starts_with('.') || first.contains(['/', '\0']) {
        let problem = format!("`{first}` is no name that a file can have");
        return Err(Refusal::new(problem, "name a host, an address or a client first").into());
    }
    let mut params = CertificateParams::new(names.to_vec()).map_err(|_| {
        Refusal::new(
            "one of the names is none that a certificate can be for",
            "name hosts, addresses or clients",
        )
    })?;
    params.distinguished_name.remove(DnType::CommonName);
    params.distinguished_name.push(DnType::CommonName, first);
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages =
        vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    params.use_authority_key_identifier_extension = true;
    valid(&mut params, expires);
    let key = KeyPair::generate()?;
    let certificate = params.signed_by(&key, &issuer)?;
    let (certificate_path, key_path) = (dir.join(format!("{first}.pem")), dir.join(format!("{first}.key")));
    private_file::write(&key_path, key.serialize_pem().as_bytes(), Existing::Replaced)?;
    private_file::write(&certificate_path, certificate.pem().as_bytes(), Existing::Replaced)?;
    writeln!(out, "{} is for {}", certificate_path.display(), names.join(", "))?;
    writeln!(out, "{} is its private key", key_path.display())?;
    Ok(())
}

fn authority(expires: Duration) -> Result<CertificateParams> {
    let mut params = CertificateParams::new(Vec::new())?;
    params.distinguished_name.remove(DnType::CommonName);
    params.distinguished_name.push(DnType::CommonName, AUTHORITY);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    valid(&mut params, expires);
    Ok(params)
}

fn valid(params: &mut CertificateParams, expires: Duration) {
    let now = SystemTime::now();
    params.not_before = (now - LEEWAY).into();
    params.not_after = (now + expires.min(LONGEST)).into();
}
