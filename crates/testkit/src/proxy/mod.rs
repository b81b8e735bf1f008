//! A proxy between firn and an object store that counts what is asked and lets go wrong what a test wants.
//!
//! It speaks just enough HTTP/1.1 to know where a message ends, forwards everything byte by byte (so signatures
//! hold), and draws from a seed which requests meet a fault: the same seed and the same order of requests
//! meet the same faults.

mod connection;
mod faults;
mod message;
mod stats;

use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use anyhow::Result;

pub use faults::{Fault, Faults, Rule};
pub use stats::{Asked, Method, ProxyStats};

use faults::Pace;

/// A proxy on a free port of 127.0.0.1. Ends when dropped.
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
}

#[derive(Debug)]
struct State {
    faults: Faults,
    random: fastrand::Rng,
    stats: ProxyStats,
    pace: Pace,
    /// Keys that were written last, for listings that lag behind.
    written: Vec<String>,
}

impl Shared {
    /// A test that panicked while it held the lock has failed already.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl FaultProxy {
    /// Stands before the server on port `upstream` of 127.0.0.1, without any fault.
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
                written: Vec::new(),
            }),
        });
        let accepting = Arc::clone(&shared);
        let acceptor = std::thread::spawn(move || {
            for client in listener.incoming() {
                if accepting.ends.load(Relaxed) {
                    return;
                }
                let Ok(client) = client else { continue };
                let shared = Arc::clone(&accepting);
                // Ends with its connection, which ends when either side closes it.
                std::thread::spawn(move || connection::serve(&shared, client));
            }
        });
        Ok(Self {
            port,
            shared,
            acceptor: Some(acceptor),
        })
    }

    /// Where clients find it.
    pub fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// What goes wrong from now on.
    pub fn set(&self, faults: Faults) {
        self.shared.state().faults = faults;
    }

    /// What was asked since the start or the last [`FaultProxy::reset`].
    pub fn stats(&self) -> ProxyStats {
        self.shared.state().stats.clone()
    }

    /// Counts from zero again, and tells what was counted.
    pub fn reset(&self) -> ProxyStats {
        std::mem::take(&mut self.shared.state().stats)
    }
}

impl Drop for FaultProxy {
    fn drop(&mut self) {
        self.shared.ends.store(true, Relaxed);
        // Wakes the acceptor.
        let _ = TcpStream::connect(("127.0.0.1", self.port));
        if let Some(acceptor) = self.acceptor.take() {
            let _ = acceptor.join();
        }
    }
}

#[cfg(test)]
mod tests;
