//! What is written to a connection in one moment, in one piece: of a server's answers, and of a client's requests.
//!
//! A connection is written to by a task of its own, which would run as soon as the first message is there, and be woken again for the
//! next; of HTTP/2, already the head and the body of a message are two. It lets whoever is ready go first, so that what comes together
//! shares a write and a packet. Nobody waits for anything that is not ready.
//!
//! Must not know: what is written.

use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker, ready};

use futures_util::task::AtomicWaker;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// What comes behind so much is more of the same message: nobody else has something to add to it.
const MUCH: usize = 16 << 10;
/// What is less than this is copied and waits for the rest; the rest of a long message is sent from where it is.
const LITTLE: usize = 4 << 10;
/// What waits for the rest at most.
const MOST_HELD: usize = 32 << 10;

/// Flushes of a handshake. What it writes is not held up: its last word may be an alert that nobody comes back for.
const HANDSHAKE: u8 = 2;

/// A connection.
#[derive(Debug)]
pub struct Together<S> {
    stream: S,
    /// Taken and not written yet, from `held_from` on.
    held: Vec<u8>,
    held_from: usize,
    /// Whether others went first since the last flush.
    turn: Turn,
    /// Bytes since the last flush.
    taken: usize,
    /// Flushes so far, as far as they are those of a handshake.
    flushes: u8,
}

/// Lets the others go first, once for everything that is flushed together.
#[derive(Debug, Default)]
struct Turn {
    state: TurnState,
    call: Arc<Call>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum TurnState {
    #[default]
    Unasked,
    Waits,
    Ours,
}

/// Says that whoever was ready has gone. Whoever asks before is not let through, however often he asks: TLS does so at once.
#[derive(Debug, Default)]
struct Call {
    came: AtomicBool,
    waker: AtomicWaker,
}

impl Wake for Call {
    fn wake(self: Arc<Self>) {
        self.came.store(true, Ordering::Release);
        self.waker.wake();
    }
}

impl Turn {
    fn poll(&mut self, context: &Context<'_>) -> Poll<()> {
        if self.state == TurnState::Ours {
            return Poll::Ready(());
        }
        self.call.waker.register(context.waker());
        if self.state == TurnState::Unasked {
            self.state = TurnState::Waits;
            self.call.came.store(false, Ordering::Release);
            let called = Waker::from(self.call.clone());
            // It need not be asked again.
            let _ = pin!(tokio::task::yield_now()).poll(&mut Context::from_waker(&called));
        }
        if self.call.came.load(Ordering::Acquire) {
            self.state = TurnState::Ours;
            return Poll::Ready(());
        }
        Poll::Pending
    }
}

impl<S> Together<S> {
    /// A connection to which nothing was written yet.
    pub fn new(stream: S) -> Self {
        Self { stream, held: Vec::new(), held_from: 0, turn: Turn::default(), taken: 0, flushes: 0 }
    }

    /// Whether so many bytes wait for what comes behind them.
    fn holds(&self, bytes: usize) -> bool {
        self.flushes == HANDSHAKE && bytes < LITTLE && self.held.len() + bytes <= MOST_HELD
    }

    /// What was held is written.
    fn let_go(&mut self) {
        self.held.clear();
        self.held_from = 0;
        // A connection that rests keeps little.
        if self.held.capacity() > LITTLE {
            self.held = Vec::new();
        }
    }

