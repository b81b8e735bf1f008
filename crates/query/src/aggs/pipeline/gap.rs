//! Gap policy: handling of buckets without a value.

use firn_model::{Error, Result};
use serde_json::Value;

use super::path::Bound;
use crate::aggs::finished::FinishedBucket;

/// `gap_policy`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum GapPolicy {
    /// Skip the bucket.
    #[default]
    Skip,
    /// Use the value 0.
    InsertZeros,
    /// Like `Skip`, but use existing values of buckets without documents.
    KeepValues,
}

impl GapPolicy {
    pub(super) fn parse(value: &Value) -> Result<Self> {
        match value.as_str() {
            Some("skip") => Ok(Self::Skip),
            Some("insert_zeros") => Ok(Self::InsertZeros),
            Some("keep_values") => Ok(Self::KeepValues),
            _ => Err(Error::parsing(format!(
                "Invalid gap policy: [{}], accepted values: [insert_zeros, skip, keep_values]",
                value.as_str().unwrap_or_default()
            ))),
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Skip => "skip",
            Self::InsertZeros => "insert_zeros",
            Self::KeepValues => "keep_values",
        }
    }

    /// Returns the value of a bucket. NaN: a gap to skip; `None`: the path does not exist in the bucket.
    pub(super) fn read(self, path: &Bound, bucket: &FinishedBucket) -> Result<Option<f64>> {
        let Some(value) = path.read(bucket)? else {
            return Ok(None);
        };
        let is_empty = bucket.doc_count == 0 && !path.is_own_count();
        if value.is_finite() && !is_empty {
            return Ok(Some(value));
        }
        Ok(Some(match self {
            Self::InsertZeros => 0.0,
            Self::KeepValues if value.is_finite() => value,
            Self::Skip | Self::KeepValues => f64::NAN,
        }))
    }
}
