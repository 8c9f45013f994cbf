//! What was read for somebody and is not sent yet: there is room for so much of it, in all and for one client, and whoever has no more
//! room waits before more is read for him.
//!
//! ```text
//!  room for the most that a reading can be ──▶ read ──▶ as much as it was ──▶ handed out, and counted by whoever sends it ──▶ sent
//! ```
//!
//! Invariants
//! - Room is taken before there is something to put into it. So it is not exceeded by many who read at once.
//! - Whoever waits for room has nothing that would only be given back once he has got it. So what is taken by those who are read from is
//!   given back sooner or later.
//! - For a client of whom nothing is here there is always room, whatever others have: nobody waits because somebody else does not read.
//!
//! Must not know: who the clients are, what is read, how it is sent.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use tokio::sync::{Mutex, Notify};

use crate::problem::{Problem, ProblemKind};

/// When to come back.
const SOON: Duration = Duration::from_millis(100);

/// Room for what all clients together have.
#[derive(Clone, Debug)]
pub struct UnsentLimit(Arc<All>);

#[derive(Debug)]
struct All {
    most: usize,
    room: Counted,
}

/// Bytes, and who waits until there are fewer.
#[derive(Debug, Default)]
struct Counted {
    bytes: AtomicUsize,
    waiting: AtomicUsize,
    fewer: Notify,
}

/// What one client has. Clones are of the same client.
#[derive(Clone, Debug)]
pub struct Unsent(Arc<Share>);

#[derive(Debug)]
struct Share {
    all: Arc<All>,
    room: Counted,
    /// Whoever is next to get room: the others wait behind him, in the order in which they came.
    turn: Mutex<()>,
}

/// Bytes that are here. Dropped, they are not.
#[derive(Debug)]
pub struct Held {
    of: Unsent,
    bytes: usize,
}

impl UnsentLimit {
    /// Room for so many bytes, half of them of one client.
    pub fn new(most: usize) -> Self {
        Self(Arc::new(All { most, room: Counted::default() }))
    }

    /// A client of whom nothing is here.
    pub fn client(&self) -> Unsent {
        Unsent(Arc::new(Share { all: self.0.clone(), room: Counted::default(), turn: Mutex::default() }))
    }

    /// How many bytes there are.
    pub fn bytes(&self) -> usize {
        self.0.room.bytes.load(SeqCst)
    }
}

impl Default for Unsent {
    /// For whoever reads in this process, and takes what he reads.
    fn default() -> Self {
        UnsentLimit::new(usize::MAX).client()
    }
}

impl Unsent {
    /// Room for so many bytes, as soon as there is.
    pub async fn room(&self, bytes: usize) -> Held {
        let _turn = self.0.turn.lock().await;
        let (own, all) = (&self.0.room, &self.0.all.room);
        loop {
            // Waiting begins before looking, so that nothing is given back between the two.
            let (own_waits, all_waits) = (Waits::begin(own), Waits::begin(all));
            let (own_fewer, all_fewer) = (own.fewer.notified(), all.fewer.notified());
            match self.take(bytes) {
                Ok(held) => return held,
                // What others give back is of no use.
                Err(Full::Own) => {
                    drop((all_waits, all_fewer));
                    own_fewer.await;
                }
                Err(Full::All) => {
                    tokio::select! {
                        () = own_fewer => {}
                        () = all_fewer => {}
                    }
                }
            }
            drop(own_waits);
        }
    }

    /// Room for so many bytes, if there is and nobody waits for it.
    pub fn room_now(&self, bytes: usize) -> Option<Held> {
        let _turn = self.0.turn.try_lock().ok()?;
        self.take(bytes).ok()
    }

    /// Room for so many bytes, unless it has to be waited for too long.
    ///
    /// # Errors
    /// If nothing was given back in time.
    pub(crate) async fn room_within(&self, bytes: usize, patience: Duration) -> Result<Held, Problem> {
        let room = tokio::time::timeout(patience, self.room(bytes)).await;
        room.map_err(|_| {
            let message = "too much of what this client asked for is not read yet: read it, or ask for less at one time";
            let problem = Problem::new(ProblemKind::Exhausted, "TOO_MANY_BYTES", message);
            problem.with("limit", "response_bytes").with("maximum", self.0.all.most / 2).after(SOON)
        })
    }

    /// So many bytes are here that nobody was asked about: they were, and have another form now.
    pub fn hold(&self, bytes: usize) -> Held {
        self.0.room.bytes.fetch_add(bytes, SeqCst);
        self.0.all.room.bytes.fetch_add(bytes, SeqCst);
        Held { of: self.clone(), bytes }
    }

    /// Whether nothing of this client is here.
    pub fn is_nothing(&self) -> bool {
        self.0.room.bytes.load(SeqCst) == 0
    }

    fn take(&self, bytes: usize) -> Result<Held, Full> {
        let has = self.0.room.bytes.load(SeqCst);
        if has == 0 {
            return Ok(self.hold(bytes));
        }
        let most = self.0.all.most;
        if has.saturating_add(bytes) > most / 2 {
            return Err(Full::Own);
        }
        let fits = |all: usize| all.checked_add(bytes).filter(|all| *all <= most);
        if self.0.all.room.bytes.fetch_update(SeqCst, SeqCst, fits).is_err() {
            return Err(Full::All);
        }
        self.0.room.bytes.fetch_add(bytes, SeqCst);
        Ok(Held { of: self.clone(), bytes })
    }
}

