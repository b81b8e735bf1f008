//! Who has the places for connections, and whose is given to the next one when all are taken.
//!
//! Whoever reaches the port can open connections and say nothing. So a place that nobody has signed in on is lent: when all are
//! taken, the next connection gets one of these, of the address that has most of them the oldest. One address then takes
//! places from itself and from nobody else, however fast it comes back. After these come connections on which nothing is
//! being asked, the longest idle first: clients keep them for later and open others where one was closed. A connection that
//! somebody signed in on and that is being answered keeps its place.

use std::collections::HashMap;
use std::future::Future;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

use crate::auth::Origin;

/// Between two lines in the log that say that places are taken away.
const TELL_EVERY: Duration = Duration::from_secs(60);

/// Somebody who was asked to leave may still be reading his last answer: so long after it another one is asked.
const LEAVE_PATIENCE: Duration = Duration::from_secs(1);

/// All places of a server.
pub(super) struct Places {
    free: Arc<Semaphore>,
    /// Told when a request ended.
    ended: Arc<Notify>,
    limit: u32,
    taken: Arc<Mutex<Taken>>,
}

#[derive(Default)]
struct Taken {
    /// In the order in which they came, by number.
    guests: HashMap<u64, Guest>,
    came: u64,
    told: Option<Instant>,
}

struct Guest {
    origin: Origin,
    activity: Arc<Activity>,
    leave: Arc<Leave>,
    /// Was asked to leave.
    leaves: bool,
}

/// How a connection is asked to leave.
#[derive(Default)]
struct Leave {
    at_once: Notify,
    /// Once the answer that is on its way has been sent.
    after_answer: Notify,
}

/// A place that is taken until this is dropped.
pub(super) struct Place {
    number: u64,
    taken: Arc<Mutex<Taken>>,
    leave: Arc<Leave>,
    pub(super) activity: Arc<Activity>,
    _permit: OwnedSemaphorePermit,
}

/// What happens on a connection.
pub(super) struct Activity {
    begun: AtomicU64,
    ended: AtomicU64,
    all_ended: Arc<Notify>,
    since: Instant,
    /// When the last request ended, ms after `since`.
    ended_ms: AtomicU64,
    known: Known,
}

/// Whether somebody signed in on a connection, or could ask without: an extension of its requests' heads.
#[derive(Debug, Clone, Default)]
pub(crate) struct Known(Arc<AtomicBool>);

