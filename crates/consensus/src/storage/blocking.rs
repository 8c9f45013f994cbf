//! Where a disk is waited for: never on a thread that runs tasks, if the log has threads.
//!
//! A log without threads ([`Drive::Caller`]) lies on a disk that makes nobody wait, and whoever drives it wants everything to happen in
//! one order: there the work is done where it is asked for.
//!
//! Must not know: what is read.

use gapless_log::Drive;

/// Does something that may wait for a disk.
pub(crate) async fn blocking<T, Work>(drive: Drive, work: Work) -> T
where
    T: Send + 'static,
    Work: FnOnce() -> T + Send + 'static,
{
    if drive == Drive::Caller {
        return work();
    }
    match tokio::task::spawn_blocking(work).await.map_err(tokio::task::JoinError::try_into_panic) {
        Ok(done) => done,
        Err(Ok(panic)) => std::panic::resume_unwind(panic),
        // The runtime ends, and whoever waits here with it.
        Err(Err(_)) => std::future::pending().await,
    }
}