    fn take(&mut self, bytes: usize) -> Poll<io::Result<usize>> {
        self.taken = self.taken.saturating_add(bytes);
        Poll::Ready(Ok(bytes))
    }
}

impl<S: AsyncWrite + Unpin> Together<S> {
    /// Writes what is held, and `bytes` behind it; how many of these were written. None of them only if there are none.
    fn poll_write_behind(&mut self, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        while !self.held.is_empty() {
            let held = &self.held[self.held_from..];
            let both = [io::IoSlice::new(held), io::IoSlice::new(bytes)];
            let written = ready!(Pin::new(&mut self.stream).poll_write_vectored(context, &both))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            let left = held.len().saturating_sub(written);
            let of_bytes = written.saturating_sub(held.len());
            self.held_from += written - of_bytes;
            if left == 0 {
                self.let_go();
            }
            if of_bytes > 0 {
                return Poll::Ready(Ok(of_bytes));
            }
        }
        if bytes.is_empty() {
            return Poll::Ready(Ok(0));
        }
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Together<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

/// Not vectored, so that whoever writes puts small pieces side by side himself.
impl<S: AsyncWrite + Unpin> AsyncWrite for Together<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.flushes == HANDSHAKE {
            ready!(self.turn.poll(context));
        }
        if self.holds(bytes.len()) {
            self.held.extend_from_slice(bytes);
            return self.take(bytes.len());
        }
        let written = ready!(self.poll_write_behind(context, bytes))?;
        self.take(written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_write_behind(context, &[]))?;
        ready!(Pin::new(&mut self.stream).poll_flush(context))?;
        let is_long = std::mem::take(&mut self.taken) >= MUCH;
        match self.turn.state {
            TurnState::Waits => {}
            TurnState::Unasked | TurnState::Ours if is_long => self.turn.state = TurnState::Ours,
            TurnState::Unasked | TurnState::Ours => self.turn.state = TurnState::Unasked,
        }
        self.flushes = HANDSHAKE.min(self.flushes + 1);
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_write_behind(context, &[]))?;
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use tokio::io::AsyncWriteExt;

    use super::*;

    /// Notes what each write had.
    #[derive(Clone, Debug, Default)]
    struct Pieces(Arc<Mutex<Vec<Vec<u8>>>>);

    impl Pieces {
        fn lengths(&self) -> Vec<usize> {
            self.0.lock().unwrap().iter().map(Vec::len).collect()
        }
    }

    impl AsyncWrite for Pieces {
        fn poll_write(
            self: Pin<&mut Self>,
            _context: &mut Context<'_>,
            bytes: &[u8],
        ) -> Poll<io::Result<usize>> {
            self.0.lock().unwrap().push(bytes.to_vec());
            Poll::Ready(Ok(bytes.len()))
        }