impl Known {
    /// To be called for a request of somebody who may ask.
    pub(crate) fn note(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    fn is_noted(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// A request that is open until this is dropped.
pub(super) struct Open(Arc<Activity>);

impl Activity {
    fn new(all_ended: &Arc<Notify>) -> Self {
        Self {
            all_ended: Arc::clone(all_ended),
            begun: AtomicU64::new(0),
            ended: AtomicU64::new(0),
            since: Instant::now(),
            ended_ms: AtomicU64::new(0),
            known: Known::default(),
        }
    }

    pub(super) fn known(&self) -> &Known {
        &self.known
    }

    /// Requests begun so far, and how many of them are open.
    pub(super) fn counts(&self) -> (u64, u64) {
        // Ended first: a request that begins in between then counts as open, never as minus one.
        let ended = self.ended.load(Ordering::Acquire);
        let begun = self.begun.load(Ordering::Acquire);
        (begun, begun.saturating_sub(ended))
    }

    fn is_open(&self) -> bool {
        self.counts().1 > 0
    }

    /// Since when it is idle, where nothing is open.
    fn idle_since(&self) -> Instant {
        self.since + Duration::from_millis(self.ended_ms.load(Ordering::Relaxed))
    }

    /// Ready when nobody has signed in and nothing was asked for at least `after`, and at most twice as long.
    pub(super) async fn strange(&self, after: Duration) {
        self.idle(after, || !self.known.is_noted()).await;
    }

    /// Ready when there was no request for at least `after`, and at most twice as long, and `holds` holds. hyper closes idle
    /// connections of HTTP/1.1 by itself, of HTTP/2 only those of clients that are gone.
    pub(super) async fn idle(&self, after: Duration, holds: impl Fn() -> bool) {
        let mut before = None;
        loop {
            let (begun, open) = self.counts();
            if open == 0 && before == Some(begun) && holds() {
                return;
            }
            before = (open == 0).then_some(begun);
            tokio::time::sleep(after).await;
        }
    }
}

impl Open {
    pub(super) fn new(activity: &Arc<Activity>) -> Self {
        activity.begun.fetch_add(1, Ordering::AcqRel);
        Self(Arc::clone(activity))
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        let ms = u64::try_from(self.0.since.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.0.ended_ms.store(ms, Ordering::Relaxed);
        self.0.ended.fetch_add(1, Ordering::AcqRel);
        self.0.all_ended.notify_one();
    }
}

impl Places {
    pub(super) fn new(limit: usize) -> Self {
        Self {
            free: Arc::new(Semaphore::new(limit)),
            ended: Arc::default(),
            limit: u32::try_from(limit).unwrap_or(u32::MAX),
            taken: Arc::default(),
        }
    }

    /// A place for a connection of this address, if need be that of another one. Waits where all are being used.
    pub(super) async fn take(&self, address: IpAddr) -> Place {
        let permit = loop {
            if let Ok(permit) = Arc::clone(&self.free).try_acquire_owned() {
                break permit;
            }
            // One that has just become idle, where all were being used.
            let ended = match self.take_away() {
                true => None,
                false => Some(self.ended.notified()),
            };
            let another = async {
                match ended {
                    Some(ended) => ended.await,
                    None => tokio::time::sleep(LEAVE_PATIENCE).await,
                }
            };
            tokio::select! {
                // Never closed.
                Ok(permit) = Arc::clone(&self.free).acquire_owned() => break permit,
                () = another => {}
            }
        };
        let activity = Arc::new(Activity::new(&self.ended));
        let leave = Arc::new(Leave::default());
        let mut taken = lock(&self.taken);
        taken.came += 1;
        let number = taken.came;
        let guest = Guest {
            origin: Origin::of(Some(address)),
            activity: Arc::clone(&activity),
            leave: Arc::clone(&leave),
            leaves: false,
        };
        taken.guests.insert(number, guest);
        Place {
            number,
            taken: Arc::clone(&self.taken),
            leave,
            activity,
            _permit: permit,
        }
    }

    /// Asks a connection to leave. False where all are being used.
    pub(super) fn take_away(&self) -> bool {
        let mut taken = lock(&self.taken);
        let Some(number) = taken.dispensable() else {
            return false;
        };
        let now = Instant::now();
        let is_news = taken.told.is_none_or(|told| now.duration_since(told) >= TELL_EVERY);
        let count = taken.guests.len();
        let Some(guest) = taken.guests.get_mut(&number) else {
            return false;
        };
        guest.leaves = true;
        match guest.activity.known.is_noted() {
            true => guest.leave.after_answer.notify_one(),
            false => guest.leave.at_once.notify_one(),
        }
        if is_news {
            tracing::warn!(
                origin = %guest.origin,
                signed_in = guest.activity.known.is_noted(),
                connections = count,
                "all connections are taken: those that nobody has signed in on, and idle ones, make room for others"
            );
            taken.told = Some(now);
        }
        true
    }

    /// Ready when every place is free.
    pub(super) async fn all_free(&self) {
        let _ = self.free.acquire_many(self.limit).await;
    }
}

impl Taken {
    /// Which connection is missed least.
    fn dispensable(&self) -> Option<u64> {
        let staying = || self.guests.iter().filter(|(_, guest)| !guest.leaves);
        let strangers = || staying().filter(|(_, guest)| !guest.activity.known.is_noted());
        let mut of_origin: HashMap<Origin, usize> = HashMap::new();
        for (_, guest) in strangers() {
            *of_origin.entry(guest.origin).or_default() += 1;
        }
        let most = |(number, guest): &(&u64, &Guest)| (of_origin[&guest.origin], std::cmp::Reverse(**number));
        if let Some((number, _)) = strangers().max_by_key(most) {
            return Some(*number);
        }
        let idle = staying().filter(|(_, guest)| !guest.activity.is_open());
        idle.min_by_key(|(number, guest)| (guest.activity.idle_since(), **number))
            .map(|(number, _)| *number)
    }
}

impl Place {
    /// Ready when somebody else is to have it at once.
    pub(super) async fn taken_away(&self) {
        self.leave.at_once.notified().await;
    }

    /// What waits until somebody else is to have it once all that was asked is answered.
    pub(super) fn needed(&self) -> impl Future<Output = ()> + Send + 'static {
        let leave = Arc::clone(&self.leave);
        async move { leave.after_answer.notified().await }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        lock(&self.taken).guests.remove(&self.number);
    }
}

/// What panicked while it held the lock left nothing half done.
fn lock(taken: &Mutex<Taken>) -> MutexGuard<'_, Taken> {
    taken.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(last: u8) -> IpAddr {
        IpAddr::from([127, 0, 0, last])
    }

    /// The place among these that the next connection gets.
    fn dispensable(places: &Places, among: &[&Place]) -> Option<usize> {
        let number = lock(&places.taken).dispensable()?;
        among.iter().position(|place| place.number == number)
    }

    #[tokio::test]
    async fn an_address_takes_places_from_itself_first() {
        let places = Places::new(8);
        let one = places.take(address(1)).await;
        let first = places.take(address(2)).await;
        let second = places.take(address(2)).await;
        assert_eq!(dispensable(&places, &[&one, &first, &second]), Some(1));
        first.activity.known().note();
        assert_eq!(
            dispensable(&places, &[&one, &first, &second]),
            Some(0),
            "of one each the oldest"
        );
        one.activity.known().note();
        assert_eq!(dispensable(&places, &[&one, &first, &second]), Some(2));
        second.activity.known().note();
        // All have signed in: the longest idle goes, and none that is asked something.
        let open = Open::new(&one.activity);
        assert_eq!(dispensable(&places, &[&one, &first, &second]), Some(1));
        let others = [Open::new(&first.activity), Open::new(&second.activity)];
        assert_eq!(dispensable(&places, &[&one, &first, &second]), None);
        tokio::time::sleep(Duration::from_millis(5)).await;
        drop(others);
        tokio::time::sleep(Duration::from_millis(5)).await;
        drop(open);
        assert_eq!(dispensable(&places, &[&one, &first, &second]), Some(1));
    }

    #[tokio::test]
    async fn who_is_asked_to_leave_makes_room_for_one_only() {
        let places = Arc::new(Places::new(2));
        let one = places.take(address(1)).await;
        let two = places.take(address(1)).await;
        let taking = tokio::spawn({
            let places = Arc::clone(&places);
            async move { places.take(address(2)).await }
        });
        one.taken_away().await;
        assert_eq!(dispensable(&places, &[&one, &two]), Some(1), "not the same again");
        drop(one);
        let three = taking.await.unwrap();
        assert_eq!(lock(&places.taken).guests.len(), 2);
        drop((two, three));
        places.all_free().await;
    }
}
