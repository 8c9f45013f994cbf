//! What starts nodes again, as the operating system of a machine does: after their end, and when they have stopped by themselves.
//!
//! Must not know: why a node ended.

use std::sync::Arc;
use std::time::Duration;

use gapless_consensus::NodeId;
use tokio::time::Instant;

use crate::sometimes::Situation;
use crate::trace::note;
use crate::world::{Running, SeatState, World};

const INTERVAL: Duration = Duration::from_millis(5);

/// What a seat needs now.
enum Need {
    Start,
    ClearAway(Running),
}

/// Looks after all nodes for as long as it is let.
pub(crate) async fn run(world: Arc<World>) {
    loop {
        tokio::time::sleep(INTERVAL).await;
        for (node, need) in needs(&world) {
            let world = world.clone();
            match need {
                Need::Start => {
                    tokio::spawn(async move { world.start(node).await });
                }
                Need::ClearAway(running) => {
                    tokio::spawn(async move { world.end(node, Some(running.engine)).await });
                }
            }
        }
    }
}

fn needs(world: &World) -> Vec<(NodeId, Need)> {
    let now = Instant::now();
    let mut needs = Vec::new();
    for (node, seat) in world.seats().iter_mut() {
        match &seat.state {
            SeatState::Down { until } if *until <= now => {
                // Told once: the next look finds it opening.
                seat.state = SeatState::Ending;
                needs.push((*node, Need::Start));
            }
            SeatState::Running(running) if !running.life.is_on() => {
                let running = running.clone();
                seat.state = SeatState::Ending;
                needs.push((*node, Need::ClearAway(running)));
            }
            SeatState::Running(running) => {
                let stopped = running.engine.replicator().leadership().borrow().stopped.clone();
                if let Some(stopped) = stopped {
                    note!(world.trace, "node {node} has stopped: {}", stopped.reason);
                    world.sometimes.saw(Situation::NodeStopped);
                    running.life.end();
                }
            }
            SeatState::Down { .. } | SeatState::Opening(_) | SeatState::Ending | SeatState::Retired => {}
        }
    }
    needs
}
