//! Statistics of the requests through the proxy.

use super::Fault;

/// Maximum number of recorded requests; later ones only count in the sums.
const REQUEST_LOG_MAX: usize = 200_000;

/// Kind of a request, by HTTP method and S3 parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Method {
    /// Reads bytes of an object.
    Get,
    /// Lists objects.
    List,
    /// Reads the metadata of an object.
    Head,
    /// Writes an object or a part.
    Put,
    /// Starts or completes a multipart upload, or deletes several objects.
    Post,
    /// Deletes an object or parts.
    Delete,
}

/// Recorded request.
#[derive(Debug, Clone)]
pub struct ProxiedRequest {
    /// Kind of the request.
    pub method: Method,
    /// Path and query.
    pub target: String,
    /// `Range` header.
    pub range: Option<String>,
    /// Status of the answer; `None` without an answer.
    pub status: Option<u16>,
    /// Bytes of the request's body.
    pub sent: u64,
    /// Bytes of the answer's body.
    pub received: u64,
    /// Injected fault.
    pub fault: Option<Fault>,
}

/// Statistics since the start or a reset.
#[derive(Debug, Clone, Default)]
pub struct ProxyStats {
    /// Number of requests.
    pub requests: u64,
    /// Bytes of request bodies.
    pub sent: u64,
    /// Bytes of answer bodies.
    pub received: u64,
    /// Requests with an injected fault.
    pub faults: u64,
    /// Recorded requests, in the order of their ends.
    pub request_log: Vec<ProxiedRequest>,
}

impl ProxyStats {
    /// Returns the number of requests of a kind.
    pub fn of(&self, method: Method) -> usize {
        self.request_log
            .iter()
            .filter(|request| request.method == method)
            .count()
    }

    /// Returns the number of requests with a fault.
    pub fn met(&self, fault: Fault) -> usize {
        self.request_log
            .iter()
            .filter(|request| request.fault == Some(fault))
            .count()
    }

    pub(super) fn add(&mut self, request: ProxiedRequest) {
        self.requests += 1;
        self.sent += request.sent;
        self.received += request.received;
        self.faults += u64::from(request.fault.is_some());
        if self.request_log.len() < REQUEST_LOG_MAX {
            self.request_log.push(request);
        }
    }
}
