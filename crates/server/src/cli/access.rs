//! Arguments of the commands that set access up: tokens and certificates.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use gapless_server::access::keys::Algorithm;
use gapless_server::access::{Action, NamespacePattern};

pub(super) const TOKEN_EXAMPLES: &str = "\
Examples:
  gapless token keygen --id 2026-11 --key signing.jwk --keys token-keys.json
  gapless token issue --key signing.jwk --subject till-1 --namespaces 'shop*' --actions read,write --expires 30d --out till-1.token
  gapless token inspect --keys token-keys.json < till-1.token

The server checks tokens with the set of keys (access.token_keys); the key that signs stays elsewhere.
A key is exchanged by adding another one to the set, and removing the old one when its tokens are over.";

/// What to do about tokens.
#[derive(Debug, Subcommand)]
pub(crate) enum TokenCommand {
    /// Makes a key that signs tokens, and adds what checks them to a set of keys
    Keygen {
        /// What the key is called: tokens name it
        #[arg(long)]
        id: String,
        /// How it signs; with HS256, whoever checks tokens can also make them
        #[arg(long, value_enum, default_value = "EdDSA")]
        algorithm: AlgorithmName,
        /// File for the key that signs; it must not exist
        #[arg(long, value_name = "FILE")]
        key: PathBuf,
        /// Set of keys that a server checks with; made, or added to
        #[arg(long, value_name = "FILE")]
        keys: PathBuf,
    },
    /// Issues a token
    Issue(IssueArguments),
    /// Shows what a token says, and whether a server with these keys would believe it; reads it from stdin
    Inspect {
        /// Set of keys that a server checks with
        #[arg(long, value_name = "FILE")]
        keys: Option<PathBuf>,
        /// Name of the server in tokens
        #[arg(long, value_name = "NAME", default_value = "gapless")]
        audience: String,
    },
}

/// What a token says.
#[derive(Debug, Args)]
pub(crate) struct IssueArguments {
    /// The key that signs it
    #[arg(long, value_name = "FILE")]
    pub(crate) key: PathBuf,
    /// Who it is for
    #[arg(long, value_name = "NAME")]
    pub(crate) subject: String,
    /// Name of the server in tokens (access.audience)
    #[arg(long, value_name = "NAME", default_value = "gapless")]
    pub(crate) audience: String,
    /// Namespaces, or how their names begin: shop, 'shop*', '*'
    #[arg(long, value_name = "PATTERN", value_delimiter = ',', required = true)]
    pub(crate) namespaces: Vec<NamespacePattern>,
    /// What is allowed there: read, write, work, admin
    #[arg(long, value_name = "ACTION", value_delimiter = ',', required = true)]
    pub(crate) actions: Vec<Action>,
    /// How long it is valid, such as 12h or 30d
    #[arg(long, value_name = "DURATION", value_parser = humantime::parse_duration)]
    pub(crate) expires: Duration,
    /// File for the token, which nobody else can read; one that is there is replaced. Without it, the token is printed
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
}

/// How tokens are signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum AlgorithmName {
    /// Ed25519: whoever checks tokens cannot make any
    #[value(name = "EdDSA")]
    EdDsa,
    /// HMAC with SHA-256: one secret for both
    #[value(name = "HS256")]
    Hs256,
}

impl From<AlgorithmName> for Algorithm {
    fn from(name: AlgorithmName) -> Self {
        match name {
            AlgorithmName::EdDsa => Self::EdDSA,
            AlgorithmName::Hs256 => Self::HS256,
        }
    }
}

pub(super) const TLS_EXAMPLES: &str = "\
Examples:
  gapless tls init ./tls                                      an authority: ca.pem and ca.key
  gapless tls issue ./tls db.example.com 10.0.0.4             a certificate: db.example.com.pem and .key
  gapless tls issue ./tls till-1                              one for a client

Certificates of any other authority do as well.";

/// What to do about certificates.
#[derive(Debug, Subcommand)]
pub(crate) enum TlsCommand {
    /// Makes an authority
    Init {
        /// Directory for it
        dir: PathBuf,
        /// How long it is valid
        #[arg(long, value_name = "DURATION", default_value = "3650d", value_parser = humantime::parse_duration)]
        expires: Duration,
    },
    /// Makes a certificate that proves a server or a client, signed by the authority; one that is there is replaced
    Issue {
        /// Directory of the authority
        dir: PathBuf,
        /// Names and addresses that it is for; files are named after the first
        #[arg(required = true)]
        names: Vec<String>,
        /// How long it is valid
        #[arg(long, value_name = "DURATION", default_value = "90d", value_parser = humantime::parse_duration)]
        expires: Duration,
    },
}
