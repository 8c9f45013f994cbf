//! What is written to a connection in one moment, in one piece.
//!
//! An answer is written by the task of its connection, which would run as soon as the first one is there, and be woken again for the next.
//! It lets whoever is ready go first, so that answers which come together share a write and a packet. Nobody waits for anything that is
//! not ready.
//!
//! Must not know: what is written.

use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// What comes behind so much is more of the same answer: nobody else has something to add to it.
const MUCH: usize = 4 << 10;

/// A connection.
#[derive(Debug)]
pub(crate) struct Together<S> {
    stream: S,
    /// Others went first since the last flush.
    has_yielded: bool,
    /// Bytes since the last flush.
    written: usize,
}

impl<S> Together<S> {
    pub(crate) fn new(stream: S) -> Self {
        Self { stream, has_yielded: false, written: 0 }
    }

    /// Lets the others go first, once for everything that is flushed together.
    fn yields(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if std::mem::replace(&mut self.has_yielded, true) {
            return Poll::Ready(());
        }
        // To be woken when whoever is ready now has gone. It need not be asked again.
        pin!(tokio::task::yield_now()).poll(context)
    }

    fn count(&mut self, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if let Poll::Ready(Ok(bytes)) = &written {
            self.written = self.written.saturating_add(*bytes);
        }
        written
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

impl<S: AsyncWrite + Unpin> AsyncWrite for Together<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        ready!(self.yields(context));
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.count(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        ready!(self.yields(context));
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, parts);
        self.count(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.stream).poll_flush(context))?;
        self.has_yielded = std::mem::take(&mut self.written) >= MUCH;
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::Mutex;

    use tokio::io::AsyncWriteExt;

    use super::*;

    /// Notes how many bytes each write had.
    #[derive(Clone, Debug, Default)]
    struct Pieces(Arc<Mutex<Vec<usize>>>);

    impl AsyncWrite for Pieces {
        fn poll_write(
            self: Pin<&mut Self>,
            _context: &mut Context<'_>,
            bytes: &[u8],
        ) -> Poll<io::Result<usize>> {
            self.0.lock().unwrap().push(bytes.len());
            Poll::Ready(Ok(bytes.len()))
        }

        fn poll_flush(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    #[tokio::test]
    async fn whoever_is_ready_adds_to_what_is_written_in_one_piece() {
        let pieces = Pieces::default();
        let (answers, mut ready) = tokio::sync::mpsc::channel::<u8>(8);
        // A connection that takes what is there whenever it may write, as one of HTTP/2 does.
        let mut stream = Together::new(pieces.clone());
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
        assert_eq!(*pieces.0.lock().unwrap(), [5, 1]);
    }

    #[tokio::test]
    async fn more_of_a_long_answer_waits_for_nobody() {
        let pieces = Pieces::default();
        let mut stream = Together::new(pieces.clone());
        let long = [7; MUCH];
        let writes = |stream: &mut Together<Pieces>| {
            let mut context = Context::from_waker(std::task::Waker::noop());
            Pin::new(stream).poll_write(&mut context, &long).is_ready()
        };
        assert!(!writes(&mut stream), "the first piece lets others go first");
        for _ in 0..3 {
            assert!(writes(&mut stream));
            stream.flush().await.unwrap();
        }
        assert!(writes(&mut stream));
        stream.flush().await.unwrap();
        // A short one ends it.
        stream.write_all(&[7]).await.unwrap();
        stream.flush().await.unwrap();
        assert!(!writes(&mut stream));
    }
}
