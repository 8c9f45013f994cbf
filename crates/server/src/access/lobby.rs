//! Where strangers are answered: what is open to everybody takes nothing from those who are known, and nobody is ever refused here. When
//! every seat is taken, the oldest call of the network that has most of them goes, whatever it waits for. So however many look on for
//! ever, whoever only wants to know whether the server serves is told so.
//!
//! Must not know: what calls do.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use axum::body::{Body, Bytes};
use gapless_api::{Problem, ProblemKind};
use hyper::body::{Frame, SizeHint};
use tokio::sync::Notify;
use tokio::sync::futures::OwnedNotified;
use tonic::Status;

use super::fairness::SOON;
use crate::accept::network;

/// All seats. There are as many entries as calls.
#[derive(Debug)]
pub(crate) struct Lobby {
    limit: usize,
    here: Mutex<Here>,
}

#[derive(Debug, Default)]
struct Here {
    came: u64,
    all: usize,
    /// Calls by their numbers, in the order in which they came.
    by_network: HashMap<IpAddr, BTreeMap<u64, Arc<Notify>>>,
}

/// The seat of a call. Dropped, it is free.
#[derive(Debug)]
pub(crate) struct Seat {
    lobby: Arc<Lobby>,
    network: IpAddr,
    number: u64,
    go: Arc<Notify>,
}

impl Lobby {
    /// So many seats, at least one.
    pub(crate) fn new(limit: usize) -> Self {
        Self { limit: limit.max(1), here: Mutex::default() }
    }

    /// Takes a seat. If there is none, somebody makes room.
    pub(crate) fn enter(self: &Arc<Self>, address: IpAddr) -> Seat {
        let (network, go) = (network(address), Arc::new(Notify::new()));
        let mut here = self.here();
        if here.all >= self.limit {
            here.make_room();
        }
        here.came += 1;
        here.all += 1;
        let number = here.came;
        here.by_network.entry(network).or_default().insert(number, go.clone());
        drop(here);
        Seat { lobby: self.clone(), network, number, go }
    }

    fn here(&self) -> MutexGuard<'_, Here> {
        self.here.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Here {
    fn make_room(&mut self) {
        let first = |calls: &BTreeMap<u64, _>| calls.first_key_value().map(|(number, _)| *number);
        let most = self.by_network.iter().max_by_key(|(_, calls)| (calls.len(), Reverse(first(calls))));
        let Some((network, number)) = most.and_then(|(network, calls)| Some((*network, first(calls)?)))
        else {
            return;
        };
        if let Some(go) = self.remove(network, number) {
            go.notify_one();
        }
    }

    fn remove(&mut self, network: IpAddr, number: u64) -> Option<Arc<Notify>> {
        let calls = self.by_network.get_mut(&network)?;
        let go = calls.remove(&number)?;
        if calls.is_empty() {
            self.by_network.remove(&network);
        }
        self.all -= 1;
        Some(go)
    }
}

impl Seat {
    /// Ready when it is needed for another one.
    pub(crate) fn goes(&self) -> OwnedNotified {
        self.go.clone().notified_owned()
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.lobby.here().remove(self.network, self.number);
    }
}

/// Why a call was broken off.
pub(crate) fn made_room() -> Problem {
    let message = "others want to know as well, and this was the oldest of many; ask again later";
    Problem::new(ProblemKind::Exhausted, "TOO_MANY_CALLS", message).with("limit", "strangers").after(SOON)
}

/// The body of an answer, which ends when its seat is needed.
#[derive(Debug)]
pub(crate) struct Seated {
    body: Body,
    goes: Pin<Box<OwnedNotified>>,
    is_grpc: bool,
    is_over: bool,
    _seat: Seat,
}

impl Seated {
    pub(crate) fn new(body: Body, seat: Seat, goes: Pin<Box<OwnedNotified>>, is_grpc: bool) -> Self {
        Self { body, goes, is_grpc, is_over: false, _seat: seat }
    }
}

impl hyper::body::Body for Seated {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let this = &mut *self;
        if this.is_over {
            return Poll::Ready(None);
        }
        if this.goes.as_mut().poll(context).is_pending() {
            return Pin::new(&mut this.body).poll_frame(context);
        }
        this.is_over = true;
        let status = Status::from(made_room());
        let mut trailers = axum::http::HeaderMap::new();
        Poll::Ready(Some(match this.is_grpc && status.add_header(&mut trailers).is_ok() {
            true => Ok(Frame::trailers(trailers)),
            false => Err(axum::Error::new(status)),
        }))
    }

    fn is_end_stream(&self) -> bool {
        self.is_over || self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use hyper::body::Body as _;

    use super::*;

    fn goes(seat: &Seat) -> bool {
        seat.goes().now_or_never().is_some()
    }

    #[test]
    fn whoever_has_most_makes_room_for_whoever_comes() {
        let lobby = Arc::new(Lobby::new(6));
        let enter = |host: u8| lobby.enter([10, 0, 0, host].into());
        let one = [(); 3].map(|()| enter(1));
        let two = [(); 3].map(|()| enter(2));
        // Of two that have as many, the one who came first.
        let probe = enter(3);
        assert_eq!(one.each_ref().map(goes), [true, false, false]);
        let another = enter(1);
        assert_eq!(two.each_ref().map(goes), [true, false, false], "one is told, and then the other");
        assert!(!goes(&probe) && !goes(&another));
        let left = || {
            let here = lobby.here();
            (here.all, here.by_network.len())
        };
        drop((one, two, another));
        assert_eq!(left(), (1, 1));
        drop(probe);
        assert_eq!(left(), (0, 0));
    }

    #[tokio::test]
    async fn an_answer_that_makes_room_ends_in_the_words_of_whoever_waits_for_it() {
        let lobby = Arc::new(Lobby::new(1));
        let endless = || Body::from_stream(futures_util::stream::pending::<Result<Bytes, axum::Error>>());
        for is_grpc in [true, false] {
            let seat = lobby.enter([10, 0, 0, 1].into());
            let goes = Box::pin(seat.goes());
            let mut body = Box::pin(Seated::new(endless(), seat, goes, is_grpc));
            let mut next = || body.as_mut().poll_frame(&mut Context::from_waker(std::task::Waker::noop()));
            assert!(next().is_pending());
            let _other = lobby.enter([10, 0, 0, 2].into());
            let Poll::Ready(Some(frame)) = next() else { panic!("it goes on") };
            assert_eq!(frame.is_ok(), is_grpc);
            if let Ok(frame) = frame {
                let status = Status::from_header_map(frame.trailers_ref().unwrap()).unwrap();
                assert_eq!(Problem::from(&status), made_room());
            }
            assert!(matches!(next(), Poll::Ready(None)));
        }
    }
}
