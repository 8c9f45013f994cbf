//! `gapless reference`: pages of the documentation that are made from what the program does, so that they cannot say anything else.
//!
//! Must not know: what the pages say.

use std::io::Write;

use anyhow::Result;

use crate::cli::ReferencePage;
use crate::config;

/// Runs the command.
pub(crate) fn run(page: ReferencePage, out: &mut dyn Write) -> Result<()> {
    let text = match page {
        ReferencePage::Configuration => config::reference(),
        ReferencePage::Metrics => gapless_server::metrics_reference(),
    };
    Ok(out.write_all(text.as_bytes())?)
}
