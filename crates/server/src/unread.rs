//! A connection of which nothing is read at the other end: what is written to it stays here, and after a while it is broken off.
//!
//! Of HTTP/2 alone. There, whoever does not want an answer yet says so in frames of his own, and goes on reading his connection; he has
//! pings to answer as well, which do not reach somebody who reads nothing. Of HTTP/1, not reading is the only way to say that one is slow.
//!
//! Must not know: what is written.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

/// How every connection of HTTP/2 begins, and no request of HTTP/1.
const PREFACE: &[u8] = b"PRI ";

/// A connection.
#[derive(Debug)]
pub(crate) struct Unread<S> {
    stream: S,
    patience: Duration,
    begins: Begins,
    /// Made when something cannot be written; gone when something could.
    alarm: Option<Pin<Box<Sleep>>>,
}

/// What the first bytes say.
#[derive(Debug, PartialEq, Eq)]
enum Begins {
    /// Nothing else yet than so many bytes of the preface.
    Here(usize),
    Http2,
    Other,
}

impl Begins {
    fn after(&mut self, bytes: &[u8]) {
        for byte in bytes {
            let Self::Here(here) = self else { return };
            *self = match PREFACE.get(*here) == Some(byte) {
                true if *here + 1 == PREFACE.len() => Self::Http2,
                true => Self::Here(*here + 1),
                false => Self::Other,
            };
        }
    }
}

impl<S> Unread<S> {
    pub(crate) fn new(stream: S, patience: Duration) -> Self {
        Self { stream, patience, begins: Begins::Here(0), alarm: None }
    }

    /// What came of writing, or that it was tried for too long.
    fn in_time<T>(&mut self, written: Poll<io::Result<T>>, context: &mut Context<'_>) -> Poll<io::Result<T>> {
        if written.is_ready() || self.begins != Begins::Http2 {
            self.alarm = None;
            return written;
        }
        let patience = self.patience;
        let alarm = self.alarm.get_or_insert_with(|| Box::pin(tokio::time::sleep(patience)));
        match alarm.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Unread<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        self.begins.after(&buffer.filled()[before..]);
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Unread<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.in_time(written, context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, parts);
        self.in_time(written, context)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        self.in_time(flushed, context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let shut = Pin::new(&mut self.stream).poll_shutdown(context);
        self.in_time(shut, context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(10);

    /// A connection that began like this, and its other end.
    async fn began(bytes: &[u8]) -> (Unread<tokio::io::DuplexStream>, tokio::io::DuplexStream) {
        let (here, mut there) = tokio::io::duplex(64);
        let mut unread = Unread::new(here, PATIENCE);
        for byte in bytes {
            there.write_u8(*byte).await.unwrap();
            assert_eq!(unread.read_u8().await.unwrap(), *byte);
        }
        (unread, there)
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_of_http2_that_takes_nothing_for_long_is_broken_off() {
        let (mut unread, _there) = began(b"PRI * HTTP/2.0").await;
        let begun = tokio::time::Instant::now();
        let broken = unread.write_all(&[7; 65]).await.unwrap_err();
        assert_eq!((broken.kind(), begun.elapsed()), (io::ErrorKind::TimedOut, PATIENCE));

        // Whoever takes a little now and then is slow, and no more.
        let (mut unread, mut slow) = began(b"PRI * HTTP/2.0").await;
        let reading = tokio::spawn(async move {
            for _ in 0..200 {
                tokio::time::sleep(PATIENCE / 2).await;
                slow.read_u8().await.unwrap();
            }
        });
        unread.write_all(&[7; 263]).await.unwrap();
        reading.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn one_of_http1_is_waited_for() {
        for begins in [&b"GET / HTTP/1.1"[..], b"PRINT / HTTP/1.1", b"P", b""] {
            let (mut unread, _there) = began(begins).await;
            let writing = tokio::time::timeout(PATIENCE * 100, unread.write_all(&[7; 65]));
            assert!(writing.await.is_err(), "{begins:?}");
        }
    }
}
