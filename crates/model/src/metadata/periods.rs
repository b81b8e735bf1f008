//! Backing indices by period (`index.period`): one for each span of time, made when an event needs it.

use std::collections::BTreeSet;
use std::ops::{Range, RangeInclusive};
use std::sync::Arc;

use super::change::Change;
use super::data_streams::no_template;
use super::{DataStream, IndexMetadata, IndexTemplate, Metadata};
use crate::period::{Period, print_instant};
use crate::settings::IndexSettings;
use crate::{Error, ErrorKind, Result};

/// New backing indices of one command. A request whose events lie in more periods that nobody wrote to
/// before is most likely one with broken clocks, and each index costs files and memory.
pub const NEW_PERIODS_MAX: usize = 100;
/// Indices of periods that ended longer ago are made only while there are shards to spare.
const RECENT_MS: i64 = 7 * 86_400_000;
/// One part in so many of the shards is spared.
const RESERVED_PART: u64 = 4;

impl Metadata {
    /// The period of a data stream, as its newest index has it.
    pub fn period_of(&self, stream: &DataStream) -> Option<Period> {
        self.indices.get(stream.indices.last()?)?.settings.period
    }

    /// The backing indices that take events, the one made last first, each with its span of time, ms. Where two
    /// cover the same time the first of them is meant.
    pub fn spans<'s>(&self, stream: &'s DataStream) -> impl Iterator<Item = (&Range<i64>, &'s str)> {
        stream.indices.iter().rev().filter_map(|name| {
            let index = self.indices.get(name)?;
            let range = index.settings.time_range_ms.as_ref()?;
            takes_events(index).then_some((range, name.as_str()))
        })
    }

    /// The backing index for an event of this time. `None`: there is none yet, or none that still takes events.
    pub fn backing_index_at<'s>(&self, stream: &'s DataStream, ms: i64) -> Option<&'s str> {
        let mut spans = self.spans(stream);
        spans.find(|(range, _)| range.contains(&ms)).map(|(_, name)| name)
    }

    /// The backing index that takes what is written without a time: the one of now where there are
    /// periods, else the newest.
    pub fn write_index<'s>(&self, stream: &'s DataStream, now_ms: i64) -> Option<&'s str> {
        let newest = stream.indices.last().map(String::as_str);
        match self.period_of(stream) {
            Some(_) => self.backing_index_at(stream, now_ms).or(newest),
            None => newest,
        }
    }

    /// Whether a data stream takes an event of this time, by the settings of its newest index; the error says why not.
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
            "the document timestamp [{}] is {what} than data stream [{}] takes events for [{bound}]: see [{setting}]",
            print_instant(ms),
            stream.name
        )))
    }
}

/// The times of events that a data stream with periods takes, ms.
pub fn event_times(settings: &IndexSettings, now_ms: i64) -> RangeInclusive<i64> {
    now_ms.saturating_sub_unsigned(settings.past_limit_ms)..=now_ms.saturating_add_unsigned(settings.future_limit_ms)
}

/// What is mounted never does, nor what a policy has made read-only: an event that comes late for it belongs into
/// another index of the same time. A block that somebody set by hand is told to whoever writes.
fn takes_events(index: &IndexMetadata) -> bool {
    let settings = &index.settings;
    !(settings.is_mounted() || settings.write_blocked && index.lifecycle_policy().is_some())
}

impl Change<'_> {
    /// Makes the backing indices that events of these times lack.
    pub(super) fn create_backing_indices(&mut self, stream_name: &str, times_ms: &[i64]) -> Result<()> {
        let stream = self.stream(stream_name)?;
        let template = self.stream_template(stream_name)?;
        let Some(period) = self.template_period(&template)? else {
            // The template has given periods up: one more index takes everything from here on.
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
                "the request's events would make [{}] new backing indices of data stream [{stream_name}], it may make \
                 [{NEW_PERIODS_MAX}]: send fewer events at a time, or choose a longer [index.period]",
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

    /// Old events, which whoever may write can make up, must not take the last shards that today's need.
    fn check_room_for_old(&self, stream: &str, end_ms: i64) -> Result<()> {
        if end_ms > self.now_ms - RECENT_MS {
            return Ok(());
        }
        let (open, limit) = (self.next.indices.open_shards().normal, self.shards_max());
        if open >= limit - limit / RESERVED_PART {
            // Not the fault of these events, so that shippers keep them and come again.
            return Err(Error::new(
                ErrorKind::QuotaExceeded,
                format!(
                    "events of [{}] would make a new backing index of data stream [{stream}], but of the [{limit}] shards of \
                 [cluster.max_shards_per_node] [{open}] are open, and the last quarter is kept for recent events",
                    print_instant(end_ms - 1)
                ),
            ));
        }
        Ok(())
    }

    /// The span of the index that a stream of this template gets now; `None`: it has no periods.
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

    /// Where a new index stands among those of its stream: those of earlier periods before it, so that
    /// the last is the newest in the events' own time.
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
