//! What every call has besides its message: a deadline, and a server that may be about to stop.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::stream::{self, BoxStream, Stream, StreamExt};
use gapless_api::Problem;
use tokio::sync::watch;
use tonic::{Code, Request, Status};

use crate::access::clock::Expiry;
use crate::access::gate::expired;
use crate::audit::Begun;

/// How long a call may take: what its caller allows, or what the server does.
pub(crate) fn patience<T>(request: &Request<T>, most: Duration) -> Duration {
    let told = request.metadata().get("grpc-timeout").and_then(|value| value.to_str().ok());
    told.and_then(timeout).map_or(most, |told| told.min(most))
}

/// A timeout as gRPC writes it: up to eight digits and a unit.
fn timeout(text: &str) -> Option<Duration> {
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    if digits.len() > 8 || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    let count: u64 = digits.parse().ok()?;
    match unit {
        "H" => Some(Duration::from_secs(count * 3600)),
        "M" => Some(Duration::from_secs(count * 60)),
        "S" => Some(Duration::from_secs(count)),
        "m" => Some(Duration::from_millis(count)),
        "u" => Some(Duration::from_micros(count)),
        "n" => Some(Duration::from_nanos(count)),
        _ => None,
    }
}

/// Items between two looks at whether a stream is over, if they come without a pause.
const ITEMS_BETWEEN_LOOKS: u32 = 64;

/// A stream that ends with a problem once something has happened.
struct Until<S, E> {
    /// None when it is over.
    going_on: Option<(S, E)>,
    problem: fn() -> Problem,
    unlooked: u32,
}

impl<S, E> Until<S, E> {
    fn new(items: S, end: E, problem: fn() -> Problem) -> Self {
        Self { going_on: Some((items, end)), problem, unlooked: ITEMS_BETWEEN_LOOKS }
    }
}

impl<T, S, E> Stream for Until<S, E>
where
    S: Stream<Item = Result<T, Problem>> + Unpin,
    E: Future<Output = ()> + Unpin,
{
    type Item = Result<T, Problem>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        let Some((items, end)) = &mut this.going_on else { return Poll::Ready(None) };
        // Not for every item: looking costs as much as many of them.
        let is_due = this.unlooked >= ITEMS_BETWEEN_LOOKS;
        let item = if is_due { Poll::Pending } else { items.poll_next_unpin(context) };
        if item.is_pending() {
            this.unlooked = 0;
            if end.poll_unpin(context).is_ready() {
                this.going_on = None;
                return Poll::Ready(Some(Err((this.problem)())));
            }
        }
        let item = if is_due { items.poll_next_unpin(context) } else { item };
        this.unlooked += 1;
        if let Poll::Ready(None) = &item {
            this.going_on = None;
        }
        item
    }
}

/// A stream that ends with a problem when the server stops.
fn until_closing<T: Send + 'static>(
    items: impl Stream<Item = Result<T, Problem>> + Send + 'static,
    mut closing: watch::Receiver<bool>,
) -> BoxStream<'static, Result<T, Problem>> {
    let closed = Box::pin(async move {
        let _ = closing.wait_for(|closing| *closing).await;
    });
    Until::new(items.boxed(), closed, Problem::shutting_down).boxed()
}

/// The same, which also ends when the credential of whoever asked is void.
pub(crate) fn until_over<T: Send + 'static>(
    items: impl Stream<Item = Result<T, Problem>> + Send + 'static,
    closing: watch::Receiver<bool>,
    expires: Option<Expiry>,
) -> BoxStream<'static, Result<T, Problem>> {
    until_closing(until_void(items, expires), closing)
}

/// A stream that ends with a problem when a credential is void.
pub(crate) fn until_void<T: Send + 'static>(
    items: impl Stream<Item = Result<T, Problem>> + Send + 'static,
    expires: Option<Expiry>,
) -> BoxStream<'static, Result<T, Problem>> {
    let Some(expires) = expires else { return items.boxed() };
    Until::new(items.boxed(), Box::pin(expires.over()), expired).boxed()
}

