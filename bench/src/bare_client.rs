//! A load generator that is nothing but tonic: the same requests as those of `gapless bench write`, on tonic's own connections. Beside a
//! server that does nothing it says what the messages themselves cost, before anything of ours is below or above them.
//!
//! Must not know: who answers.

use std::io::{self, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use clap::Args;
use gapless_api::v1;
use gapless_api::v1::ledger_client::LedgerClient;
use serde_json::json;
use tonic::transport::{Channel, Endpoint};

use crate::samples::Latencies;

/// Connections that clients share at most, as those of `gapless bench` do.
const MOST_CONNECTIONS: usize = 16;
/// Workspaces that are written to.
const WORKSPACES: u64 = 1000;
/// Bytes of an event.
const EVENT_BYTES: usize = 256;

#[derive(Debug, Args)]
pub(crate) struct BareClientArguments {
    #[arg(long)]
    server: String,
    #[arg(long)]
    clients: usize,
    #[arg(long, value_name = "MILLISECONDS")]
    warm_up: u64,
    #[arg(long, value_name = "MILLISECONDS")]
    duration: u64,
}

/// What counts is what was sent from here to there.
#[derive(Clone, Copy)]
struct Measured {
    from: Instant,
    to: Instant,
}

/// Writes, and says what was measured as `gapless bench` does.
pub(crate) fn run(arguments: &BareClientArguments) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let duration = Duration::from_millis(arguments.duration);
    let from = Instant::now() + Duration::from_millis(arguments.warm_up);
    let measured = Measured { from, to: from + duration };
    let latencies = runtime.block_on(load(arguments, measured))?;
    let latencies = Latencies::new(latencies);
    let told = json!({
        "events_per_second": latencies.len() as f64 / duration.as_secs_f64(),
        "latency_us": {
            "p50": latencies.percentile_us(50),
            "p99": latencies.percentile_us(99),
            "p999": latencies.per_mille_us(999),
        },
        "errors": {},
    });
    Ok(writeln!(io::stdout(), "{told}")?)
}

async fn load(arguments: &BareClientArguments, measured: Measured) -> Result<Vec<Duration>> {
    let endpoint = Endpoint::from_shared(format!("http://{}", arguments.server))?
        .tcp_nodelay(true)
        .initial_stream_window_size(1 << 20)
        .initial_connection_window_size(4 << 20);
    let connections = arguments.clients.min(MOST_CONNECTIONS);
    ensure!(connections > 0, "nobody is to write");
    let channels: Vec<Channel> = (0..connections).map(|_| endpoint.connect_lazy()).collect();
    let payload: Arc<[u8]> = (0..EVENT_BYTES).map(|place| place.to_le_bytes()[0]).collect();
    let clients = (0..arguments.clients).map(|number| {
        let client = LedgerClient::new(channels[number % connections].clone());
        tokio::spawn(write(client, number as u64, Bytes::from_owner(payload.clone()), measured))
    });
    let clients: Vec<_> = clients.collect();
    let mut latencies = Vec::new();
    for client in clients {
        latencies.extend(client.await?.context("a server that does nothing refused")?);
    }
    Ok(latencies)
}

/// One write, one answer, until it is over.
async fn write(
    mut client: LedgerClient<Channel>,
    number: u64,
    payload: Bytes,
    measured: Measured,
) -> Result<Vec<Duration>> {
    let mut latencies = Vec::new();
    for count in 1_u64.. {
        let sent = Instant::now();
        if sent >= measured.to {
            break;
        }
        let key = [number.to_le_bytes(), count.to_le_bytes()].concat();
        let request = v1::WriteRequest {
            namespace: "bench".to_owned(),
            workspace: 1 + count % WORKSPACES,
            client_id: format!("bench-{number}"),
            idempotency_key: key.into(),
            event_type: "Measured".to_owned(),
            payload: payload.clone(),
            content_type: "application/octet-stream".to_owned(),
            ..Default::default()
        };
        client.write(request).await?;
        if sent >= measured.from {
            latencies.push(sent.elapsed());
        }
    }
    Ok(latencies)
}
