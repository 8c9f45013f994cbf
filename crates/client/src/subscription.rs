//! A subscription that breaks off goes on behind the last thing that was delivered: nothing is skipped, nothing comes twice.

use futures_util::stream::{self, StreamExt};
use gapless_api::v1;
use gapless_api::v1::subscribe_response::Item;
use tonic::Streaming;

use crate::backoff::Attempts;
use crate::client::{Client, within};
use crate::error::Error;
use crate::ledger::Stream;

struct Following {
    client: Client,
    request: v1::SubscribeRequest,
    open: Option<Streaming<v1::SubscribeResponse>>,
    attempts: Attempts,
    /// The last thing of a namespace that was delivered: several can stand in one entry.
    last: Option<Place>,
}

/// Where something stands in a namespace.
type Place = (u64, u32, u64);

pub(crate) fn items(client: Client, request: v1::SubscribeRequest) -> Stream<v1::SubscribeResponse> {
    let attempts = Attempts::new(client.options().retry);
    let following = Following { client, request, open: None, attempts, last: None };
    stream::try_unfold(following, |mut following| async move {
        let item = following.next().await?;
        Ok(Some((item, following)))
    })
    .boxed()
}

impl Following {
    async fn next(&mut self) -> Result<v1::SubscribeResponse, Error> {
        loop {
            let status = match &mut self.open {
                None => {
                    let mut ledger = self.client.ledger();
                    let opening = ledger.subscribe(self.client.request(self.request.clone()));
                    match within(self.attempts.left(), opening).await {
                        Ok(open) => {
                            self.attempts.opened();
                            self.open = Some(open.into_inner());
                            continue;
                        }
                        Err(status) => status,
                    }
                }
                Some(open) => match open.message().await {
                    Ok(Some(item)) => {
                        self.attempts.progressed();
                        if self.goes_on_with(&item)? {
                            return Ok(item);
                        }
                        continue;
                    }
                    Ok(None) => tonic::Status::unavailable("the server ended the subscription"),
                    Err(status) => status,
                },
            };
            self.open = None;
            self.attempts.wait(self.client.turn(&status)).await?;
        }
    }

    /// Notes where to go on; whether the item is new.
    fn goes_on_with(&mut self, item: &v1::SubscribeResponse) -> Result<bool, Error> {
        let in_namespace = matches!(self.request.what, Some(v1::subscribe_request::What::All(_)));
        match &item.item {
            Some(Item::Event(event)) if in_namespace => {
                let place = (event.log_index, event.partition, event.partition_offset);
                if self.last >= Some(place) {
                    return Ok(false);
                }
                self.last = Some(place);
                self.request.from = event.log_index;
            }
            Some(Item::Event(event)) => self.request.from = event.workspace_offset + 1,
            Some(Item::Outcome(outcome)) => self.request.from = outcome.partition_offset + 1,
            None => return Err(Error::Protocol("nothing where an event should be")),
        }
        Ok(true)
    }
}
