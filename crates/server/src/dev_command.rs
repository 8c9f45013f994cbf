//! `gapless dev`: a server to try things with, and three commands that work when they are pasted.
//!
//! Must not know: what is served.

use std::io::Write;
use std::num::NonZeroU16;

use anyhow::Result;
use gapless_partition::Definition;
use gapless_types::Name;

use crate::cli::DevArguments;
use crate::config::Reading;
use crate::demo::invocation;
use crate::output::heading;
use crate::refusal::Refusal;
use crate::serve_command::{Node, Stop, node_runtime, refuse, take_lines};

/// The namespace that is there from the start.
const NAMESPACE: &str = "demo";
/// Where client commands look if nobody says where.
const DEFAULT_PORT: u16 = 7400;

/// Runs the command.
pub(crate) fn run(arguments: &DevArguments, out: &mut dyn Write) -> Result<()> {
    if !arguments.listen.ip().is_loopback() {
        let problem = format!("{} can be reached from other machines", arguments.listen);
        return Err(Refusal::new(problem, "listen on 127.0.0.1, or use `gapless serve --insecure`").into());
    }
    let mut reading = Reading::default();
    reading.environment(std::env::vars_os());
    reading.data("--data", Some(&arguments.data));
    reading.flag("--listen", "server.listen", Some(arguments.listen));
    take_lines(&mut reading, &arguments.lines);
    let (settings, problems) = reading.read_to_serve();
    refuse(&problems)?;
    node_runtime(&settings)?.block_on(async {
        let stop = Stop::new()?;
        let node = Node::start(&settings).await?;
        if node.engine.namespace(NAMESPACE).is_none() {
            node.engine.define(definition()).await?;
        }
        introduce(&node, arguments, out)?;
        stop.wait().await;
        node.stop().await;
        Ok(())
    })
}

/// One namespace with a gap-free sequence of invoice numbers in each workspace.
fn definition() -> Definition {
    let name = |text| Name::new(text).expect("the names of the demonstration are names");
    let partitions = NonZeroU16::new(8).expect("8 is not 0");
    Definition::new(name(NAMESPACE), partitions).with_sequence(name("invoice"), 1)
}

fn introduce(node: &Node, arguments: &DevArguments, out: &mut dyn Write) -> Result<()> {
    let (program, address) = (invocation(), node.address());
    let server = if address.port() == DEFAULT_PORT { String::new() } else { format!(" --server {address}") };
    writeln!(out, "listening on {address}")?;
    writeln!(out, "  console    http://{address}/")?;
    writeln!(out, "  gRPC       {address}, with reflection and health")?;
    writeln!(out, "  HTTP       http://{address}/v1/namespaces, described at http://{address}/openapi.json")?;
    writeln!(out, "  data       {}, kept when this ends", arguments.data.display())?;
    writeln!(out, "  ready      after {} ms", node.ready_after.as_millis())?;
    writeln!(out, "  namespace  {NAMESPACE}, with a gap-free sequence `invoice` in each workspace")?;
    writeln!(out, "\n{}", heading("Three commands to try, in another terminal"))?;
    writeln!(out, "  {program} write {NAMESPACE}/1 ItemSold '{{\"amount\":3}}' --number invoice{server}")?;
    writeln!(out, "  {program} read {NAMESPACE}/1{server}")?;
    writeln!(out, "  {program} proof {NAMESPACE}/1 1{server}")?;
    writeln!(out, "\nCtrl-C ends it, after everything it took is answered.")?;
    out.flush()?;
    Ok(())
}