        fn poll_write_vectored(
            self: Pin<&mut Self>,
            context: &mut Context<'_>,
            parts: &[io::IoSlice<'_>],
        ) -> Poll<io::Result<usize>> {
            let whole: Vec<u8> = parts.iter().flat_map(|part| part.iter().copied()).collect();
            self.poll_write(context, &whole)
        }

        fn poll_flush(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    /// A connection whose handshake is over.
    async fn together(pieces: &Pieces) -> Together<Pieces> {
        let mut stream = Together::new(pieces.clone());
        for _ in 0..HANDSHAKE {
            stream.flush().await.unwrap();
        }
        stream
    }

    fn writes(stream: &mut Together<Pieces>, bytes: &[u8]) -> bool {
        let mut context = Context::from_waker(std::task::Waker::noop());
        Pin::new(stream).poll_write(&mut context, bytes).is_ready()
    }

    #[tokio::test]
    async fn whoever_is_ready_adds_to_what_is_written_in_one_piece() {
        let pieces = Pieces::default();
        let (answers, mut ready) = tokio::sync::mpsc::channel::<u8>(8);
        // A connection that takes what is there whenever it may write, as one of HTTP/2 does.
        let mut stream = together(&pieces).await;
        let connection = tokio::spawn(async move {
            let mut buffer = Vec::new();
            while let Some(answer) = ready.recv().await {
                buffer.push(answer);
                std::future::poll_fn(|context| {
                    while let Ok(answer) = ready.try_recv() {
                        buffer.push(answer);
                    }
                    Pin::new(&mut stream).poll_write(context, &buffer)
                })
                .await
                .unwrap();
                buffer.clear();
                stream.flush().await.unwrap();
            }
        });
        let tasks: Vec<_> = (0..5)
            .map(|number| {
                let answers = answers.clone();
                tokio::spawn(async move { answers.send(number).await.unwrap() })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        // One that comes alone waits for nobody.
        tokio::task::yield_now().await;
        answers.send(5).await.unwrap();
        drop(answers);
        connection.await.unwrap();
        assert_eq!(pieces.lengths(), [5, 1]);
    }

    #[tokio::test]
    async fn more_of_a_long_message_waits_for_nobody() {
        let pieces = Pieces::default();
        let mut stream = together(&pieces).await;
        let long = [7; MUCH];
        assert!(!writes(&mut stream, &long), "the first piece lets others go first");
        assert!(!writes(&mut stream, &long), "however often it asks");
        stream.flush().await.unwrap();
        assert!(!writes(&mut stream, &long), "and whatever it does meanwhile");
        tokio::task::yield_now().await;
        for _ in 0..3 {
            assert!(writes(&mut stream, &long));
            stream.flush().await.unwrap();
        }
        assert!(writes(&mut stream, &long));
        stream.flush().await.unwrap();
        // A short one ends it.
        stream.write_all(&[7]).await.unwrap();
        stream.flush().await.unwrap();
        assert!(!writes(&mut stream, &long));
    }

    #[tokio::test]
    async fn small_pieces_share_a_write_and_large_ones_stay_where_they_are() {
        let pieces = Pieces::default();
        let mut stream = together(&pieces).await;
        let large = [2; LITTLE];
        for piece in [&[1; 9][..], &large, &[3; 100], &[4; 100]] {
            stream.write_all(piece).await.unwrap();
        }
        assert_eq!(pieces.lengths(), [9 + LITTLE]);
        stream.flush().await.unwrap();
        stream.flush().await.unwrap();
        assert_eq!(pieces.lengths(), [9 + LITTLE, 200]);
        // More of them than may wait.
        for _ in 0..100 {
            stream.write_all(&[5; 1000]).await.unwrap();
        }
        assert_eq!(pieces.lengths()[2..], [33_000, 33_000, 33_000]);
        stream.write_all(&[6]).await.unwrap();
        stream.shutdown().await.unwrap();
        assert_eq!(pieces.lengths()[5..], [1001]);
        let whole: Vec<u8> = pieces.0.lock().unwrap().concat();
        let expected = [&[1; 9][..], &large, &[3; 100], &[4; 100], &[5; 100_000], &[6]].concat();
        assert!(whole == expected, "nothing is lost, nothing comes twice");
    }

    #[tokio::test]
    async fn what_a_handshake_writes_is_not_held_up() {
        let pieces = Pieces::default();
        let mut stream = Together::new(pieces.clone());
        assert!(writes(&mut stream, b"hello"));
        assert_eq!(pieces.lengths(), [5]);
        stream.flush().await.unwrap();
        assert!(writes(&mut stream, b"alert"), "nobody comes back for it");
        assert_eq!(pieces.lengths(), [5, 5]);
        stream.flush().await.unwrap();
        assert!(!writes(&mut stream, b"request"));
    }

    #[tokio::test]
    async fn however_little_a_connection_takes_at_once_it_gets_everything_in_order() {
        let mut random = fastrand::Rng::with_seed(7);
        let (near, mut far) = tokio::io::duplex(100);
        let sent: Vec<u8> = std::iter::repeat_with(|| random.u8(..)).take(200_000).collect();
        let expected = sent.clone();
        let sender = tokio::spawn(async move {
            let mut stream = Together::new(near);
            let mut left = &sent[..];
            while !left.is_empty() {
                let most = if random.bool() { 300 } else { 10_000 };
                let (piece, rest) = left.split_at(left.len().min(random.usize(1..most)));
                stream.write_all(piece).await.unwrap();
                if random.u8(..4) == 0 {
                    stream.flush().await.unwrap();
                }
                left = rest;
            }
            stream.shutdown().await.unwrap();
        });
        let mut received = Vec::new();
        tokio::io::AsyncReadExt::read_to_end(&mut far, &mut received).await.unwrap();
        sender.await.unwrap();
        assert!(received == expected);
    }
}
