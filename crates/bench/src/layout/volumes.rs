//! The events, their number by tenant and day, and the measured tenants.

use std::collections::HashMap;

use anyhow::{Context, bail, ensure};
use firn_tools::generate::{Format, Generator, GeneratorConfig, Kind, Span, WeblogShape};

use super::period::DAY_MS;

/// 2026-01-05T00:00:00Z, a Monday: three weeks from here are three whole weekly indices and are in one month.
pub(crate) const START_MS: i64 = 1_767_571_200_000;
/// A tenant with fewer events gives no useful results.
const SMALL_EVENTS_MIN: u64 = 300;
/// Events generated at once.
const CHUNK_EVENTS: u64 = 1000;

/// Parameters of the generator. The same values give the same events.
#[derive(Debug, Clone, Copy, serde::Serialize)]
pub(crate) struct Source {
    pub(crate) seed: u64,
    pub(crate) events: u64,
    pub(crate) tenants: usize,
    pub(crate) weeks: u32,
}

/// Time and tenant of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place<'a> {
    pub(crate) time_ms: i64,
    pub(crate) tenant: &'a str,
}

/// A tenant and its events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Volume {
    pub(crate) tenant: String,
    pub(crate) events: u64,
    pub(crate) bytes: u64,
    /// Events by day since [`START_MS`].
    pub(crate) days: Vec<u64>,
}

impl Source {
    /// Returns the instant after the last event.
    pub(crate) fn end_ms(&self) -> i64 {
        START_MS + i64::from(self.weeks) * 7 * DAY_MS
    }

    pub(crate) fn generator(&self) -> anyhow::Result<Generator> {
        Generator::new(&GeneratorConfig {
            seed: self.seed,
            kind: Kind::Events,
            weblog: WeblogShape::default(),
            format: Format::Ndjson,
            tenants: self.tenants,
            span: Span::Range {
                start_ms: START_MS,
                end_ms: self.end_ms(),
                events: self.events,
            },
        })
    }

    /// Generates all events once and counts them; tenants with the most events first.
    pub(crate) fn volumes(&self) -> anyhow::Result<Vec<Volume>> {
        let mut generator = self.generator()?;
        let mut volumes: HashMap<String, Volume> = HashMap::new();
        let days = 7 * self.weeks as usize;
        let mut chunk = Vec::new();
        while generator.fill(&mut chunk, CHUNK_EVENTS, 0) > 0 {
            for line in chunk.split_inclusive(|byte| *byte == b'\n') {
                let place = place(line)?;
                let volume = match volumes.get_mut(place.tenant) {
                    Some(volume) => volume,
                    None => volumes.entry(place.tenant.to_owned()).or_insert_with(|| Volume {
                        tenant: place.tenant.to_owned(),
                        events: 0,
                        bytes: 0,
                        days: vec![0; days],
                    }),
                };
                let day = usize::try_from((place.time_ms - START_MS).div_euclid(DAY_MS)).unwrap_or(usize::MAX);
                *volume.days.get_mut(day).context("an event is outside of its time")? += 1;
                volume.events += 1;
                volume.bytes += line.len() as u64;
            }
            chunk.clear();
        }
        let mut volumes: Vec<Volume> = volumes.into_values().collect();
        volumes.sort_by(|a, b| b.events.cmp(&a.events).then_with(|| a.tenant.cmp(&b.tenant)));
        Ok(volumes)
    }
}

impl Volume {
    /// Returns the events of the last `weeks` weeks by day.
    pub(crate) fn last_days(&self, weeks: u32) -> &[u64] {
        &self.days[self.days.len() - 7 * weeks as usize..]
    }
}

/// Returns time and tenant of an event, which the generator always writes first and without escapes.
pub(crate) fn place(line: &[u8]) -> anyhow::Result<Place<'_>> {
    fn value<'a>(line: &'a [u8], start: &str) -> Option<(&'a str, &'a [u8])> {
        let rest = line.strip_prefix(start.as_bytes())?;
        let end = rest.iter().position(|byte| *byte == b'"')?;
        Some((std::str::from_utf8(&rest[..end]).ok()?, &rest[end + 1..]))
    }
    let (time, rest) = value(line, r#"{"@timestamp":""#).context("an event does not begin with its time")?;
    let (tenant, _) = value(rest, r#","tenant":""#).context("an event's tenant does not follow its time")?;
    let time: jiff::Timestamp = time.parse().context("an event's time is invalid")?;
    Ok(Place {
        time_ms: time.as_millisecond(),
        tenant,
    })
}

/// Chooses tenants by their position in the volumes: the largest, the one in the middle of the ranks, and the smallest
/// with enough events.
pub(crate) fn choose(volumes: &[Volume]) -> anyhow::Result<[usize; 3]> {
    ensure!(
        volumes.len() >= 3,
        "a large, a middle and a small tenant need at least 3 tenants"
    );
    let middle = volumes.len() / 2;
    let small = volumes.iter().rposition(|volume| volume.events >= SMALL_EVENTS_MIN);
    match small {
        Some(small) if small > middle => Ok([0, middle, small]),
        _ => bail!(
            "fewer than half of the tenants have {SMALL_EVENTS_MIN} events: more events, or fewer tenants, are needed"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_tell_their_place() {
        let line = br#"{"@timestamp":"2026-01-05T00:00:01.500Z","tenant":"tenant-007","event_class":"x"}"#;
        let expected = Place {
            time_ms: START_MS + 1500,
            tenant: "tenant-007",
        };
        assert_eq!(place(line).unwrap(), expected);
        assert!(place(br#"{"tenant":"x"}"#).is_err());
    }

    #[test]
    fn volumes_count_every_event_once() {
        let source = Source {
            seed: 3,
            events: 20_000,
            tenants: 12,
            weeks: 3,
        };
        let volumes = source.volumes().unwrap();
        assert_eq!(volumes.len(), 12);
        assert_eq!(volumes.iter().map(|volume| volume.events).sum::<u64>(), 20_000);
        assert!(
            volumes
                .iter()
                .all(|volume| volume.days.iter().sum::<u64>() == volume.events)
        );
        assert!(volumes.is_sorted_by(|a, b| a.events >= b.events));
        let [large, middle, small] = choose(&volumes).unwrap();
        assert!(large < middle && middle < small && volumes[small].events >= SMALL_EVENTS_MIN);
        assert!(choose(&volumes[..2]).is_err());
    }
}
