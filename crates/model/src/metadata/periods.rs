//! Backing indices by period (`index.period`): one for each span of time, created when an event needs it.

use std::collections::BTreeSet;
use std::ops::{Range, RangeInclusive};
use std::sync::Arc;

use super::change::Change;
use super::data_streams::no_template;
use super::{DataStream, IndexMetadata, IndexTemplate, Metadata};
use crate::period::{Period, print_instant};
use crate::settings::IndexSettings;
use crate::{Error, ErrorKind, Result};

/// Maximum number of new backing indices of one command. A request whose events lie in more unused periods probably has
/// broken clocks, and each index costs files and memory.
pub const NEW_PERIODS_MAX: usize = 100;
/// Age of a period's end, above which its index is created only while spare shards exist.
const RECENT_MS: i64 = 7 * 86_400_000;
/// Reserved part of the shards: one in this many.
const RESERVED_PART: u64 = 4;

impl Metadata {
    /// Returns the period of a data stream, taken from its newest index.
    pub fn period_of(&self, stream: &DataStream) -> Option<Period> {
        self.indices.get(stream.indices.last()?)?.settings.period
    }

    /// Returns the backing indices that accept events, newest first, each with its span of time, ms. If two cover the
    /// same time, the first one is used.
    pub fn spans<'s>(&self, stream: &'s DataStream) -> impl Iterator<Item = (&Range<i64>, &'s str)> {
        stream.indices.iter().rev().filter_map(|name| {
            let index = self.indices.get(name)?;
            let range = index.settings.time_range_ms.as_ref()?;
            takes_events(index).then_some((range, name.as_str()))
        })
    }

    /// Returns the backing index for an event of this time. `None`: none exists yet, or none accepts events any more.
    pub fn backing_index_at<'s>(&self, stream: &'s DataStream, ms: i64) -> Option<&'s str> {
        let mut spans = self.spans(stream);
        spans.find(|(range, _)| range.contains(&ms)).map(|(_, name)| name)
    }

    /// Returns the backing index for documents without a time: with periods the one of now, else the newest.
    pub fn write_index<'s>(&self, stream: &'s DataStream, now_ms: i64) -> Option<&'s str> {
        let newest = stream.indices.last().map(String::as_str);
        match self.period_of(stream) {
            Some(_) => self.backing_index_at(stream, now_ms).or(newest),
            None => newest,
        }
    }

    /// Checks whether a data stream accepts an event of this time, by the settings of its newest index.
    pub fn check_event_time(&self, stream: &DataStream, ms: i64, now_ms: i64) -> Result<()> {
        let newest = stream.indices.last().and_then(|index| self.indices.get(index));
        let Some(settings) = newest.map(|index| &index.settings) else {
            return Ok(());
        };
        let (first_ms, last_ms) = event_times(settings, now_ms).into_inner();
        let (what, setting) = if ms < first_ms {
            ("older", "index.time.past_limit")
        } else if ms > last_ms {
            ("later", "index.time.future_limit")
        } else {
            return Ok(());
        };
        let bound = print_instant(first_ms.max(ms.min(last_ms)));
        Err(Error::illegal_argument(format!(
            "the document timestamp [{}] is {what} than data stream [{}] accepts, [{bound}]: see [{setting}]",
            print_instant(ms),
            stream.name
        )))
    }
}

/// Returns the range of event times that a data stream with periods accepts, ms.
pub fn event_times(settings: &IndexSettings, now_ms: i64) -> RangeInclusive<i64> {
    now_ms.saturating_sub_unsigned(settings.past_limit_ms)..=now_ms.saturating_add_unsigned(settings.future_limit_ms)
}

/// Whether an index accepts events. Mounted indices and indices that a policy made read-only do not: a late event for
/// such an index belongs in another index of the same time. A block that a user set by hand fails the write instead.
fn takes_events(index: &IndexMetadata) -> bool {
    let settings = &index.settings;
    !(settings.is_mounted() || settings.write_blocked && index.lifecycle_policy().is_some())
}

