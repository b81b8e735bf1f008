//! Limit on open connections, and the choice of the connection to close when all slots are taken.
//!
//! Any host that reaches the port can open connections and send nothing. So the slot of an unauthenticated connection
//! is revocable: when all slots are taken, the next connection gets the slot of the oldest unauthenticated connection
//! of the address with most of them. An address with many connections then only replaces its own, even if it reconnects
//! fast. After these come connections without a running request, the longest idle first: clients keep them for later
//! and reconnect if one was closed. An authenticated connection with a running request keeps its slot.

use std::collections::HashMap;
use std::future::Future;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

use crate::state::auth::Origin;

/// Minimum interval of the log line about revoked slots.
const LOG_EVERY: Duration = Duration::from_secs(60);

/// A client that was asked to leave may still be reading its last answer. After this time another connection is asked.
const LEAVE_PATIENCE: Duration = Duration::from_secs(1);

/// All slots of a server.
pub(super) struct ConnectionSlots {
    free: Arc<Semaphore>,
    /// Notified when a request ended.
    ended: Arc<Notify>,
    limit: u32,
    taken: Arc<Mutex<Taken>>,
}

#[derive(Default)]
struct Taken {
    /// Connections by number, in the order of arrival.
    guests: HashMap<u64, ConnectionEntry>,
    came: u64,
    logged: Option<Instant>,
}

struct ConnectionEntry {
    origin: Origin,
    activity: Arc<Activity>,
    leave: Arc<Leave>,
    /// The connection was asked to leave.
    leaves: bool,
}

/// Signals that ask a connection to leave.
#[derive(Default)]
struct Leave {
    at_once: Notify,
    /// Leave after the current answer has been sent.
    after_answer: Notify,
}

/// Slot that is taken until this is dropped.
pub(super) struct ConnectionSlot {
    number: u64,
    taken: Arc<Mutex<Taken>>,
    leave: Arc<Leave>,
    pub(super) activity: Arc<Activity>,
    _permit: OwnedSemaphorePermit,
}

/// Activity of a connection.
pub(super) struct Activity {
    begun: AtomicU64,
    ended: AtomicU64,
    all_ended: Arc<Notify>,
    since: Instant,
    /// End of the last request, ms after `since`.
    ended_ms: AtomicU64,
    known: SignedInFlag,
}

/// Whether a connection had an authenticated request, or authentication is off: an extension of the heads of its
/// requests.
#[derive(Debug, Clone, Default)]
pub(crate) struct SignedInFlag(Arc<AtomicBool>);

