//! Notes what happens in a cluster of one process: every message with the time it was sent at, every answer, every outcome.

use std::fmt::Debug;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use gapless_consensus::message::{AppendRequest, Request, Response, Vote};
use gapless_consensus::network::switchboard::Switchboard;
use gapless_consensus::network::{Answers, Link, LinkError, Network, Route, SnapshotStream};

/// What happened, in order; nothing unless it records. Clones are the same.
#[derive(Clone, Debug, Default)]
pub(crate) struct Trace(Option<Arc<Mutex<Noted>>>);

#[derive(Debug, Default)]
struct Noted {
    began: Option<tokio::time::Instant>,
    lines: Vec<String>,
}

impl Trace {
    pub(crate) fn recording() -> Self {
        Self(Some(Arc::default()))
    }

    pub(crate) fn note(&self, what: &str, said: &impl Debug) {
        let Some(noted) = &self.0 else { return };
        let mut noted = noted.lock().unwrap();
        let began = *noted.began.get_or_insert_with(tokio::time::Instant::now);
        noted.lines.push(format!("{:?} {what} {said:?}", began.elapsed()));
    }

    pub(crate) fn lines(&self) -> Vec<String> {
        self.0.as_ref().map(|noted| noted.lock().unwrap().lines.clone()).unwrap_or_default()
    }
}

/// A switchboard that notes what goes over it.
pub(crate) struct Traced {
    pub(crate) board: Switchboard,
    pub(crate) trace: Trace,
}

impl Network for Traced {
    fn connect(&self, route: Route) -> Box<dyn Link> {
        let name = format!("{}>{} {:?}", route.from, route.to, route.channel);
        Box::new(TracedLink { link: self.board.connect(route), name, trace: self.trace.clone() })
    }
}

struct TracedLink {
    link: Box<dyn Link>,
    name: String,
    trace: Trace,
}

impl TracedLink {
    fn noting<T: Debug>(&self) -> impl Fn(&T) + Send + use<T> {
        let (name, trace) = (self.name.clone(), self.trace.clone());
        move |said| trace.note(&name, said)
    }
}

impl Link for TracedLink {
    fn call(&mut self, request: Request, patience: Duration) -> BoxFuture<'_, Result<Response, LinkError>> {
        self.trace.note(&self.name, &request);
        Box::pin(async move {
            let answer = self.link.call(request, patience).await;
            self.trace.note(&self.name, &answer);
            answer
        })
    }

    fn append(
        &mut self,
        requests: BoxStream<'static, AppendRequest>,
        patience: Duration,
    ) -> BoxFuture<'_, Result<Answers<'_>, LinkError>> {
        let requests = requests.inspect(self.noting()).boxed();
        let noting = self.noting();
        Box::pin(async move { Ok(self.link.append(requests, patience).await?.inspect(noting).boxed()) })
    }

    fn send_snapshot(
        &mut self,
        vote: Vote,
        snapshot: SnapshotStream,
    ) -> BoxFuture<'_, Result<Vote, LinkError>> {
        self.trace.note(&self.name, &vote);
        Box::pin(async move {
            let answer = self.link.send_snapshot(vote, snapshot).await;
            self.trace.note(&self.name, &answer);
            answer
        })
    }
}
