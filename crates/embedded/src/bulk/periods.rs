//! Placement of events in data streams with periods: each event goes to the backing index of its time.

use std::collections::{BTreeSet, HashMap};
use std::ops::{Range, RangeInclusive};
use std::sync::Arc;

use firn_engine::document::BulkItem;
use firn_model::dates::DateFormat;
use firn_model::mapping::Resolved;
use firn_model::metadata::{Command, DataStream, Metadata, TIMESTAMP, event_times};
use firn_model::names::{WriteTarget, resolve_date_math};
use firn_model::period::print_instant;
use firn_model::{Error, ErrorKind, Result};
use firn_shard::mapper::MappedDocument;
use sonic_rs::JsonValueTrait;

use super::member_lookup;
use super::progress::source_of;
use super::service::WriteService;
use crate::node::state::IndexState;

/// Every period is a number of whole days, so one time of a day selects the index of the whole day.
const DAY_MS: i64 = 86_400_000;

/// Index of an event, or the error. `None`: the write index of its name; if the event has no valid time,
/// the mapper reports that.
type EventIndex = Option<Result<Arc<str>>>;

/// Returns the backing indices of a bulk's events by position, after creating missing ones; empty if no
/// event goes to a data stream with periods.
pub(super) fn place(
    writes: &WriteService,
    items: &[BulkItem],
    targets: &HashMap<String, Result<WriteTarget>>,
) -> Vec<EventIndex> {
    let metadata = Arc::clone(&writes.node.state().metadata);
    let now_ms = writes.node.now_ms();
    let mut streams: HashMap<&str, Stream> = HashMap::new();
    for (name, target) in targets {
        if let Ok(target) = target
            && target.through_data_stream
            && let Some(stream) = Stream::open(name, &metadata, now_ms)
        {
            streams.insert(name, stream);
        }
    }
    if streams.is_empty() {
        return Vec::new();
    }
    let mut placed: Vec<EventIndex> = items.iter().map(|_| None).collect();
    let mut waiting: Vec<(usize, i64)> = Vec::new();
    for (position, item) in items.iter().enumerate() {
        let Some(stream) = streams.get_mut(item.index.as_str()) else {
            continue;
        };
        let Some(ms) = source_of(item).and_then(|source| event_time(source, &stream.format)) else {
            continue;
        };
        if !stream.limits.contains(&ms)
            && let Err(error) = metadata.check_event_time(&stream.stream, ms, now_ms)
        {
            placed[position] = Some(Err(error));
            continue;
        }
        match stream.find(ms) {
            Some(index) => placed[position] = Some(Ok(index)),
            None => {
                stream.missing.insert(ms.div_euclid(DAY_MS) * DAY_MS);
                waiting.push((position, ms));
            }
        }
    }
    for stream in streams.values_mut() {
        stream.make_missing(writes);
    }
    for (position, ms) in waiting {
        if let Some(stream) = streams.get_mut(items[position].index.as_str()) {
            placed[position] = match (stream.find(ms), &stream.failure) {
                (Some(index), _) => Some(Ok(index)),
                (None, Some(error)) => Some(Err(error.clone())),
                // The stream no longer has periods: its newest index takes events outside of the existing spans.
                (None, None) => stream.newest.clone().map(Ok),
            };
        }
    }
    placed
}

/// Data stream with periods, as one bulk uses it.
struct Stream {
    stream: Arc<DataStream>,
    /// Format of `@timestamp`.
    format: Arc<DateFormat>,
    /// [`Metadata::spans`].
    spans: Vec<(Range<i64>, Arc<str>)>,
    /// Position of the span of the previous event: most events follow each other in time.
    last: usize,
    /// Start times of days whose events have no index yet, ms.
    missing: BTreeSet<i64>,
    /// Why the missing indices cannot be created.
    failure: Option<Error>,
    /// Times that need no check against the stream's limits, ms.
    limits: RangeInclusive<i64>,
    /// Index for events of no period, once it is created.
    newest: Option<Arc<str>>,
}

