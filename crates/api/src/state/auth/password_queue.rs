//! Queues of password checks: one check at a time per user name, with short queues.
//!
//! Requests from the same address first wait for each other, and only one of them at a time waits for the name. So a
//! client that guesses passwords over many connections competes as one address and cannot occupy the queue of a user.

use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard};

use tokio::sync::{Mutex as Turn, OwnedMutexGuard};

/// Maximum waiting requests from one address for one name: as many connections as a client opens at once.
const WAITING_OF_ONE_MAX: usize = 16;
/// Maximum waiting requests from all addresses for one name.
const WAITING_FOR_ONE_MAX: usize = 64;
/// Maximum waiting requests from one address in all queues, so that other addresses find slots too.
const WAITING_FROM_ONE_MAX: usize = 128;
/// Maximum waiting requests in all queues: each holds a connection, of which there are some 1,000.
const WAITING_MAX: usize = 256;
/// Prefix bits of an IPv6 address that identify its owner, who controls all addresses with the same prefix.
const NETWORK_V6: u32 = 64;

/// Client address of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Origin(Option<IpAddr>);

impl Origin {
    /// Creates an origin; `None`: the address is unknown.
    pub(crate) fn of(address: Option<IpAddr>) -> Self {
        Self(address.map(|address| match address.to_canonical() {
            IpAddr::V4(v4) => IpAddr::V4(v4),
            IpAddr::V6(v6) => {
                let network = v6.to_bits() & (u128::MAX << (u128::BITS - NETWORK_V6));
                IpAddr::V6(Ipv6Addr::from_bits(network))
            }
        }))
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Some(address) => address.fmt(formatter),
            None => formatter.write_str("unknown"),
        }
    }
}

/// All queues.
#[derive(Debug, Default)]
pub(super) struct PasswordQueue(Arc<Mutex<PasswordQueues>>);

#[derive(Debug, Default)]
struct PasswordQueues {
    names: HashMap<String, Queue>,
    both: HashMap<(String, Origin), Queue>,
    addresses: HashMap<Origin, Queue>,
    waiting: usize,
}

/// Number of waiting requests, and the lock that they wait for.
#[derive(Debug, Default)]
struct Queue {
    waiting: usize,
    turn: Arc<Turn<()>>,
}

/// Slot in a queue; dropping it leaves the queue.
#[derive(Debug)]
pub(super) struct QueuePlace {
    lines: Arc<Mutex<PasswordQueues>>,
    name: String,
    from: Origin,
    /// Locks for requests from the same address, then for all requests.
    turns: [Arc<Turn<()>>; 2],
}

impl PasswordQueue {
    /// Joins the queue of a name; `None` if it is full.
    pub(super) fn join(&self, name: &str, from: Origin) -> Option<QueuePlace> {
        let mut lines = lock(&self.0);
        let both = (name.to_owned(), from);
        let waiting = |queue: Option<&Queue>| queue.map_or(0, |queue| queue.waiting);
        let is_full = lines.waiting >= WAITING_MAX
            || waiting(lines.names.get(name)) >= WAITING_FOR_ONE_MAX
            || waiting(lines.both.get(&both)) >= WAITING_OF_ONE_MAX
            || waiting(lines.addresses.get(&from)) >= WAITING_FROM_ONE_MAX;
        if is_full {
            return None;
        }
        lines.waiting += 1;
        enter(&mut lines.addresses, from);
        let turns = [enter(&mut lines.both, both), enter(&mut lines.names, name.to_owned())];
        Some(QueuePlace {
            lines: Arc::clone(&self.0),
            name: name.to_owned(),
            from,
            turns,
        })
    }
}

fn enter<K: Eq + Hash>(queues: &mut HashMap<K, Queue>, key: K) -> Arc<Turn<()>> {
    let queue = queues.entry(key).or_default();
    queue.waiting += 1;
    Arc::clone(&queue.turn)
}

fn leave<K: Eq + Hash>(queues: &mut HashMap<K, Queue>, key: &K) {
    if let Some(queue) = queues.get_mut(key) {
        queue.waiting -= 1;
        if queue.waiting == 0 {
            queues.remove(key);
        }
    }
}

