//! `top_metrics` aggregation: some values of the documents that sort first.

use std::sync::Arc;

use firn_model::Result;
use firn_query::aggs::{Key, MetricsRow, Partial, TopMetrics, TopMetricsPartial, ValueFormat};
use firn_segment::columns::column;
use firn_segment::columns::column::NumColumn;
use firn_segment::columns::strings::StrColumn;
use tantivy::DocId;

use super::super::compile::Compiler;
use super::collector::{Collector, Scope, paced};
use super::score_table::ScoreBoard;
use super::source::Source;
use super::terms::{stored_key, string_key};
use crate::compile::field::Numeric;
use crate::run::memory::Memory;

const NAME: &str = "top_metrics";

/// Approximate bytes of a row without its metrics.
const ROW_BYTES: usize = 96;
/// Approximate bytes of one metric, including a string of usual length.
const METRIC_BYTES: usize = 64;

/// `top_metrics`, compiled.
pub(super) struct TopMetricsPlan {
    request: TopMetrics,
    /// `None`: the score.
    sort: Option<Source>,
    metrics: Vec<Source>,
    formats: Vec<ValueFormat>,
}

impl TopMetricsPlan {
    pub(super) fn compile(compiler: &Compiler, part: &TopMetrics) -> Result<Self> {
        let sort = match part.sort.as_str() {
            "_score" => None,
            field => Some(Source::numbers(compiler, field, NAME)?),
        };
        let metrics = part.metrics.iter();
        let metrics: Vec<Source> = metrics
            .map(|field| Source::compile(compiler, field))
            .collect::<Result<_>>()?;
        let mut formats = vec![match &sort {
            Some(source) => source.value_format(None)?,
            None => ValueFormat::Raw,
        }];
        for source in &metrics {
            formats.push(source.value_format(None)?);
        }
        Ok(Self {
            request: part.clone(),
            sort,
            metrics,
            formats,
        })
    }

    pub(super) fn wants_scores(&self) -> bool {
        self.sort.is_none()
    }

    pub(super) fn open(&self, scope: Scope) -> Result<Box<dyn Collector>> {
        let mut metrics = Vec::with_capacity(self.metrics.len());
        for source in &self.metrics {
            metrics.push(Values::open(source, scope)?);
        }
        Ok(Box::new(TopMetricsCollector {
            request: self.request.clone(),
            sort: match &self.sort {
                Some(source) => Some(Values::open(source, scope)?),
                None => None,
            },
            metrics,
            formats: self.formats.clone(),
            states: Vec::new(),
            scores: Arc::clone(scope.scores),
            memory: scope.memory.clone(),
        }))
    }
}

/// The values of a field on a segment.
enum Values {
    Numbers(NumColumn, Numeric),
    Strings(StrColumn, bool),
    One(Key),
    Nothing,
}

impl Values {
    fn open(source: &Source, scope: Scope) -> Result<Self> {
        let reader = &scope.segment.reader;
        let numbers = |column: Option<NumColumn>| match column {
            Some(column) => Self::Numbers(column, source.numeric()),
            None => Self::Nothing,
        };
        Ok(match source {
            Source::Numbers { path, .. } => numbers(NumColumn::open(reader, path)?),
            Source::MetaNumbers(name) => numbers(NumColumn::open_named(reader, name)?),
            Source::Strings { class, path, is_ip } => match column::open_strings(reader, *class, path)? {
                Some(strings) => Self::Strings(strings, *is_ip),
                None => Self::Nothing,
            },
            Source::Constant(text) => Self::One(Key::Str(text.clone())),
            Source::Nothing => Self::Nothing,
        })
    }

    /// Returns the least or the greatest of a document's values.
    fn read(&self, doc: DocId, greatest: bool) -> Result<Option<Key>> {
        let pick = |raws: &mut dyn Iterator<Item = u64>| if greatest { raws.max() } else { raws.min() };
        match self {
            Self::Numbers(column, numeric) => {
                let raw = pick(&mut column.column.values_for_doc(doc));
                Ok(raw.map(|raw| Key::from(stored_key(column, numeric, raw))))
            }
            Self::Strings(strings, is_ip) => {
                let Some(ordinal) = pick(&mut strings.ords().values_for_doc(doc)) else {
                    return Ok(None);
                };
                let mut text = String::new();
                let found = strings.ord_to_str(ordinal, &mut text)?;
                Ok(found.then(|| Key::from(string_key(&text, *is_ip))))
            }
            Self::One(key) => Ok(Some(key.clone())),
            Self::Nothing => Ok(None),
        }
    }
}

struct TopMetricsCollector {
    request: TopMetrics,
    /// `None`: the score.
    sort: Option<Values>,
    metrics: Vec<Values>,
    formats: Vec<ValueFormat>,
    /// By parent bucket.
    states: Vec<TopMetricsPartial>,
    scores: Arc<ScoreBoard>,
    memory: Memory,
}

impl Collector for TopMetricsCollector {
    fn collect(&mut self, docs: &[DocId], buckets: &[u32]) -> Result<()> {
        let needed = buckets.iter().copied().max().map_or(0, |bucket| bucket as usize + 1);
        if needed > self.states.len() {
            let rows = self.request.size * (ROW_BYTES + self.metrics.len() * METRIC_BYTES);
            self.memory
                .take((needed - self.states.len()) * (size_of::<TopMetricsPartial>() + rows))?;
            self.states.resize_with(needed, TopMetricsPartial::default);
        }
        let mut scores = self.scores.read();
        for (&doc, &bucket) in docs.iter().zip(buckets) {
            let sort = match &self.sort {
                // The shortest decimals that identify the score, as hits print it.
                None => Some(Key::F64(scores.of(doc).to_string().parse().unwrap_or(f64::NAN))),
                Some(values) => values.read(doc, self.request.descending)?,
            };
            let state = &mut self.states[bucket as usize];
            let Some(sort) = sort.filter(|sort| state.wants(sort, &self.request)) else {
                continue;
            };
            let metrics = self.metrics.iter().map(|values| values.read(doc, false));
            let metrics = metrics.collect::<Result<_>>()?;
            state.add(MetricsRow { sort, metrics }, &self.request);
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>, bucket_count: usize) -> Result<Vec<Partial>> {
        self.states.resize_with(bucket_count, TopMetricsPartial::default);
        let formats = &self.formats;
        let states = paced(self.states.into_iter());
        Ok(states
            .map(|mut state| {
                state.formats.clone_from(formats);
                Partial::TopMetrics(state)
            })
            .collect())
    }
}
