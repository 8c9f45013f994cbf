//! What is made from files, and made anew when they change: certificates and keys are exchanged without a restart.
//!
//! A file that cannot be read, or is not what it should be, changes nothing: what was there stays, and that is said once and counted.
//!
//! Must not know: what the files are.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

/// Largest file that is read, in bytes.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// The bytes of files, in their order.
pub(crate) type Contents = Vec<Vec<u8>>;
type Make<T> = Box<dyn Fn(&Contents) -> Result<T, String> + Send + Sync>;

/// What is made from files, as it is now.
pub(crate) struct Current<T> {
    what: &'static str,
    files: Vec<PathBuf>,
    make: Make<T>,
    now: RwLock<Arc<T>>,
    renewed: watch::Sender<()>,
    /// What was looked at last, good or not.
    seen: Mutex<Result<Contents, String>>,
}

impl<T> fmt::Debug for Current<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Current")
            .field("what", &self.what)
            .field("files", &self.files)
            .finish_non_exhaustive()
    }
}

impl<T> Current<T> {
    /// Makes it for the first time.
    ///
    /// # Errors
    /// If that cannot be done: there is nothing to stay with.
    pub(crate) fn new(
        what: &'static str,
        files: Vec<PathBuf>,
        make: impl Fn(&Contents) -> Result<T, String> + Send + Sync + 'static,
    ) -> Result<Self, String> {
        let contents = read(&files)?;
        let named = |why: String| {
            let files: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
            format!("{}: {why}", files.join(", "))
        };
        let now = RwLock::new(Arc::new(make(&contents).map_err(named)?));
        let renewed = watch::Sender::new(());
        Ok(Self { what, files, make: Box::new(make), now, renewed, seen: Mutex::new(Ok(contents)) })
    }

    pub(crate) fn get(&self) -> Arc<T> {
        self.now.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Told whenever it was made anew.
    pub(crate) fn renewed(&self) -> watch::Receiver<()> {
        self.renewed.subscribe()
    }
}

/// What came of looking.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Looked {
    /// The files are as they were.
    Same,
    /// They changed, and so did what is made of them.
    Renewed,
    /// They changed, and are of no use.
    Kept(String),
}

/// Something that can be made anew.
pub(crate) trait Reload: Send + Sync {
    /// What it is.
    fn what(&self) -> &'static str;
    /// Looks at its files, and makes it anew if they changed.
    fn look(&self) -> Looked;
}

impl<T: Send + Sync> Reload for Current<T> {
    fn what(&self) -> &'static str {
        self.what
    }

    fn look(&self) -> Looked {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let found = read(&self.files);
        if *seen == found {
            return Looked::Same;
        }
        let made = found.clone().and_then(|contents| (self.make)(&contents));
        *seen = found;
        match made {
            Ok(made) => {
                *self.now.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(made);
                self.renewed.send_replace(());
                Looked::Renewed
            }
            Err(why) => Looked::Kept(why),
        }
    }
}

fn read(files: &[PathBuf]) -> Result<Contents, String> {
    let one = |file: &PathBuf| -> io::Result<Vec<u8>> {
        if std::fs::metadata(file)?.len() > MAX_FILE_BYTES {
            return Err(io::Error::other(format!("is larger than {MAX_FILE_BYTES} bytes")));
        }
        std::fs::read(file)
    };
    files.iter().map(|file| one(file).map_err(|error| format!("{}: {error}", file.display()))).collect()
}

/// What became of looking, counted.
#[derive(Debug, Default)]
pub(crate) struct ReloadCounters {
    pub(crate) renewed: AtomicU64,
    pub(crate) kept: AtomicU64,
}

impl ReloadCounters {
    /// Looks once, and says what came of it.
    pub(crate) fn look(&self, source: &dyn Reload) {
        match source.look() {
            Looked::Same => {}
            Looked::Renewed => {
                self.renewed.fetch_add(1, Relaxed);
                tracing::info!("{} changed, and count from now on", source.what());
            }
            Looked::Kept(why) => {
                self.kept.fetch_add(1, Relaxed);
                tracing::error!("{} changed, and are of no use; those before stay: {why}", source.what());
            }
        }
    }
}

/// Looks at everything now and then, and whenever somebody says so by SIGHUP.
pub(crate) async fn watch(
    sources: Vec<Arc<dyn Reload>>,
    interval: Duration,
    counters: Arc<ReloadCounters>,
    mut closing: watch::Receiver<bool>,
) {
    if sources.is_empty() {
        return;
    }
    // Whoever cannot be told looks by himself.
    let mut told = signal(SignalKind::hangup()).ok();
    loop {
        let hangup = async {
            match &mut told {
                Some(told) => told.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = tokio::time::sleep(interval) => {}
            _ = hangup => {}
            _ = closing.wait_for(|closing| *closing) => return,
        }
        let (sources, counters) = (sources.clone(), counters.clone());
        let looked = move || sources.iter().for_each(|source| counters.look(source.as_ref()));
        if tokio::task::spawn_blocking(looked).await.is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_of_no_use_changes_nothing_and_is_told_once() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("number");
        std::fs::write(&file, "1").unwrap();
        let number = |contents: &Contents| {
            let text = String::from_utf8_lossy(&contents[0]).into_owned();
            text.parse::<u32>().map_err(|_| "no number".to_owned())
        };
        assert!(Current::new("numbers", vec![dir.path().join("nothing")], number).is_err());
        let current = Current::new("numbers", vec![file.clone()], number).unwrap();
        let renewed = current.renewed();
        assert_eq!((*current.get(), current.look()), (1, Looked::Same));
        std::fs::write(&file, "two").unwrap();
        assert_eq!((current.look(), *current.get()), (Looked::Kept("no number".to_owned()), 1));
        assert_eq!(current.look(), Looked::Same);
        std::fs::remove_file(&file).unwrap();
        assert!(matches!(current.look(), Looked::Kept(_)));
        assert_eq!((current.look(), *current.get()), (Looked::Same, 1));
        assert!(!renewed.has_changed().unwrap());
        std::fs::write(&file, "3").unwrap();
        assert_eq!((current.look(), *current.get()), (Looked::Renewed, 3));
        assert!(renewed.has_changed().unwrap());
    }
}
