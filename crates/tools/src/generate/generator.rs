//! Generator of events, which writes one after the other into a buffer.

use anyhow::{Result, ensure};

use super::event_type::{EventType, event_types};
use super::profile::WeblogShape;
use super::random::{Random, mix};
use super::text::TimeWriter;
use super::timeline::{Burst, Continued, Live, Timeline};
use super::value::Scene;
use super::weblog::Weblog;
use super::world::World;
use super::{Format, Kind};

/// firn is not made for more tenants; they would only take memory.
const TENANTS_MAX: usize = 10_000;
/// Event types of bursts.
const BURST_TYPES: &[&str] = &[
    "tunnel_down",
    "link_state_change",
    "firewall_block",
    "login_failure",
    "dns_query",
    "ips_alert",
    "dns_threat",
    "socket_offline",
    "route_change",
    "service_state",
    "url_filter",
    "kernel_message",
];

/// Configuration of a generator. The same values give the same bytes.
#[derive(Debug, Clone)]
pub struct GeneratorConfig {
    /// Seed of the randomness.
    pub seed: u64,
    /// Kind of events.
    pub kind: Kind,
    /// Values of web logs; the default for other kinds.
    pub weblog: WeblogShape,
    /// Format of the lines.
    pub format: Format,
    /// At least 1.
    pub tenants: usize,
    /// Time range of the events.
    pub span: Span,
}

impl GeneratorConfig {
    /// Returns the configuration of web logs as lines of NDJSON, with as many tenants as their profile has.
    pub fn weblog(seed: u64, shape: WeblogShape, span: Span) -> Self {
        Self {
            seed,
            kind: Kind::Weblog,
            weblog: shape,
            format: Format::Ndjson,
            tenants: shape.tenants(),
            span,
        }
    }
}

/// Time range of the events.
#[derive(Debug, Clone, Copy)]
pub enum Span {
    /// `events` events from `start_ms` on and before `end_ms` (ms since 1970, UTC).
    Range {
        /// Inclusive.
        start_ms: i64,
        /// Exclusive.
        end_ms: i64,
        /// Number of events.
        events: u64,
    },
    /// At a rate, in real time, without an end.
    Live {
        /// Time of the first event, ms since 1970, UTC.
        start_ms: i64,
        /// The rate.
        events_per_second: f64,
    },
    /// In real time, without an end, at the rate of a range with `events` events (at least 1): with the same rhythm of
    /// days and weeks.
    Continued {
        /// Start of the range, inclusive, ms since 1970, UTC.
        range_start_ms: i64,
        /// End of the range, exclusive.
        range_end_ms: i64,
        /// Events of the range.
        events: u64,
        /// Time of the first event, ms since 1970, UTC.
        start_ms: i64,
    },
}

/// Writes events as lines; see [`fill`](Self::fill).
pub struct Generator {
    random: Random,
    world: World,
    /// Indices of `types`, each as often as its weight.
    draws: Vec<u16>,
    types: Vec<EventType>,
    burst_types: Vec<usize>,
    source: Source,
    times: TimeWriter,
    weblog: Option<Weblog>,
    /// The bulk action before each event; empty for plain lines.
    action: Vec<u8>,
}

enum Source {
    Range(Timeline),
    Live(Live),
    Continued(Continued),
}

impl Generator {
    /// Creates the company. Takes some milliseconds, and some 10 MB for its users and hosts.
    pub fn new(config: &GeneratorConfig) -> Result<Self> {
        ensure!(
            (1..=TENANTS_MAX).contains(&config.tenants),
            "the number of tenants must be 1 to {TENANTS_MAX}"
        );
        config.weblog.check(config.kind)?;
        let types = event_types()?;
        let draws = types.iter().enumerate();
        let draws: Vec<u16> = draws
            .flat_map(|(index, of)| std::iter::repeat_n(index as u16, of.weight as usize))
            .collect();
        let burst_types = types
            .iter()
            .enumerate()
            .filter(|(_, of)| BURST_TYPES.contains(&of.name.as_str()));
        let source = match config.span {
            Span::Range {
                start_ms,
                end_ms,
                events,
            } => Source::Range(Timeline::new(config.seed, start_ms, end_ms, events)),
            Span::Live {
                start_ms,
                events_per_second,
            } => {
                ensure!(events_per_second > 0.0, "the rate must be above 0 events per second");
                Source::Live(Live::new(config.seed, start_ms, events_per_second))
            }
            Span::Continued {
                range_start_ms,
                range_end_ms,
                events,
                start_ms,
            } => {
                ensure!(events > 0, "a range without events has no rate to continue");
                let range = Timeline::new(config.seed, range_start_ms, range_end_ms, events);
                Source::Continued(Continued::new(range, start_ms))
            }
        };
        let action = match &config.format {
            Format::Ndjson => Vec::new(),
            Format::Bulk { index } => {
                let index = serde_json::to_string(index)?;
                format!("{{\"create\":{{\"_index\":{index}}}}}\n").into_bytes()
            }
        };
        Ok(Self {
            random: Random::new(config.seed),
            world: World::new(config.seed, config.tenants),
            draws,
            burst_types: burst_types.map(|(index, _)| index).collect(),
            types,
            source,
            times: TimeWriter::new(),
            weblog: matches!(config.kind, Kind::Weblog).then(|| Weblog::new(config.weblog, config.seed)),
            action,
        })
    }

    /// Appends at most `events_max` events to `out`, each as one line (two in bulk format), and returns their number.
    /// 0: all events are written, or, for live events, all up to `now_ms`, which a range ignores.
    pub fn fill(&mut self, out: &mut Vec<u8>, events_max: u64, now_ms: i64) -> u64 {
        let mut events = 0;
        while events < events_max {
            let next = match &mut self.source {
                Source::Range(timeline) => timeline.next(&mut self.random),
                Source::Live(live) => live.next(&mut self.random, now_ms),
                Source::Continued(continued) => continued.next(&mut self.random, now_ms),
            };
            let Some((time_ms, burst)) = next else { break };
            out.extend_from_slice(&self.action);
            self.write_event(out, time_ms, burst);
            events += 1;
        }
        events
    }

    fn write_event(&mut self, out: &mut Vec<u8>, time_ms: i64, burst: Option<Burst>) {
        let random = &mut self.random;
        // Of the events in a burst's minutes, as many belong to it as it adds.
        let burst = burst.filter(|burst| random.below(100 + burst.percent) < burst.percent);
        let (tenant, type_index) = match burst {
            Some(burst) => {
                // The random numbers of the burst choose its tenant and event type.
                let mut own = Random::new(burst.id);
                let kind = self.burst_types[(mix(burst.id) % self.burst_types.len() as u64) as usize];
                (self.world.draw_tenant(&mut own), kind)
            }
            None => {
                let draw = random.below(self.draws.len() as u64) as usize;
                (self.world.draw_tenant(random), usize::from(self.draws[draw]))
            }
        };
        let tenant = match &self.weblog {
            Some(weblog) => weblog.draws.tenant(random, tenant, self.world.tenants.len()),
            None => tenant,
        };
        let mut scene = Scene {
            world: &self.world,
            subject: self.world.draw_subject(random, tenant),
            time_ms,
            random,
            times: &mut self.times,
        };
        match &mut self.weblog {
            Some(weblog) => weblog.write(out, &mut scene),
            None => self.types[type_index].write(out, &mut scene),
        }
    }
}
