//! What can go wrong, and how often.

use std::time::{Duration, Instant};

use super::stats::Method;

/// What befalls a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fault {
    /// 503 SlowDown; the store is not asked.
    SlowDown,
    /// The store does what it is asked, and its answer never arrives.
    TimeoutAfterSuccess,
    /// The answer says it is shorter than what was asked for, and is.
    ShortRead,
    /// The connection ends in the middle of the answer.
    Reset,
    /// Half of the answer comes, and then nothing.
    Stall,
    /// A bit of an object that is read is another.
    BitFlip,
    /// A bit of an object that is written is another.
    BitFlipInWrite,
    /// A listing lacks what was written last.
    StaleListing,
    /// The request waits before the store is asked, until the faults are set anew. None of [`Fault::ALL`]: it ends with nothing else.
    Hold,
}

impl Fault {
    /// All of them.
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

    /// Whether it can befall such a request.
    pub(super) fn fits(self, method: Method, has_body: bool) -> bool {
        match self {
            Self::SlowDown | Self::TimeoutAfterSuccess | Self::Reset | Self::Hold | Self::Stall => true,
            Self::ShortRead | Self::BitFlip => method == Method::Get,
            Self::BitFlipInWrite => has_body && method == Method::Put,
            Self::StaleListing => method == Method::List,
        }
    }
}

/// Which requests meet a fault.
#[derive(Debug, Clone)]
pub struct Rule {
    /// What befalls them.
    pub fault: Fault,
    /// How many of those that it fits, 0 to 1.
    pub share: f64,
    /// Only these; all if `None`.
    pub method: Option<Method>,
    /// Only those whose path and query contain this.
    pub target: Option<String>,
    /// Ends after so many.
    pub times: Option<u32>,
    /// Passes over so many first.
    pub after: u32,
}

impl Rule {
    /// Befalls this share of all requests that it fits.
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

    /// Befalls the next `times` requests that it fits.
    pub fn next(fault: Fault, times: u32) -> Self {
        Self {
            times: Some(times),
            ..Self::share(fault, 1.0)
        }
    }

    /// Only requests of this kind.
    pub fn of(self, method: Method) -> Self {
        Self {
            method: Some(method),
            ..self
        }
    }

    /// Not the first `count` that it is meant for.
    pub fn after(self, count: u32) -> Self {
        Self { after: count, ..self }
    }

    /// Only requests whose path and query contain `target`.
    pub fn at(self, target: &str) -> Self {
        Self {
            target: Some(target.to_owned()),
            ..self
        }
    }
}

/// What the proxy does besides forwarding.
#[derive(Debug, Clone)]
pub struct Faults {
    /// Before a request is forwarded.
    pub latency: Duration,
    /// Bytes of bodies, both ways, over all connections.
    pub bytes_per_second: Option<u64>,
    /// How long a connection whose answer is withheld stays open.
    pub silence: Duration,
    /// How many of the last written objects a stale listing lacks.
    pub unlisted: usize,
    /// The first that befalls a request is its fault.
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
    /// Nothing but this delay before each request.
    pub fn latency(latency: Duration) -> Self {
        Self {
            latency,
            ..Self::default()
        }
    }

    /// Nothing but these.
    pub fn rules(rules: impl IntoIterator<Item = Rule>) -> Self {
        Self {
            rules: rules.into_iter().collect(),
            ..Self::default()
        }
    }

    /// What befalls a request.
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

/// When the line is free again.
#[derive(Debug, Default)]
pub(super) struct Pace {
    free_at: Option<Instant>,
}

impl Pace {
    /// How long to wait before so many more bytes go through.
    pub(super) fn wait(&mut self, bytes: usize, bytes_per_second: u64) -> Duration {
        let now = Instant::now();
        let from = self.free_at.map_or(now, |free_at| free_at.max(now));
        let free_at = from + Duration::from_secs_f64(bytes as f64 / bytes_per_second as f64);
        self.free_at = Some(free_at);
        free_at - now
    }
}
