//! Digest options of an aggregation (`tdigest`, `hdr`), and the partial result.

use firn_model::{Error, Result};
use serde_json::{Map, Value, json};

use super::Digest;
use crate::aggs::ValueFormat;
use crate::aggs::parse::{self, unknown_field};
use crate::json::{as_i64, token};

/// Default compression.
pub(in crate::aggs) const COMPRESSION: f64 = 100.0;

/// Method to summarize values.
///
/// firn has one kind of digest. For `hdr` it checks the bounds and uses a digest at least as exact as the requested
/// digits.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum DigestMethod {
    /// `tdigest`, with its compression.
    TDigest(f64),
    /// `hdr`, with its significant digits.
    Hdr(u8),
}

impl Default for DigestMethod {
    fn default() -> Self {
        Self::TDigest(COMPRESSION)
    }
}

impl DigestMethod {
    /// Parses the key `tdigest` or `hdr` of an aggregation.
    pub(in crate::aggs) fn parse(key: &str, value: &Value) -> Result<Self> {
        let Value::Object(body) = value else {
            return Err(Error::parsing(format!(
                "[{key}] doesn't support values of type: {}",
                token(value)
            )));
        };
        let mut method = if key == "hdr" { Self::Hdr(3) } else { Self::default() };
        for (name, value) in body {
            match (&mut method, name.as_str()) {
                (Self::TDigest(compression), "compression") => *compression = self::compression(key, value)?,
                (Self::TDigest(_), "execution_hint") => execution_hint(value)?,
                (Self::Hdr(digits), "number_of_significant_value_digits") => {
                    let number = as_i64(value).filter(|number| (0..=5).contains(number));
                    *digits = number.ok_or_else(|| {
                        Error::illegal_argument("[numberOfSignificantValueDigits] must be between 0 and 5")
                    })? as u8;
                }
                _ => return Err(unknown_field(key, name)),
            }
        }
        Ok(method)
    }

    pub(in crate::aggs) fn print(self, body: &mut Map<String, Value>) {
        match self {
            Self::TDigest(compression) => body.insert("tdigest".into(), json!({ "compression": compression })),
            Self::Hdr(digits) => body.insert("hdr".into(), json!({ "number_of_significant_value_digits": digits })),
        };
    }

    /// Returns an empty digest.
    pub fn digest(self) -> Digest {
        Digest::new(match self {
            Self::TDigest(compression) => compression,
            // More digits need more centroids.
            Self::Hdr(digits) => COMPRESSION * (1.0 + f64::from(digits)),
        })
    }
}

/// Parses `compression`, which is not negative.
pub(in crate::aggs) fn compression(kind: &str, value: &Value) -> Result<f64> {
    let compression = parse::double(kind, "compression", value)?;
    if compression < 0.0 {
        return Err(Error::illegal_argument(format!(
            "[compression] must be greater than or equal to 0. Found [{compression:?}]"
        )));
    }
    Ok(compression)
}

/// Parses `execution_hint`, a hint for the computation that does not change the answer.
pub(in crate::aggs) fn execution_hint(value: &Value) -> Result<()> {
    match value.as_str() {
        Some("default" | "high_accuracy") => Ok(()),
        _ => Err(Error::illegal_argument(format!(
            "Invalid execution_hint [{}], valid values are [default, high_accuracy]",
            value.as_str().unwrap_or_default()
        ))),
    }
}

/// Partial result of aggregations that need ranks: `percentiles`, `boxplot` and similar.
#[derive(Debug, Clone, PartialEq)]
pub struct DigestPartial {
    /// Digest of the values.
    pub digest: Digest,
    /// Format of the values.
    pub format: ValueFormat,
}

impl DigestPartial {
    /// Creates a partial result without values.
    pub fn new(digest: Digest) -> Self {
        Self {
            digest,
            format: ValueFormat::Raw,
        }
    }

    /// Adds another partial result.
    pub fn merge(&mut self, other: Self) {
        self.format.merge(&other.format);
        self.digest.merge(other.digest);
    }
}