impl SignedInFlag {
    /// Marks the connection after an authenticated request.
    pub(crate) fn note(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    fn is_noted(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Request in progress until this is dropped.
pub(super) struct Open(Arc<Activity>);

impl Activity {
    fn new(all_ended: &Arc<Notify>) -> Self {
        Self {
            all_ended: Arc::clone(all_ended),
            begun: AtomicU64::new(0),
            ended: AtomicU64::new(0),
            since: Instant::now(),
            ended_ms: AtomicU64::new(0),
            known: SignedInFlag::default(),
        }
    }

    pub(super) fn known(&self) -> &SignedInFlag {
        &self.known
    }

    /// Returns the number of requests begun so far, and the number in progress.
    pub(super) fn counts(&self) -> (u64, u64) {
        // `ended` is read first: a request that begins in between counts as in progress, and the difference is never
        // negative.
        let ended = self.ended.load(Ordering::Acquire);
        let begun = self.begun.load(Ordering::Acquire);
        (begun, begun.saturating_sub(ended))
    }

    fn is_open(&self) -> bool {
        self.counts().1 > 0
    }

    /// Returns since when the connection is idle, if no request is in progress.
    fn idle_since(&self) -> Instant {
        self.since + Duration::from_millis(self.ended_ms.load(Ordering::Relaxed))
    }

    /// Completes when the connection is unauthenticated and had no request for at least `after`, at most twice as long.
    pub(super) async fn strange(&self, after: Duration) {
        self.idle(after, || !self.known.is_noted()).await;
    }

    /// Completes when there was no request for at least `after`, at most twice as long, and `holds` returns true. hyper
    /// closes idle HTTP/1.1 connections; of HTTP/2 it closes only those of vanished clients.
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

impl ConnectionSlots {
    pub(super) fn new(limit: usize) -> Self {
        Self {
            free: Arc::new(Semaphore::new(limit)),
            ended: Arc::default(),
            limit: u32::try_from(limit).unwrap_or(u32::MAX),
            taken: Arc::default(),
        }
    }

    /// Takes a slot for a connection of this address, if necessary from another connection. Waits while all have
    /// running requests.
    pub(super) async fn take(&self, address: IpAddr) -> ConnectionSlot {
        let permit = loop {
            if let Ok(permit) = Arc::clone(&self.free).try_acquire_owned() {
                break permit;
            }
            // A connection may have become idle in the meantime.
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
                // The semaphore is never closed.
                Ok(permit) = Arc::clone(&self.free).acquire_owned() => break permit,
                () = another => {}
            }
        };
        let activity = Arc::new(Activity::new(&self.ended));
        let leave = Arc::new(Leave::default());
        let mut taken = lock(&self.taken);
        taken.came += 1;
        let number = taken.came;
        let guest = ConnectionEntry {
            origin: Origin::of(Some(address)),
            activity: Arc::clone(&activity),
            leave: Arc::clone(&leave),
            leaves: false,
        };
        taken.guests.insert(number, guest);
        ConnectionSlot {
            number,
            taken: Arc::clone(&self.taken),
            leave,
            activity,
            _permit: permit,
        }
    }

    /// Asks a connection to leave; returns false if all have running requests.
    pub(super) fn take_away(&self) -> bool {
        let mut taken = lock(&self.taken);
        let Some(number) = taken.dispensable() else {
            return false;
        };
        let now = Instant::now();
        let is_due = taken
            .logged
            .is_none_or(|logged| now.duration_since(logged) >= LOG_EVERY);
        let count = taken.guests.len();
        let Some(guest) = taken.guests.get_mut(&number) else {
            return false;
        };
        guest.leaves = true;
        match guest.activity.known.is_noted() {
            true => guest.leave.after_answer.notify_one(),
            false => guest.leave.at_once.notify_one(),
        }
        if is_due {
            tracing::warn!(
                origin = %guest.origin,
                signed_in = guest.activity.known.is_noted(),
                connections = count,
                "the connection limit is reached: closing unauthenticated and idle connections for new ones"
            );
            taken.logged = Some(now);
        }
        true
    }

    /// Completes when all slots are free.
    pub(super) async fn all_free(&self) {
        let _ = self.free.acquire_many(self.limit).await;
    }
}

impl Taken {
    /// Returns the connection to close next.
    fn dispensable(&self) -> Option<u64> {
        let staying = || self.guests.iter().filter(|(_, guest)| !guest.leaves);
        let strangers = || staying().filter(|(_, guest)| !guest.activity.known.is_noted());
        let mut of_origin: HashMap<Origin, usize> = HashMap::new();
        for (_, guest) in strangers() {
            *of_origin.entry(guest.origin).or_default() += 1;
        }
        let most = |(number, guest): &(&u64, &ConnectionEntry)| (of_origin[&guest.origin], std::cmp::Reverse(**number));
        if let Some((number, _)) = strangers().max_by_key(most) {
            return Some(*number);
        }
        let idle = staying().filter(|(_, guest)| !guest.activity.is_open());
        idle.min_by_key(|(number, guest)| (guest.activity.idle_since(), **number))
            .map(|(number, _)| *number)
    }
}

impl ConnectionSlot {
    /// Completes when another connection needs the slot at once.
    pub(super) async fn taken_away(&self) {
        self.leave.at_once.notified().await;
    }

    /// Returns a future that completes when another connection needs the slot after the current requests are answered.
    pub(super) fn needed(&self) -> impl Future<Output = ()> + Send + 'static {
        let leave = Arc::clone(&self.leave);
        async move { leave.after_answer.notified().await }
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        lock(&self.taken).guests.remove(&self.number);
    }
}

/// A panic while the lock was held leaves the state consistent.
fn lock(taken: &Mutex<Taken>) -> MutexGuard<'_, Taken> {
    taken.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(last: u8) -> IpAddr {
        IpAddr::from([127, 0, 0, last])
    }

    /// Returns which of these slots the next connection would get.
    fn dispensable(places: &ConnectionSlots, among: &[&ConnectionSlot]) -> Option<usize> {
        let number = lock(&places.taken).dispensable()?;
        among.iter().position(|place| place.number == number)
    }

    #[tokio::test]
    async fn an_address_takes_places_from_itself_first() {
        let places = ConnectionSlots::new(8);
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
        // All are authenticated: the longest idle connection goes, never one with a running request.
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
    async fn a_leaving_connection_makes_room_for_one_only() {
        let places = Arc::new(ConnectionSlots::new(2));
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