impl Change<'_> {
    /// Creates the missing backing indices for events of these times.
    pub(super) fn create_backing_indices(&mut self, stream_name: &str, times_ms: &[i64]) -> Result<()> {
        let stream = self.stream(stream_name)?;
        let template = self.stream_template(stream_name)?;
        let Some(period) = self.template_period(&template)? else {
            // The template no longer has a period: one more index accepts all further events.
            if self.next.period_of(&stream).is_some() {
                self.add_backing_index(stream_name, &template)?;
            }
            return Ok(());
        };
        let mut missing: BTreeSet<(i64, i64)> = BTreeSet::new();
        for ms in times_ms {
            if self.next.backing_index_at(&stream, *ms).is_none() {
                let range = period.range_of(*ms).ok_or_else(|| out_of_time(&stream.name))?;
                missing.insert((range.start, range.end));
            }
        }
        if missing.len() > NEW_PERIODS_MAX {
            return Err(Error::illegal_argument(format!(
                "the request's events would create [{}] new backing indices of data stream [{stream_name}], the limit \
                 is [{NEW_PERIODS_MAX}]: send fewer events in one request, or choose a longer [index.period]",
                missing.len()
            )));
        }
        for (start, end) in missing {
            self.check_room_for_old(stream_name, end)?;
            self.check_room_for_period(stream_name, &template)?;
            self.add_period(stream_name, &template, Some(start..end))?;
        }
        Ok(())
    }

    /// Protects the last shards, which current events need, from old events: any writer can invent old events.
    fn check_room_for_old(&self, stream: &str, end_ms: i64) -> Result<()> {
        if end_ms > self.now_ms - RECENT_MS {
            return Ok(());
        }
        let (open, limit) = (self.next.indices.open_shards().normal, self.shards_max());
        if open >= limit - limit / RESERVED_PART {
            // A 429, because the events are valid: shippers keep them and retry.
            return Err(Error::new(
                ErrorKind::QuotaExceeded,
                format!(
                    "events of [{}] would create a new backing index of data stream [{stream}], but \
                     [{open}] of the [{limit}] shards of [cluster.max_shards_per_node] are open, and the last quarter \
                     is reserved for recent events",
                    print_instant(end_ms - 1)
                ),
            ));
        }
        Ok(())
    }

    /// Returns the span of the next index of a data stream with this template; `None`: it has no periods.
    pub(super) fn current_period(&self, template: &IndexTemplate) -> Result<Option<Range<i64>>> {
        Ok(match self.template_period(template)? {
            Some(period) => period.range_of(self.now_ms),
            None => None,
        })
    }

    fn template_period(&self, template: &IndexTemplate) -> Result<Option<Period>> {
        let content = self.next.compose(template)?;
        let name = content.settings.get("index.period").and_then(serde_json::Value::as_str);
        Ok(name.and_then(Period::from_name))
    }

    pub(super) fn stream(&self, name: &str) -> Result<Arc<DataStream>> {
        let stream = self.next.data_streams.get(name).cloned();
        stream.ok_or_else(|| Error::index_not_found(name))
    }

    pub(super) fn stream_template(&self, stream: &str) -> Result<IndexTemplate> {
        match self.next.find_index_template(stream) {
            Some((_, template)) if template.data_stream.is_some() => Ok(template.clone()),
            _ => Err(no_template(stream)),
        }
    }

    /// Returns the position of a new index in its stream: after those of earlier periods, so that the last index has
    /// the latest event times.
    pub(super) fn place_in_stream(&self, stream: &DataStream, range_ms: Option<&Range<i64>>) -> usize {
        let Some(range) = range_ms else {
            return stream.indices.len();
        };
        let is_earlier = |name: &String| {
            let index = self.next.indices.get(name);
            let start = index.and_then(|index| Some(index.settings.time_range_ms.as_ref()?.start));
            start.is_none_or(|start| start <= range.start)
        };
        stream.indices.iter().rposition(is_earlier).map_or(0, |last| last + 1)
    }
}

fn out_of_time(stream: &str) -> Error {
    Error::illegal_argument(format!("data stream [{stream}] takes events of the years 1 to 9999"))
}
