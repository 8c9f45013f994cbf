//! A stream that knows whether the other side has spoken. Which protocol somebody speaks is found out from his first bytes, and
//! nothing else limits how long he may take for them.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// As many bytes as tell HTTP/2 from everything else.
const ENOUGH: usize = 24;

/// A connection whose first bytes are counted.
#[derive(Debug)]
pub(crate) struct Watched<S> {
    stream: S,
    read: Arc<AtomicUsize>,
}

/// Whether a connection has said what it is.
#[derive(Debug)]
pub(crate) struct Spoke(Arc<AtomicUsize>);

impl Spoke {
    /// It has.
    pub(crate) fn enough(&self) -> bool {
        self.0.load(Ordering::Relaxed) >= ENOUGH
    }
}

impl<S> Watched<S> {
    pub(crate) fn new(stream: S) -> (Self, Spoke) {
        let read = Arc::new(AtomicUsize::new(0));
        (Self { stream, read: read.clone() }, Spoke(read))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(context, buffer);
        if self.read.load(Ordering::Relaxed) < ENOUGH {
            self.read.fetch_add(buffer.filled().len() - before, Ordering::Relaxed);
        }
        polled
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Watched<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