/// Where there is no room.
enum Full {
    Own,
    All,
}

/// Somebody waits until there are fewer bytes.
struct Waits<'a>(&'a Counted);

impl<'a> Waits<'a> {
    fn begin(counted: &'a Counted) -> Self {
        counted.waiting.fetch_add(1, SeqCst);
        Self(counted)
    }
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, SeqCst);
    }
}

impl Counted {
    fn give_back(&self, bytes: usize) {
        self.bytes.fetch_sub(bytes, SeqCst);
        if self.waiting.load(SeqCst) > 0 {
            self.fewer.notify_waiters();
        }
    }
}

impl Held {
    /// Only so many of them are here; the others were never, or are not any more.
    pub fn keep(&mut self, bytes: usize) {
        let kept = bytes.min(self.bytes);
        self.give_back(self.bytes - kept);
        self.bytes = kept;
    }

    fn give_back(&self, bytes: usize) {
        if bytes > 0 {
            self.of.0.room.give_back(bytes);
            self.of.0.all.room.give_back(bytes);
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.give_back(self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    fn now(client: &Unsent, bytes: usize) -> Option<Held> {
        client.room(bytes).now_or_never()
    }

    #[tokio::test]
    async fn one_client_has_half_and_waits_for_what_it_has_itself() {
        let limit = UnsentLimit::new(100);
        let (greedy, other) = (limit.client(), limit.client());
        let mut first = now(&greedy, 40).unwrap();
        let second = now(&greedy, 10).unwrap();
        let mut third = looked_at(greedy.room(10));
        assert!(third.as_mut().now_or_never().is_none(), "it has half of all");
        let well = now(&other, 40).unwrap();
        drop(well);
        assert!(third.as_mut().now_or_never().is_none(), "what others give back is not for it");
        first.keep(30);
        drop(third.now_or_never().unwrap());
        assert_eq!(limit.bytes(), 40);
        drop((first, second));
        assert!(limit.bytes() == 0 && greedy.is_nothing());
    }

    #[tokio::test]
    async fn whoever_has_nothing_is_let_through_and_whoever_has_something_waits_until_there_is_room() {
        let limit = UnsentLimit::new(100);
        let [one, two, three] = [(); 3].map(|()| limit.client());
        let full = (now(&one, 50).unwrap(), now(&two, 50).unwrap());
        let held = now(&three, 20).unwrap();
        assert_eq!(limit.bytes(), 120);
        let mut more = looked_at(three.room(20));
        assert!(more.as_mut().now_or_never().is_none());
        drop(held);
        let held = more.now_or_never().unwrap();
        // Room that others make counts as well.
        let mut more = looked_at(three.room(20));
        assert!(more.as_mut().now_or_never().is_none());
        drop(full);
        drop((held, more.now_or_never().unwrap()));
        // More than there is room for at all, for somebody of whom nothing is here.
        drop(now(&one, 1000).unwrap());
        assert_eq!(limit.bytes(), 0);
    }

    #[tokio::test]
    async fn those_who_wait_get_room_in_the_order_in_which_they_came() {
        let limit = UnsentLimit::new(100);
        let client = limit.client();
        let held = now(&client, 50).unwrap();
        let (mut first, mut second) = (looked_at(client.room(50)), looked_at(client.room(1)));
        assert!(first.as_mut().now_or_never().is_none() && second.as_mut().now_or_never().is_none());
        drop(held);
        assert!(second.as_mut().now_or_never().is_none(), "one waits longer");
        let held = first.now_or_never().unwrap();
        drop(held);
        drop(second.now_or_never().unwrap());
        // One who goes away is not waited for.
        let held = now(&client, 50).unwrap();
        let mut gone = looked_at(client.room(50));
        assert!(gone.as_mut().now_or_never().is_none());
        drop((gone, held));
        drop(now(&client, 10).unwrap());
        assert_eq!(limit.bytes(), 0);
    }

    /// From many threads: what is counted is right at the end, and nobody is forgotten.
    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn nobody_who_waits_is_forgotten() {
        let limit = UnsentLimit::new(100);
        let clients = [(); 3].map(|()| limit.client());
        let tasks = (0..64).map(|number: usize| {
            let client = clients[number % 3].clone();
            tokio::spawn(async move {
                for round in 0..200 {
                    let mut held = client.room(1 + (number + round) % 50).await;
                    held.keep(round % 20);
                    let sent = client.hold(round % 7);
                    tokio::task::yield_now().await;
                    drop((held, sent));
                }
            })
        });
        for task in tasks.collect::<Vec<_>>() {
            task.await.unwrap();
        }
        assert!(limit.bytes() == 0 && clients.iter().all(Unsent::is_nothing));
    }

    /// A future that can be looked at several times.
    fn looked_at<'a>(
        room: impl Future<Output = Held> + 'a,
    ) -> std::pin::Pin<Box<dyn Future<Output = Held> + 'a>> {
        Box::pin(room)
    }
}
