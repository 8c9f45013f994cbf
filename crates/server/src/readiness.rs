//! Whether the node can do what it is there for: take writes and answer reads, or say who does. `/readyz`, the health of gRPC and the
//! metric say the same, and follow what happens.
//!
//! ```text
//!  starting ──▶ ready ◀──▶ nobody leads
//!      └──────────┴──────────────┴──────▶ stopped, closing
//! ```
//! A follower that knows its leader is ready: it tells clients where to go. One that knows none is not, whether it is cut off or all
//! of them elect.
//!
//! Must not know: who asks.

use gapless_engine::Engine;
use tokio::sync::watch;
use tonic_health::ServingStatus;
use tonic_health::server::HealthReporter;

/// Services whose health is told; the empty name is that of the server as a whole.
const SERVICES: [&str; 4] = ["", "gapless.v1.Ledger", "gapless.v1.Admin", "gapless.v1.Projections"];

/// How ready a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Readiness {
    /// It has not been ready since it started.
    Starting,
    /// It takes writes, or knows who does.
    Ready,
    /// It knows nobody who takes writes.
    Leaderless,
    /// It takes no part any more, and will not until it is started anew.
    Stopped,
    /// It is told to end.
    Closing,
}

impl Readiness {
    pub(crate) fn is_ready(self) -> bool {
        self == Self::Ready
    }

    /// In a sentence.
    pub(crate) fn told(self) -> &'static str {
        match self {
            Self::Starting => "it does not take writes yet",
            Self::Ready => "it serves",
            Self::Leaderless => "it knows no node that takes writes",
            Self::Stopped => "it has stopped by itself; its log says why, and it has to be started anew",
            Self::Closing => "it is shutting down",
        }
    }
}

/// Tells how ready a node is, until the server closes.
pub(crate) async fn follow(engine: Engine, told: Told, mut closing: watch::Receiver<bool>) {
    let closed = async {
        let _ = closing.wait_for(|closing| *closing).await;
    };
    let followed = async {
        follow_engine(&engine, &told).await;
        // What has stopped stays so, until it is told to end.
        std::future::pending::<()>().await;
    };
    tokio::select! {
        () = followed => {}
        () = closed => {}
    }
    told.tell(Readiness::Closing).await;
}

/// Ready when it has stopped.
async fn follow_engine(engine: &Engine, told: &Told) {
    let mut leadership = engine.replicator().leadership();
    loop {
        leadership.borrow_and_update();
        match standing(engine) {
            Readiness::Ready => {
                let takes_writes = async {
                    engine.wait_for_leader().await;
                    engine.wait_until_actualized().await;
                };
                tokio::select! {
                    () = takes_writes => told.tell(Readiness::Ready).await,
                    // Perhaps it leads no longer.
                    changed = leadership.changed() => match changed {
                        Ok(()) => continue,
                        Err(_) => return told.tell(Readiness::Stopped).await,
                    },
                }
            }
            Readiness::Stopped => return told.tell(Readiness::Stopped).await,
            // Who is still starting is not said to have lost anybody.
            _ if told.is_starting() => {}
            standing => told.tell(standing).await,
        }
        if leadership.changed().await.is_err() {
            return told.tell(Readiness::Stopped).await;
        }
    }
}

/// What consensus says.
fn standing(engine: &Engine) -> Readiness {
    let leadership = engine.replicator().leadership();
    let now = leadership.borrow();
    match &now.leader {
        _ if now.stopped.is_some() => Readiness::Stopped,
        Some(_) if !now.is_self || now.is_ready() => Readiness::Ready,
        _ => Readiness::Leaderless,
    }
}

/// Where it is told.
#[derive(Debug)]
pub(crate) struct Told {
    health: HealthReporter,
    readiness: watch::Sender<Readiness>,
}

impl Told {
    /// Nobody is ready before it is told.
    pub(crate) async fn starting(health: HealthReporter) -> Self {
        let told = Self { health, readiness: watch::Sender::new(Readiness::Starting) };
        told.tell(Readiness::Starting).await;
        told
    }

    /// For whoever wants to know.
    pub(crate) fn watch(&self) -> watch::Receiver<Readiness> {
        self.readiness.subscribe()
    }

    fn is_starting(&self) -> bool {
        *self.readiness.borrow() == Readiness::Starting
    }

    async fn tell(&self, readiness: Readiness) {
        let status = if readiness.is_ready() { ServingStatus::Serving } else { ServingStatus::NotServing };
        for service in SERVICES {
            self.health.set_service_status(service, status).await;
        }
        // Last: whoever waits for it finds that everybody is told the same.
        self.readiness.send_replace(readiness);
    }
}
