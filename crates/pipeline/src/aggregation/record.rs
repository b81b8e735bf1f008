//! Records of the journal of a pipeline's windows, stored as documents of an index.

use std::collections::BTreeMap;
use std::sync::Arc;

use firn_model::{Error, Result};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::definition::AggregateDefinition;
use super::row::Row;
use super::rule_row::RuleRows;
use super::rule_rows_builder::RuleRowsBuilder;
use super::rule_state::KeyState;
use super::sample::Sample;

/// Record at its place in the journal.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Record {
    /// Place in the journal of the pipeline; no two records have the same.
    pub(crate) order: u64,
    /// Tells a record whose answer was lost from one that another writer put in its place.
    pub(crate) token: String,
    pub(crate) content: Content,
}

/// Document of a record.
#[derive(Serialize)]
struct Document<'r> {
    pipeline: &'r str,
    order: u64,
    token: &'r str,
    /// The content as JSON: members of no mapping.
    state: String,
}

/// Content of a record.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Content {
    /// A part of a base.
    Base(Base),
    /// What a batch adds.
    Delta(Delta),
    /// Windows that end before a watermark, with their lateness, are closed.
    Closing {
        /// Ms since the epoch.
        watermark: i64,
        /// Aggregates of which all windows are closed, because their definition changed or because they have too many.
        retired: Vec<String>,
    },
}

/// State that everything before it leads to, in parts: it replaces all records before its first part.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(crate) struct Base {
    pub(crate) part: u32,
    pub(crate) parts: u32,
    /// The following six, `began` and `closed_to` are in part 0. Numbers of emitted events count within a generation.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) generation: String,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) definitions: BTreeMap<String, AggregateDefinition>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) partitions: BTreeMap<String, Progress>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) watermark: Option<i64>,
    #[serde(default)]
    pub(crate) emitted: u64,
    /// How often each window was closed, by aggregate.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) closings: BTreeMap<String, Vec<(i64, u32)>>,
    /// Start of the first window of each rule.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) began: BTreeMap<String, i64>,
    /// Times to which the keys of rules are closed.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) closed_to: BTreeMap<String, i64>,
    /// Rows of open windows.
    pub(crate) rows: Vec<WindowRow>,
    /// Keys of rules.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) keys: Vec<RuleKey>,
}

/// What a rule remembers of a key.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct RuleKey {
    /// Name of the aggregate.
    #[serde(rename = "a")]
    pub(crate) aggregate: String,
    #[serde(rename = "k")]
    pub(crate) key: Box<str>,
    #[serde(rename = "s")]
    pub(crate) state: KeyState,
}

/// What a batch adds to the windows.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(crate) struct Delta {
    /// Partition of the source; empty if it has none.
    pub(crate) partition: String,
    /// Last offset of the partition that the windows hold then.
    pub(crate) through: Option<u64>,
    /// Latest time of an event, at most that of its arrival, ms since the epoch.
    pub(crate) max_ms: Option<i64>,
    pub(crate) rows: Vec<WindowRow>,
    /// Rows of rules. Earlier builds wrote them as those of other aggregates, or by rule.
    #[serde(default, skip_serializing_if = "RuleRows::is_empty")]
    pub(crate) rules: RuleRows,
}

/// Row of one window of one aggregate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct WindowRow {
    /// Name of the aggregate.
    #[serde(rename = "a")]
    pub(crate) aggregate: String,
    /// Start of the window, ms since the epoch.
    #[serde(rename = "w")]
    pub(crate) start_ms: i64,
    /// Values of the key as a JSON array; `None`: keys beyond the maximum.
    #[serde(rename = "k")]
    pub(crate) key: Option<Box<str>>,
    #[serde(rename = "r")]
    pub(crate) row: Row,
}

/// How far a partition is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct Progress {
    pub(crate) through: Option<u64>,
    pub(crate) max_ms: Option<i64>,
}

/// Most rows of one delta: a record must be small enough to be stored.
const DELTA_ROWS_MAX: usize = 50_000;

/// Sample with its offset and its time of arrival, ms.
pub(crate) type ReceivedSample = (u64, i64, Sample);