impl Stream {
    fn open(name: &str, metadata: &Metadata, now_ms: i64) -> Option<Self> {
        let name = resolve_date_math(name, now_ms).ok()?;
        let stream = metadata.data_streams.get(&name)?;
        metadata.period_of(stream)?;
        let newest = metadata.indices.get(stream.indices.last()?)?;
        let format = match newest.mapping.resolve(TIMESTAMP) {
            Some(Resolved::Field(_, field)) => field.format.clone(),
            _ => None,
        };
        Some(Self {
            spans: spans_of(metadata, stream),
            stream: Arc::clone(stream),
            format: format.unwrap_or_else(|| Arc::new(DateFormat::default_millis())),
            last: 0,
            missing: BTreeSet::new(),
            failure: None,
            limits: event_times(&newest.settings, now_ms),
            newest: None,
        })
    }

    fn find(&mut self, ms: i64) -> Option<Arc<str>> {
        let hit = |span: &(Range<i64>, Arc<str>)| span.0.contains(&ms);
        if !self.spans.get(self.last).is_some_and(hit) {
            self.last = self.spans.iter().position(hit)?;
        }
        Some(Arc::clone(&self.spans[self.last].1))
    }

    fn make_missing(&mut self, writes: &WriteService) {
        if self.missing.is_empty() {
            return;
        }
        let name = &self.stream.name;
        let made = writes.devices.hot.check(name).and_then(|()| {
            writes.commands.execute(Command::CreateBackingIndices {
                stream: name.clone(),
                times_ms: self.missing.iter().copied().collect(),
            })
        });
        self.failure = made.err();
        let metadata = &writes.node.state().metadata;
        if let Some(stream) = metadata.data_streams.get(name) {
            self.spans = spans_of(metadata, stream);
            self.last = 0;
            let is_unbound = |name: &String| {
                let index = metadata.indices.get(name);
                index.is_some_and(|index| index.settings.time_range_ms.is_none())
            };
            let newest = stream.indices.last().filter(|name| is_unbound(name));
            self.newest = newest.map(|name| Arc::from(name.as_str()));
        }
    }
}

fn spans_of(metadata: &Metadata, stream: &DataStream) -> Vec<(Range<i64>, Arc<str>)> {
    let spans = metadata.spans(stream);
    spans.map(|(range, name)| (range.clone(), Arc::from(name))).collect()
}

/// Returns the time of an event, as the mapper will read it, ms; `None`: it has none, or the mapper
/// will refuse it.
fn event_time(source: &[u8], format: &DateFormat) -> Option<i64> {
    let value = member_lookup::member(source, TIMESTAMP).ok()??;
    if value.is_number() {
        return format.parse_ms(value.as_raw_str()).ok();
    }
    format.parse_ms(value.as_str()?).ok()
}

/// Fails if a mapped document is outside of its index's time range, however it was routed:
/// searches prune indices by that range.
pub(super) fn check_time(index: &IndexState, document: &MappedDocument) -> Result<()> {
    let Some(range) = &index.metadata.settings.time_range_ms else {
        return Ok(());
    };
    let reason = match document.time_range_ms() {
        Some((first, last)) if range.contains(&first) && range.contains(&last) => return Ok(()),
        Some((first, last)) => {
            let outside = if range.contains(&first) { last } else { first };
            format!(
                "index [{}] takes events from [{}] to before [{}], and the document timestamp is [{}]",
                index.name,
                print_instant(range.start),
                print_instant(range.end),
                print_instant(outside)
            )
        }
        None => format!("data stream timestamp field [{TIMESTAMP}] is not a date"),
    };
    Err(Error::new(ErrorKind::DocumentParsing, reason).with_index(&*index.name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_time_of_an_event() {
        let format = DateFormat::default_millis();
        for (source, expect) in [
            (
                r#"{"a":1,"@timestamp":"2026-01-01T00:00:00Z"}"#,
                Some(1_767_225_600_000),
            ),
            (
                r#"{"@timestamp":"2026-01-01T01:00:00.5+01:00"}"#,
                Some(1_767_225_600_500),
            ),
            (r#"{"@timestamp":1767225600000}"#, Some(1_767_225_600_000)),
            (r#"{"@timestamp":"1767225600000"}"#, Some(1_767_225_600_000)),
            (r#"{"@timestamp":"yesterday"}"#, None),
            (r#"{"@timestamp":["2026-01-01"]}"#, None),
            (r#"{"@timestamp":null}"#, None),
            (r#"{"a":{"@timestamp":5}}"#, None),
            ("no json", None),
        ] {
            assert_eq!(event_time(source.as_bytes(), &format), expect, "{source}");
        }
    }
}
