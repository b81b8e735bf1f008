//! Bodies of requests that are being stored, or are stored in part.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::sources::BatchOutcome;

/// How long a body whose request failed is remembered: longer than senders wait before they try again.
const REMEMBERED_FOR: Duration = Duration::from_secs(600);
/// Bodies that are remembered; each takes some hundred bytes. The oldest are dropped.
const REMEMBERED_MAX: usize = 10_000;

pub(super) type Hash = [u8; 32];

/// Bodies that are being stored, or are stored in part.
#[derive(Debug, Default)]
pub(super) struct Bodies {
    by_hash: Mutex<HashMap<Hash, Remembered>>,
}

#[derive(Debug)]
struct Remembered {
    body: Arc<Body>,
    since: Instant,
}

/// A body, as far as it is stored.
#[derive(Debug)]
pub(super) struct Body {
    /// Outcomes of the parts that are stored. Locked while a request stores the others.
    pub(super) stored: tokio::sync::Mutex<Vec<Option<BatchOutcome>>>,
    /// Dropped when the request has its answer, or its sender is gone.
    request: Mutex<Weak<()>>,
}

impl Bodies {
    /// Returns the body of a request: a new one, or that of an earlier request with the same events that has failed, or whose sender is
    /// gone. While another request with the same events has a sender, they are two bodies.
    pub(super) fn open(&self, hash: Hash, parts: usize, request: &Arc<()>) -> Arc<Body> {
        let now = Instant::now();
        let mut by_hash = self.by_hash.lock();
        by_hash.retain(|_, remembered| now.saturating_duration_since(remembered.since) < REMEMBERED_FOR);
        if let Some(earlier) = by_hash.get_mut(&hash) {
            let mut sender = earlier.body.request.lock();
            if sender.upgrade().is_none() {
                *sender = Arc::downgrade(request);
                earlier.since = now;
                drop(sender);
                return Arc::clone(&earlier.body);
            }
        }
        let body = Arc::new(Body {
            stored: tokio::sync::Mutex::new(vec![None; parts]),
            request: Mutex::new(Arc::downgrade(request)),
        });
        if by_hash.contains_key(&hash) {
            return body;
        }
        if by_hash.len() >= REMEMBERED_MAX
            && let Some(oldest) = by_hash.iter().min_by_key(|(_, remembered)| remembered.since)
        {
            let oldest = *oldest.0;
            by_hash.remove(&oldest);
        }
        let remembered = Remembered {
            body: Arc::clone(&body),
            since: now,
        };
        by_hash.insert(hash, remembered);
        body
    }

    /// Forgets a body that is stored as a whole.
    pub(super) fn close(&self, hash: &Hash, body: &Arc<Body>) {
        let mut by_hash = self.by_hash.lock();
        if by_hash
            .get(hash)
            .is_some_and(|remembered| Arc::ptr_eq(&remembered.body, body))
        {
            by_hash.remove(hash);
        }
    }
}