impl QueuePlace {
    /// Waits for earlier requests from the same address, then for earlier requests from other addresses.
    pub(super) async fn turn(&self) -> [OwnedMutexGuard<()>; 2] {
        let [own, all] = &self.turns;
        let own = Arc::clone(own).lock_owned().await;
        [own, Arc::clone(all).lock_owned().await]
    }
}

impl Drop for QueuePlace {
    fn drop(&mut self) {
        let mut lines = lock(&self.lines);
        lines.waiting -= 1;
        leave(&mut lines.names, &self.name);
        leave(&mut lines.addresses, &self.from);
        leave(&mut lines.both, &(std::mem::take(&mut self.name), self.from));
    }
}

/// The counts are correct even after a panic: no code that could panic runs between their changes.
fn lock(lines: &Mutex<PasswordQueues>) -> MutexGuard<'_, PasswordQueues> {
    lines.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(number: u8) -> Origin {
        Origin::of(Some([127, 0, 0, number].into()))
    }

    #[test]
    fn lines_are_short_and_end_empty() {
        let line = PasswordQueue::default();
        let places: Vec<QueuePlace> = std::iter::from_fn(|| line.join("a", peer(1))).collect();
        assert_eq!(places.len(), WAITING_OF_ONE_MAX);
        let second = line.join("a", peer(2)).expect("another address gets in");
        let others: Vec<QueuePlace> = (0..WAITING_MAX)
            .map_while(|number| line.join(&number.to_string(), peer(1)))
            .collect();
        assert_eq!(places.len() + others.len(), WAITING_FROM_ONE_MAX);
        let third = line.join("b", peer(2)).expect("another address gets in");
        let all: Vec<QueuePlace> = (0..WAITING_MAX)
            .map_while(|number| line.join(&number.to_string(), peer(3 + (number % 100) as u8)))
            .collect();
        assert_eq!(places.len() + others.len() + all.len() + 2, WAITING_MAX);
        assert!(line.join("c", peer(200)).is_none());
        drop((places, others, all, second, third));
        assert!(line.join("a", peer(1)).is_some());
        let lines = lock(&line.0);
        assert!(lines.names.is_empty() && lines.both.is_empty() && lines.addresses.is_empty());
        assert_eq!(lines.waiting, 0);
    }

    #[tokio::test]
    async fn one_at_a_time() {
        let line = PasswordQueue::default();
        let join = |name, number| line.join(name, peer(number)).unwrap();
        let (first, second, elsewhere, other) = (join("a", 1), join("a", 1), join("a", 2), join("b", 1));
        let turn = first.turn().await;
        let _other = other.turn().await;
        let short = std::time::Duration::from_millis(20);
        assert!(tokio::time::timeout(short, second.turn()).await.is_err());
        assert!(tokio::time::timeout(short, elsewhere.turn()).await.is_err());
        drop(turn);
        second.turn().await;
    }

    #[tokio::test]
    async fn guesses_over_many_connections_wait_as_one_address() {
        let line = PasswordQueue::default();
        let guesses: Vec<QueuePlace> = (0..10).map(|_| line.join("a", peer(1)).unwrap()).collect();
        let first = guesses[0].turn().await;
        let mut second = Box::pin(guesses[1].turn());
        let short = std::time::Duration::from_millis(20);
        assert!(tokio::time::timeout(short, &mut second).await.is_err());
        let user = line.join("a", peer(2)).unwrap();
        let mut turn = Box::pin(user.turn());
        assert!(tokio::time::timeout(short, &mut turn).await.is_err());
        drop(first);
        let turn = tokio::time::timeout(std::time::Duration::from_secs(10), turn).await;
        assert!(turn.is_ok(), "after one guess, not after ten");
    }

    #[test]
    fn an_ipv6_network_counts_as_one_address() {
        let of = |text: &str| Origin::of(Some(text.parse().unwrap()));
        assert_eq!(of("fd00::1"), of("fd00::ffff:1"));
        assert_ne!(of("fd00::1"), of("fd00:0:0:1::1"));
        assert_eq!(of("::ffff:127.0.0.1"), of("127.0.0.1"));
        assert_ne!(of("127.0.0.1"), of("127.0.0.2"));
    }
}
