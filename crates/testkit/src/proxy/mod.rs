//! Fault injection proxy between firn and an object store, which also records requests.
//!
//! It implements enough HTTP/1.1 to find the end of a message, and forwards everything byte by byte, so that signatures
//! stay valid. A seed selects the requests that get a fault: the same seed and the same order of requests give the same
//! faults.

mod connection;
mod faults;
mod message;
mod stats;

use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use anyhow::Result;

pub use faults::{Fault, Faults, Rule};
pub use stats::{Method, ProxiedRequest, ProxyStats};

use faults::Pace;

/// Proxy on a free port of 127.0.0.1. Ends when dropped.
#[derive(Debug)]
pub struct FaultProxy {
    port: u16,
    shared: Arc<Shared>,
    acceptor: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    upstream: u16,
    ends: AtomicBool,
    state: Mutex<State>,
    /// Notified when faults are set.
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    faults: Faults,
    random: fastrand::Rng,
    stats: ProxyStats,
    pace: Pace,
    /// How often faults were set.
    settings: u64,
    /// Number of held requests.
    held: usize,
    /// Recently written keys, for stale listings.
    written: Vec<String>,
}

impl Shared {
    /// Ignores poisoning: a test that panicked while it held the lock has failed already.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Blocks until faults are set again, or the proxy ends.
    fn hold(&self) {
        let mut state = self.state();
        let settings = state.settings;
        state.held += 1;
        while state.settings == settings && !self.ends.load(Relaxed) {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.held -= 1;
    }
}

impl FaultProxy {
    /// Starts a proxy of the server on port `upstream` of 127.0.0.1, without faults.
    pub fn start(upstream: u16, seed: u64) -> Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        let port = listener.local_addr()?.port();
        let shared = Arc::new(Shared {
            upstream,
            ends: AtomicBool::new(false),
            state: Mutex::new(State {
                faults: Faults::default(),
                random: fastrand::Rng::with_seed(seed),
                stats: ProxyStats::default(),
                pace: Pace::default(),
                settings: 0,
                held: 0,
                written: Vec::new(),
            }),
            changed: Condvar::new(),
        });
        let accepting = Arc::clone(&shared);
        let acceptor = std::thread::spawn(move || {
            for client in listener.incoming() {
                if accepting.ends.load(Relaxed) {
                    return;
                }
                let Ok(client) = client else { continue };
                let shared = Arc::clone(&accepting);
                // The thread ends with its connection, when either side closes it.
                std::thread::spawn(move || connection::serve(&shared, client));
            }
        });
        Ok(Self {
            port,
            shared,
            acceptor: Some(acceptor),
        })
    }

    /// Returns its endpoint.
    pub fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Sets the faults of future requests.
    pub fn set(&self, faults: Faults) {
        let mut state = self.shared.state();
        state.faults = faults;
        state.settings += 1;
        drop(state);
        self.shared.changed.notify_all();
    }

    /// Returns the number of requests that [`Fault::Hold`] blocks.
    pub fn held(&self) -> usize {
        self.shared.state().held
    }

    /// Returns the requests since the start or the last [`FaultProxy::reset`].
    pub fn stats(&self) -> ProxyStats {
        self.shared.state().stats.clone()
    }

    /// Resets the statistics and returns the old ones.
    pub fn reset(&self) -> ProxyStats {
        std::mem::take(&mut self.shared.state().stats)
    }
}

impl Drop for FaultProxy {
    fn drop(&mut self) {
        {
            let _state = self.shared.state();
            self.shared.ends.store(true, Relaxed);
        }
        self.shared.changed.notify_all();
        // Wakes the acceptor.
        let _ = TcpStream::connect(("127.0.0.1", self.port));
        if let Some(acceptor) = self.acceptor.take() {
            let _ = acceptor.join();
        }
    }
}

#[cfg(test)]
mod tests;