impl Delta {
    /// Whether it adds no event to a window.
    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty() && self.rules.is_empty()
    }

    /// Returns what samples add, in as many deltas as it takes, each with a text that is the same for the same samples. Their offsets
    /// ascend. See [`Delta::of_samples`].
    pub(crate) fn parts_of_samples(
        definitions: &BTreeMap<String, Arc<AggregateDefinition>>,
        partition: &str,
        held: Option<u64>,
        through: Option<u64>,
        samples: &[ReceivedSample],
    ) -> Vec<(String, Self)> {
        Self::parts(definitions, partition, held, through, (0, samples), DELTA_ROWS_MAX)
    }

    /// `first` is the place of the first sample in the batch.
    fn parts(
        definitions: &BTreeMap<String, Arc<AggregateDefinition>>,
        partition: &str,
        held: Option<u64>,
        through: Option<u64>,
        (first, samples): (usize, &[ReceivedSample]),
        rows_max: usize,
    ) -> Vec<(String, Self)> {
        let delta = Self::of_samples(definitions, partition, held, through, samples);
        if delta.rows.len() + delta.rules.len() <= rows_max || samples.len() < 2 {
            // Of a source with offsets the part of a batch that is read again may begin elsewhere.
            let name = match (through, samples) {
                (Some(through), [(offset, ..), ..]) => format!("{offset}-{through}"),
                _ => format!("#{first}-{}", first + samples.len()),
            };
            return vec![(name, delta)];
        }
        let middle = samples.len() / 2;
        let (before, after) = samples.split_at(middle);
        // The events between two samples have none.
        let until = through.and_then(|_| after.first().map(|(offset, ..)| offset.saturating_sub(1)));
        let mut parts = Self::parts(definitions, partition, held, until, (first, before), rows_max);
        parts.extend(Self::parts(
            definitions,
            partition,
            held,
            through,
            (first + middle, after),
            rows_max,
        ));
        parts
    }

    /// Returns what samples add; each has its offset, its time of arrival (ms) and itself. Those up to the offset `held` are left
    /// out. `through` is the last offset that the samples cover; `None`: the source has no offsets.
    pub(crate) fn of_samples(
        definitions: &BTreeMap<String, Arc<AggregateDefinition>>,
        partition: &str,
        held: Option<u64>,
        through: Option<u64>,
        samples: &[ReceivedSample],
    ) -> Self {
        let held = through.and(held);
        let aggregates: Vec<_> = definitions
            .values()
            .map(|definition| (definition, definition.window_ms()))
            .collect();
        let mut rows: BTreeMap<(usize, i64, &str), Row> = BTreeMap::new();
        let mut rules = RuleRowsBuilder::new(definitions.values().map(|definition| &**definition));
        let mut max_ms = None;
        for (offset, received_ms, sample) in samples {
            if held.is_some_and(|held| *offset <= held) {
                continue;
            }
            max_ms = max_ms.max(Some(sample.time_ms.min(*received_ms)));
            rules.add(sample.time_ms, &sample.rules);
            for part in &sample.parts {
                let Some((definition, every)) = aggregates.get(part.place) else {
                    continue;
                };
                let start_ms = sample.time_ms - sample.time_ms.rem_euclid(*every);
                let row = rows.entry((part.place, start_ms, &part.key));
                row.or_insert_with(|| Row::new(definition)).add(&part.measured);
            }
        }
        let names: Vec<&String> = definitions.keys().collect();
        let rows = rows.into_iter().map(|((place, start_ms, key), row)| WindowRow {
            aggregate: names[place].clone(),
            start_ms,
            key: Some(key.into()),
            row,
        });
        Self {
            partition: partition.to_owned(),
            through: through.max(held),
            max_ms,
            rules: rules.finish(&names),
            rows: rows.collect(),
        }
    }
}

impl Record {
    /// Prints the document of a record.
    pub(crate) fn to_document(&self, pipeline: &str) -> Result<Vec<u8>> {
        let document = Document {
            pipeline,
            order: self.order,
            token: &self.token,
            state: serde_json::to_string(&self.content)?,
        };
        Ok(serde_json::to_vec(&document)?)
    }

    /// Reads a document.
    ///
    /// # Errors
    /// [`firn_model::ErrorKind::Internal`]: it is no record.
    pub(crate) fn of_document(document: &[u8]) -> Result<Self> {
        let refuse = |reason: String| Error::internal(format!("a record of windows cannot be read: {reason}"));
        let document: Value = serde_json::from_slice(document).map_err(|error| refuse(error.to_string()))?;
        let text = |name: &str| {
            document[name]
                .as_str()
                .ok_or_else(|| refuse(format!("it has no [{name}]")))
        };
        let order = document["order"].as_u64();
        Ok(Self {
            order: order.ok_or_else(|| refuse("it has no [order]".to_owned()))?,
            token: text("token")?.to_owned(),
            content: serde_json::from_str(text("state")?).map_err(|error| refuse(error.to_string()))?,
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::aggregation::Sampler;

    #[test]
    fn a_large_batch_is_several_deltas_that_together_are_the_whole() {
        let body = json!({"index": "t", "every": "1m", "by": ["k"]});
        let definition: Arc<AggregateDefinition> = Arc::new(serde_json::from_value(body).unwrap());
        let definitions = BTreeMap::from([("t".to_owned(), Arc::clone(&definition))]);
        let sampler = Sampler::new([&*definition]);
        let sample = |offset: u64| {
            let event = json!({"@timestamp": offset * 1000, "k": offset % 40}).to_string();
            (offset * 2, 0, sampler.read(event.as_bytes(), 0, &[], &|_| Value::Null))
        };
        let samples: Vec<ReceivedSample> = (0..100).map(sample).collect();
        let parts = |held, through| Delta::parts(&definitions, "p", held, through, (0, &samples), 10);
        let whole = parts(None, Some(250));
        assert!(whole.len() > 5);
        assert!(whole.iter().all(|(_, part)| part.rows.len() <= 10));
        let events = |parts: &[(String, Delta)]| -> u64 {
            let rows = parts.iter().flat_map(|(_, part)| &part.rows);
            rows.map(|row| row.row.events).sum()
        };
        assert_eq!(events(&whole), 100);
        // Each part says through which offset it goes, and the next one follows.
        let through: Vec<Option<u64>> = whole.iter().map(|(_, part)| part.through).collect();
        assert!(through.is_sorted() && through.last() == Some(&Some(250)), "{through:?}");
        // What is held already is left out, and no part has the name of another one with other events.
        let held = whole[2].1.through;
        let rest = parts(held, Some(250));
        assert_eq!(events(&rest), events(&whole[3..]));
        for (name, part) in &rest {
            let same = whole.iter().find(|(other, _)| other == name);
            assert!(
                same.is_none_or(|(_, other)| other.rows == part.rows || part.rows.is_empty()),
                "{name}"
            );
        }
        let names: std::collections::BTreeSet<String> = parts(None, None).into_iter().map(|(name, _)| name).collect();
        assert_eq!(names.len(), parts(None, None).len());
    }
}
