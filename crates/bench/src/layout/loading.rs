//! Loading of the events into every subject that does not have them yet.
//!
//! All subjects are loaded in one pass over the generator: the same events in the same order, in the same batches, one
//! server after the other. The loaded events are marked in the mappings, so that another run can find them.

use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use firn_tools::client::encode_segment;
use serde_json::{Value, json};

use super::period::{Span, spans};
use super::subjects::{Layout, Subject};
use super::volumes::{START_MS, Source, Volume, place};
use super::{firn_layout, mark};
use crate::core::Side;
use crate::writing::{Batch, send_round};

/// Interval between progress reports.
const REPORT_EVERY: Duration = Duration::from_secs(10);

/// Parameters of the loading.
#[derive(Debug, Clone, Copy)]
pub(super) struct Manner {
    /// Concurrent bulk requests.
    pub(super) parallel: usize,
    pub(super) batch_bytes: usize,
    /// Keep subjects that have all events.
    pub(super) reuse: bool,
    pub(super) own_shards: u32,
}

/// A subject that takes part in the loading.
struct Target<'a> {
    subject: &'a Subject,
    side: &'a Side,
    /// Indices by time; empty for a data stream, which selects its indices.
    spans: Vec<(Span, String)>,
    seconds: f64,
}

/// Loads the missing events; returns the seconds by subject, `None` for subjects that had them.
pub(super) fn load(
    manner: &Manner,
    source: &Source,
    volumes: &[Volume],
    sides: &[Side],
    subjects: &[Subject],
) -> anyhow::Result<Vec<Option<f64>>> {
    let mut targets = Vec::new();
    // Indices get the table when they are created, which happens while they are loaded.
    let mut placed = None;
    for subject in subjects {
        let side = &sides[subject.server];
        let context = || format!("preparing {} on {}", subject.name, side.server.version);
        if manner.reuse && is_there(source, side, subject).with_context(context)? {
            eprintln!("{} on {} exists already", subject.name, side.server.version);
            continue;
        }
        let spans = match subject.layout.cut() {
            Some(_) => create_indices(source, side, subject),
            None => {
                placed = Some((side, firn_layout::present_placement(side).with_context(context)?));
                firn_layout::create(source, volumes, manner.own_shards, side, subject).map(|()| Vec::new())
            }
        };
        targets.push(Target {
            subject,
            side,
            spans: spans.with_context(context)?,
            seconds: 0.0,
        });
    }
    let sent = if targets.is_empty() {
        Ok(())
    } else {
        send_all(manner, source, &mut targets)
    };
    if let Some((side, earlier)) = placed {
        firn_layout::restore_placement(side, earlier.as_ref())?;
    }
    sent?;
    for target in &mut targets {
        let started = Instant::now();
        let (client, path) = (&target.side.client, target.subject.path());
        client.json("POST", &format!("{path}/_refresh"), None)?;
        client.json("POST", &format!("{path}/_flush"), None)?;
        target.seconds += started.elapsed().as_secs_f64();
        let count = count(target.side, target.subject)?;
        ensure!(
            count == source.events,
            "{} has {count} events after loading {}",
            target.subject.name,
            source.events
        );
    }
    let seconds = |subject: &Subject| {
        let target = targets.iter().find(|target| std::ptr::eq(target.subject, subject))?;
        Some(target.seconds)
    };
    Ok(subjects.iter().map(seconds).collect())
}

/// Whether the subject holds exactly these events.
fn is_there(source: &Source, side: &Side, subject: &Subject) -> anyhow::Result<bool> {
    let path = format!("{}/_mapping", subject.path());
    let answer = side.client.send("GET", &path, None);
    let answer = answer.map_err(|failure| anyhow::anyhow!("{path}: {failure}"))?;
    if answer.status == 404 {
        return Ok(false);
    }
    ensure!(answer.status == 200, "{path}: {}", answer.problem());
    let mappings: serde_json::Map<String, Value> = serde_json::from_slice(&answer.body).context("no mappings")?;
    let marked = |index: &Value| mark::is_of(source, &index["mappings"]);
    Ok(!mappings.is_empty() && mappings.values().all(marked) && count(side, subject)? == source.events)
}

/// Returns the number of searchable events.
fn count(side: &Side, subject: &Subject) -> anyhow::Result<u64> {
    let answer = side.client.json("GET", &format!("{}/_count", subject.path()), None)?;
    answer["count"].as_u64().context("_count returned none")
}

/// Creates the indices of a layout that the server does not support itself, empty.
fn create_indices(source: &Source, side: &Side, subject: &Subject) -> anyhow::Result<Vec<(Span, String)>> {
    let Some((period, shards)) = subject.layout.cut() else {
        bail!("{} has no indices of its own", subject.name);
    };
    let body = json!({
        "settings": {"index.number_of_shards": shards, "index.number_of_replicas": 0},
        "mappings": mark::mappings(source)?,
    });
    let mut created = Vec::new();
    for span in spans(period, START_MS, source.end_ms())? {
        let index = format!("{}-{}", subject.name, span.name);
        let path = format!("/{}", encode_segment(&index));
        if side.client.exists(&path)? {
            side.client.json("DELETE", &path, None)?;
        }
        side.client.json("PUT", &path, Some(&body))?;
        created.push((span, index));
    }
    Ok(created)
}

