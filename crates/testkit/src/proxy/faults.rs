//! Faults that the proxy injects, and their rules.

use std::time::{Duration, Instant};

use super::stats::Method;

/// Injected fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fault {
    /// Answers 503 SlowDown without forwarding the request.
    SlowDown,
    /// Forwards the request, but drops the answer.
    TimeoutAfterSuccess,
    /// Shortens the answer and its content length.
    ShortRead,
    /// Closes the connection in the middle of the answer.
    Reset,
    /// Sends half of the answer, and then nothing.
    Stall,
    /// Flips a bit of a read object.
    BitFlip,
    /// Flips a bit of a written object.
    BitFlipInWrite,
    /// Omits recently written objects from a listing.
    StaleListing,
    /// Blocks the request before it is forwarded, until faults are set again. Not in [`Fault::ALL`], because it does
    /// not end otherwise.
    Hold,
}

impl Fault {
    /// All faults except [`Fault::Hold`].
    pub const ALL: [Self; 8] = [
        Self::SlowDown,
        Self::TimeoutAfterSuccess,
        Self::ShortRead,
        Self::Reset,
        Self::Stall,
        Self::BitFlip,
        Self::BitFlipInWrite,
        Self::StaleListing,
    ];

    /// Returns whether the fault applies to such a request.
    pub(super) fn fits(self, method: Method, has_body: bool) -> bool {
        match self {
            Self::SlowDown | Self::TimeoutAfterSuccess | Self::Reset | Self::Hold | Self::Stall => true,
            Self::ShortRead | Self::BitFlip => method == Method::Get,
            Self::BitFlipInWrite => has_body && method == Method::Put,
            Self::StaleListing => method == Method::List,
        }
    }
}

/// Selects requests for a fault.
#[derive(Debug, Clone)]
pub struct Rule {
    /// The fault.
    pub fault: Fault,
    /// Share of the applicable requests, 0 to 1.
    pub share: f64,
    /// Only requests of this kind; `None`: all.
    pub method: Option<Method>,
    /// Only requests whose path and query contain this.
    pub target: Option<String>,
    /// Maximum number of faults.
    pub times: Option<u32>,
    /// Number of requests to skip first.
    pub after: u32,
}

impl Rule {
    /// Creates a rule for this share of all applicable requests.
    pub fn share(fault: Fault, share: f64) -> Self {
        Self {
            fault,
            share,
            method: None,
            target: None,
            times: None,
            after: 0,
        }
    }

    /// Creates a rule for the next `times` applicable requests.
    pub fn next(fault: Fault, times: u32) -> Self {
        Self {
            times: Some(times),
            ..Self::share(fault, 1.0)
        }
    }

    /// Restricts the rule to requests of a kind.
    pub fn of(self, method: Method) -> Self {
        Self {
            method: Some(method),
            ..self
        }
    }

    /// Skips the first `count` matching requests.
    pub fn after(self, count: u32) -> Self {
        Self { after: count, ..self }
    }

    /// Restricts the rule to requests whose path and query contain `target`.
    pub fn at(self, target: &str) -> Self {
        Self {
            target: Some(target.to_owned()),
            ..self
        }
    }
}

/// Behaviour of the proxy besides forwarding.
#[derive(Debug, Clone)]
pub struct Faults {
    /// Delay before a request is forwarded.
    pub latency: Duration,
    /// Bandwidth limit of bodies, in both directions, over all connections.
    pub bytes_per_second: Option<u64>,
    /// Time for which a connection with a withheld answer stays open.
    pub silence: Duration,
    /// Number of recently written objects that a stale listing omits.
    pub unlisted: usize,
    /// The first rule that matches a request decides.
    pub rules: Vec<Rule>,
}

impl Default for Faults {
    fn default() -> Self {
        Self {
            latency: Duration::ZERO,
            bytes_per_second: None,
            silence: Duration::from_secs(5),
            unlisted: 3,
            rules: Vec::new(),
        }
    }
}

impl Faults {
    /// Only this delay before each request.
    pub fn latency(latency: Duration) -> Self {
        Self {
            latency,
            ..Self::default()
        }
    }

    /// Only these rules.
    pub fn rules(rules: impl IntoIterator<Item = Rule>) -> Self {
        Self {
            rules: rules.into_iter().collect(),
            ..Self::default()
        }
    }

    /// Selects the fault of a request.
    pub(super) fn draw(
        &mut self,
        random: &mut fastrand::Rng,
        method: Method,
        target: &str,
        has_body: bool,
    ) -> Option<Fault> {
        for rule in &mut self.rules {
            let is_meant = rule.fault.fits(method, has_body)
                && rule.method.is_none_or(|wanted| wanted == method)
                && rule
                    .target
                    .as_ref()
                    .is_none_or(|wanted| target.contains(wanted.as_str()))
                && rule.times != Some(0);
            if is_meant && rule.after > 0 {
                rule.after -= 1;
                continue;
            }
            if is_meant && random.f64() < rule.share {
                rule.times = rule.times.map(|times| times - 1);
                return Some(rule.fault);
            }
        }
        None
    }
}

/// Bandwidth limiter.
#[derive(Debug, Default)]
pub(super) struct Pace {
    free_at: Option<Instant>,
}

impl Pace {
    /// Returns how long to wait before these bytes may pass.
    pub(super) fn wait(&mut self, bytes: usize, bytes_per_second: u64) -> Duration {
        let now = Instant::now();
        let from = self.free_at.map_or(now, |free_at| free_at.max(now));
        let free_at = from + Duration::from_secs_f64(bytes as f64 / bytes_per_second as f64);
        self.free_at = Some(free_at);
        free_at - now
    }
}
