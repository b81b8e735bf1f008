//! Common part of sibling pipelines that summarize buckets.

use firn_model::Result;
use serde_json::{Map, Value};

use super::common::{Common, put_value};
use super::{Pipeline, Summary};
use crate::aggs::parse::Request;

/// `avg_bucket`, `min_bucket`, `max_bucket`, `sum_bucket`, `stats_bucket`.
#[derive(Debug, Clone, PartialEq)]
pub struct Sibling {
    /// Path, gap policy and format.
    pub common: Common,
    /// Computed summary.
    pub(crate) answer: Answer,
}

/// Kind of summary: all kinds read the same values and differ in one function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    Avg,
    Min,
    Max,
    Sum,
    Stats,
}

impl Sibling {
    pub(super) fn parse(request: &Request<'_>, answer: Answer, wrap: fn(Self) -> Pipeline) -> Result<Pipeline> {
        let common = Common::parse(request, |_, _| Ok(false))?;
        Ok(wrap(Self { common, answer }))
    }
}

impl Summary for Sibling {
    fn common(&self) -> &Common {
        &self.common
    }

    fn answer(&self, values: &[f64], name: &dyn Fn(usize) -> String) -> Map<String, Value> {
        match self.answer {
            Answer::Avg => super::avg_bucket::answer(&self.common, values),
            Answer::Min => super::min_bucket::answer(&self.common, values, name),
            Answer::Max => super::max_bucket::answer(&self.common, values, name),
            Answer::Sum => super::sum_bucket::answer(&self.common, values),
            Answer::Stats => super::stats_bucket::answer(&self.common, values),
        }
    }
}

/// Returns `{"value": …, "keys": […]}` of the extreme value and the buckets that have it.
pub(super) fn extreme(
    common: &Common,
    values: &[f64],
    best: f64,
    name: &dyn Fn(usize) -> String,
) -> Map<String, Value> {
    let mut printed = Map::new();
    put_value(&mut printed, "value", best, common.format.as_ref());
    let keys = values.iter().enumerate().filter(|(_, value)| **value == best);
    printed.insert("keys".into(), keys.map(|(index, _)| name(index)).collect());
    printed
}