/// A stream that is an action: when it ends, that is written down before whoever asked is told.
pub(crate) fn to_its_end<T: Send + 'static>(
    items: BoxStream<'static, Result<T, Problem>>,
    begun: Begun,
) -> BoxStream<'static, Result<T, Problem>> {
    stream::unfold((items, Some(begun)), |(mut items, mut begun)| async move {
        let item = items.next().await;
        let problem = match &item {
            Some(Ok(_)) => return Some((item?, (items, begun))),
            Some(Err(problem)) => Some(problem),
            None => None,
        };
        if let Some(begun) = begun.take() {
            begun.ended(problem).await;
        }
        Some((item?, (items, begun)))
    })
    .boxed()
}

/// Why a request of a stream could not be read: what it was is the fault of whoever sent it.
pub(crate) fn unread(status: &Status) -> Problem {
    match status.code() {
        Code::Internal | Code::OutOfRange => Problem::violation("message", status.message()),
        _ => Problem::from(status),
    }
}

/// What a service sends one by one.
pub(crate) type Sent<T> = BoxStream<'static, Result<T, Status>>;

/// Problems as statuses.
pub(crate) fn sent<T: Send + 'static>(
    items: impl Stream<Item = Result<T, Problem>> + Send + 'static,
) -> Sent<T> {
    items.map(|item| item.map_err(Status::from)).boxed()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::clock::Clock;

    #[tokio::test]
    async fn a_stream_that_never_pauses_ends_when_the_server_stops() {
        let (sender, closing) = watch::channel(false);
        let mut endless = until_closing(stream::repeat_with(|| Ok(1)), closing);
        assert_eq!(endless.next().await, Some(Ok(1)));
        sender.send_replace(true);
        let mut more = 0;
        let problem = loop {
            match endless.next().await.unwrap() {
                Ok(_) => more += 1,
                Err(problem) => break problem,
            }
        };
        assert!(more <= ITEMS_BETWEEN_LOOKS, "{more} items");
        assert_eq!(problem, Problem::shutting_down());
        assert!(endless.next().await.is_none());
        // One that pauses ends at once, and one that ends is over.
        let (sender, closing) = watch::channel(false);
        let mut silent = until_closing(stream::pending::<Result<u8, Problem>>(), closing.clone());
        assert!(silent.next().now_or_never().is_none());
        sender.send_replace(true);
        assert_eq!(silent.next().await, Some(Err(Problem::shutting_down())));
        let (_sender, closing) = watch::channel(false);
        let mut short = until_closing(stream::iter([Ok(1)]), closing);
        assert_eq!((short.next().await, short.next().await, short.next().await), (Some(Ok(1)), None, None));
    }

    #[tokio::test]
    async fn a_stream_ends_when_the_credential_it_began_with_is_void() {
        let silent = stream::pending::<Result<u8, Problem>>();
        let clock = Clock::default();
        let mut over = until_void(silent, Some(Expiry::new(clock.now().saturating_sub(1), &clock)));
        assert_eq!(over.next().await.unwrap().unwrap_err().reason, "TOKEN_EXPIRED");
        assert!(over.next().await.is_none());
        let mut lasting = until_void(stream::iter([Ok(1)]), None);
        assert_eq!(lasting.next().await, Some(Ok(1)));
    }

    #[test]
    fn a_timeout_has_digits_and_a_unit() {
        assert_eq!(timeout("250m"), Some(Duration::from_millis(250)));
        assert_eq!(timeout("99999999H"), Some(Duration::from_secs(99_999_999 * 3600)));
        assert_eq!(timeout("1n"), Some(Duration::from_nanos(1)));
        for text in ["", "5", "m", "-1m", "123456789S", "5x", "5é"] {
            assert_eq!(timeout(text).filter(|_| text != "m"), None, "{text}");
        }
    }
}