fn send_all(manner: &Manner, source: &Source, targets: &mut [Target<'_>]) -> anyhow::Result<()> {
    let mut generator = source.generator()?;
    let (mut events, mut said) = (0u64, Instant::now());
    loop {
        let mut rounds: Vec<Vec<u8>> = Vec::new();
        while rounds.len() < manner.parallel {
            let mut lines = Vec::with_capacity(manner.batch_bytes + (64 << 10));
            while lines.len() < manner.batch_bytes {
                let made = generator.fill(&mut lines, 64, 0);
                events += made;
                if made == 0 {
                    break;
                }
            }
            if lines.is_empty() {
                break;
            }
            rounds.push(lines);
        }
        if rounds.is_empty() {
            return Ok(());
        }
        for target in &mut *targets {
            let batches: anyhow::Result<Vec<Batch>> = rounds.iter().map(|lines| target.batch(lines)).collect();
            let path = match target.subject.layout {
                Layout::Own => format!("{}/_bulk", target.subject.path()),
                _ => "/_bulk".to_owned(),
            };
            let started = Instant::now();
            let outcomes = send_round(&target.side.client, &path, &batches?);
            target.seconds += started.elapsed().as_secs_f64();
            for outcome in outcomes {
                outcome
                    .with_context(|| format!("loading {} on {}", target.subject.name, target.side.server.version))?;
            }
        }
        if said.elapsed() > REPORT_EVERY {
            said = Instant::now();
            eprintln!("{events} of {} events", source.events);
        }
    }
}

impl Target<'_> {
    /// Returns the events, each with an action line for this layout.
    fn batch(&self, lines: &[u8]) -> anyhow::Result<Batch> {
        let mut body = Vec::with_capacity(lines.len() + lines.len() / 4);
        let mut events = 0;
        for line in lines.split_inclusive(|byte| *byte == b'\n') {
            action(self.subject.layout, &self.spans, line, &mut body)?;
            body.extend_from_slice(line);
            events += 1;
        }
        Ok(Batch { body, events })
    }
}

/// Appends the action line of an event.
fn action(layout: Layout, spans: &[(Span, String)], line: &[u8], body: &mut Vec<u8>) -> anyhow::Result<()> {
    if layout == Layout::Own {
        body.extend_from_slice(b"{\"create\":{}}\n");
        return Ok(());
    }
    let place = place(line)?;
    let number = spans.partition_point(|(span, _)| span.end_ms <= place.time_ms);
    let (_, index) = spans.get(number).context("an event is outside of its time")?;
    // Names of indices and tenants need no escapes.
    body.extend_from_slice(b"{\"create\":{\"_index\":\"");
    body.extend_from_slice(index.as_bytes());
    if layout.is_routed() {
        body.extend_from_slice(b"\",\"routing\":\"");
        body.extend_from_slice(place.tenant.as_bytes());
    }
    body.extend_from_slice(b"\"}}\n");
    Ok(())
}

/// Returns the indices of a subject: those behind its name.
pub(super) fn indices(side: &Side, subject: &Subject) -> anyhow::Result<Vec<String>> {
    let path = format!("{}/_settings", subject.path());
    let answer = side.client.json("GET", &path, None)?;
    let indices = answer.as_object().context("_settings has no indices")?;
    Ok(indices.keys().cloned().collect())
}

/// Merges every shard to one segment, index by index so that no request takes too long.
pub(super) fn merge(side: &Side, subject: &Subject) -> anyhow::Result<()> {
    for index in indices(side, subject)? {
        let path = format!("/{}", encode_segment(&index));
        side.client
            .json("POST", &format!("{path}/_forcemerge?max_num_segments=1"), None)?;
    }
    let path = subject.path();
    side.client.json("POST", &format!("{path}/_flush"), None)?;
    side.client.json("POST", &format!("{path}/_refresh"), None)?;
    Ok(())
}

/// Stored form of a subject on its server.
#[derive(Debug, Clone, serde::Serialize)]
pub(super) struct Stored {
    pub(super) indices: usize,
    pub(super) shards: u64,
    pub(super) segments: Option<u64>,
    pub(super) bytes: Option<u64>,
}

/// Reads the stored form.
pub(super) fn look(side: &Side, subject: &Subject) -> anyhow::Result<Stored> {
    let stats = side
        .client
        .json("GET", &format!("{}/_stats/store,segments", subject.path()), None)?;
    let indices = indices(side, subject)?;
    let primaries = &stats["_all"]["primaries"];
    Ok(Stored {
        indices: indices.len(),
        shards: stats["_shards"]["successful"]
            .as_u64()
            .context("_stats has no shards")?,
        segments: primaries["segments"]["count"].as_u64(),
        bytes: primaries["store"]["size_in_bytes"].as_u64(),
    })
}

#[cfg(test)]
mod tests {
    use firn_model::period::Period;

    use super::*;

    fn action_of(layout: Layout, line: &str) -> anyhow::Result<String> {
        let end_ms = START_MS + 21 * super::super::period::DAY_MS;
        let spans = spans(Period::Week, START_MS, end_ms)?;
        let name = |span: Span| (span.clone(), format!("b-x-{}", span.name));
        let spans: Vec<_> = spans.into_iter().map(name).collect();
        let mut body = Vec::new();
        action(layout, &spans, line.as_bytes(), &mut body)?;
        Ok(String::from_utf8(body)?)
    }

    #[test]
    fn events_go_to_the_index_of_their_time() {
        let line = r#"{"@timestamp":"2026-01-12T00:00:00.000Z","tenant":"tenant-007","x":1}"#;
        let check = |layout, expect: &str| assert_eq!(action_of(layout, line).unwrap(), format!("{expect}\n"));
        check(Layout::Daily, r#"{"create":{"_index":"b-x-2026.01.12"}}"#);
        check(
            Layout::RoutedWeekly,
            r#"{"create":{"_index":"b-x-2026.01.12","routing":"tenant-007"}}"#,
        );
        check(Layout::Own, r#"{"create":{}}"#);
        let late = r#"{"@timestamp":"2027-01-12T00:00:00.000Z","tenant":"tenant-007"}"#;
        assert!(action_of(Layout::Daily, late).is_err());
    }
}
