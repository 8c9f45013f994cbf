//! Effects that break off go on behind the last one that was delivered: nothing is skipped, nothing comes twice.

use futures_util::stream::{self, StreamExt};
use gapless_api::v1;
use tonic::Streaming;

use crate::backoff::Attempts;
use crate::client::{Client, within};
use crate::error::Error;
use crate::ledger::Stream;

struct Following {
    client: Client,
    /// Goes on with this slot.
    request: v1::SubscribeEffectsRequest,
    open: Option<Streaming<v1::SubscribeEffectsResponse>>,
    attempts: Attempts,
    /// Messages of that slot that were delivered: a large effect has several, the same ones every time.
    delivered: usize,
    /// Messages of that slot that have come on this stream.
    seen: usize,
}

pub(crate) fn effects(client: Client, request: v1::SubscribeEffectsRequest) -> Stream<v1::Effect> {
    let attempts = Attempts::new(client.options().retry);
    let following = Following { client, request, open: None, attempts, delivered: 0, seen: 0 };
    stream::try_unfold(following, |mut following| async move {
        let effect = following.next().await?;
        Ok(Some((effect, following)))
    })
    .boxed()
}

impl Following {
    async fn next(&mut self) -> Result<v1::Effect, Error> {
        loop {
            let status = match &mut self.open {
                None => {
                    let request = self.client.request(self.request.clone());
                    let mut projections = self.client.projections();
                    match within(self.attempts.left(), projections.subscribe_effects(request)).await {
                        Ok(open) => {
                            self.attempts.opened();
                            self.open = Some(open.into_inner());
                            self.seen = 0;
                            continue;
                        }
                        Err(status) => status,
                    }
                }
                Some(open) => match open.message().await {
                    Ok(Some(answer)) => {
                        self.attempts.progressed();
                        let effect = answer.effect.ok_or(Error::Protocol("an answer without its content"))?;
                        match self.is_new(&effect) {
                            true => return Ok(effect),
                            false => continue,
                        }
                    }
                    Ok(None) => tonic::Status::unavailable("the server ended the effects"),
                    Err(status) => status,
                },
            };
            self.open = None;
            self.attempts.wait(self.client.turn(&status)).await?;
        }
    }

    /// Notes where to go on; whether a message was not delivered before.
    fn is_new(&mut self, effect: &v1::Effect) -> bool {
        self.seen += 1;
        let is_new = self.seen > self.delivered;
        if !effect.has_more {
            self.request.from = effect.slot + 1;
            (self.delivered, self.seen) = (0, 0);
        } else if is_new {
            self.request.from = effect.slot;
            self.delivered = self.seen;
        }
        is_new
    }
}
