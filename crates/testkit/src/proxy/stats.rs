//! What was asked through the proxy.

use super::Fault;

/// How many requests are remembered one by one; beyond them only sums are kept.
const ASKED_MAX: usize = 200_000;

/// What a request asks, by HTTP's method and S3's parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Method {
    /// Bytes of an object.
    Get,
    /// A list of objects.
    List,
    /// What is known of an object.
    Head,
    /// A write, of an object or of a part.
    Put,
    /// A write's begin or end, or several deletions.
    Post,
    /// A deletion, of an object or of parts.
    Delete,
}

/// A request.
#[derive(Debug, Clone)]
pub struct Asked {
    /// What it asks.
    pub method: Method,
    /// Path and query.
    pub target: String,
    /// The header `Range`.
    pub range: Option<String>,
    /// Of the answer; `None` if there was none.
    pub status: Option<u16>,
    /// Bytes of the request's body.
    pub sent: u64,
    /// Bytes of the answer's body.
    pub received: u64,
    /// What befell it.
    pub fault: Option<Fault>,
}

/// What was asked since some moment.
#[derive(Debug, Clone, Default)]
pub struct ProxyStats {
    /// Requests.
    pub requests: u64,
    /// Bytes of bodies of requests.
    pub sent: u64,
    /// Bytes of bodies of answers.
    pub received: u64,
    /// Requests that met a fault.
    pub faults: u64,
    /// One by one, in the order in which they ended.
    pub asked: Vec<Asked>,
}

impl ProxyStats {
    /// How many requests asked this.
    pub fn of(&self, method: Method) -> usize {
        self.asked.iter().filter(|asked| asked.method == method).count()
    }

    /// How many requests met this.
    pub fn met(&self, fault: Fault) -> usize {
        self.asked.iter().filter(|asked| asked.fault == Some(fault)).count()
    }

    pub(super) fn add(&mut self, asked: Asked) {
        self.requests += 1;
        self.sent += asked.sent;
        self.received += asked.received;
        self.faults += u64::from(asked.fault.is_some());
        if self.asked.len() < ASKED_MAX {
            self.asked.push(asked);
        }
    }
}
