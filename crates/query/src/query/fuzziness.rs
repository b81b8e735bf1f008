//! Edit distance (`fuzziness`) and related parameters of fuzzy queries.

use firn_model::{Error, Result};
use serde_json::{Map, Value};

use super::REWRITE_TERMS_MAX;
use super::params::{count, flag, wrong_type};
use super::rewrite::Rewrite;
use crate::json::as_text;

/// Default maximum of terms to which a fuzzy word expands.
pub(super) const EXPANSIONS: u32 = 50;

/// Maximum edit distance, in Lucene and in firn.
pub(super) const EDITS_MAX: u8 = 2;

/// Maximum edit distance of a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fuzziness {
    /// None below `low` characters, one below `high`, else two.
    Auto {
        /// One edit from this number of characters on.
        low: u32,
        /// Two edits from this number of characters on.
        high: u32,
    },
    /// 0, 1 or 2.
    Edits(u8),
}

impl Default for Fuzziness {
    fn default() -> Self {
        Self::Auto { low: 3, high: 6 }
    }
}

impl Fuzziness {
    /// Parses `AUTO`, `AUTO:3,6`, or 0 to 2.
    pub(super) fn parse(query: &str, value: &Value) -> Result<Self> {
        let text = as_text(value).ok_or_else(|| wrong_type(query, "fuzziness", value))?;
        let bounds = match text.get(..4) {
            Some(auto) if auto.eq_ignore_ascii_case("auto") => &text[4..],
            _ => {
                return match text.parse::<f64>() {
                    Ok(edits) if [0.0, 1.0, 2.0].contains(&edits) => Ok(Self::Edits(edits as u8)),
                    Ok(_) => Err(Error::illegal_argument(format!(
                        "Valid edit distances are [0, 1, 2] but was [{text}]"
                    ))),
                    Err(_) => Err(Error::illegal_argument(format!(
                        "[{query}] failed to parse [fuzziness] from [{text}]"
                    ))),
                };
            }
        };
        if bounds.is_empty() {
            return Ok(Self::default());
        }
        let bad = || Error::illegal_argument(format!("failed to find low and high distance values in [{text}]"));
        let (low, high) = bounds
            .strip_prefix(':')
            .and_then(|bounds| bounds.split_once(','))
            .ok_or_else(bad)?;
        let (low, high) = (
            low.parse::<u16>().map_err(|_| bad())?,
            high.parse::<u16>().map_err(|_| bad())?,
        );
        if low > high {
            return Err(Error::illegal_argument(format!(
                "fuzziness low value [{low}] should not be larger than high value [{high}]"
            )));
        }
        Ok(Self::Auto {
            low: low.into(),
            high: high.into(),
        })
    }

    /// Returns the value as a query writes it.
    pub(super) fn print(self) -> String {
        match self {
            Self::Edits(edits) => edits.to_string(),
            auto if auto == Self::default() => "AUTO".to_owned(),
            Self::Auto { low, high } => format!("AUTO:{low},{high}"),
        }
    }

    /// Returns the maximum edits for a word with `length` characters.
    pub fn edits(self, length: usize) -> u8 {
        match self {
            Self::Edits(edits) => edits,
            Self::Auto { low, .. } if length < low as usize => 0,
            Self::Auto { high, .. } if length < high as usize => 1,
            Self::Auto { .. } => EDITS_MAX,
        }
    }
}

/// Expansion of the words of a query to similar terms.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Fuzzy {
    /// Characters at the start that must be the same.
    pub prefix_length: u32,
    /// Maximum terms; the nearest ones count.
    pub max_expansions: u32,
    /// A swap of adjacent characters is one edit, not two.
    pub transpositions: bool,
    /// Scoring of the expanded terms.
    pub rewrite: Rewrite,
}

/// Default scoring of `fuzzy` terms.
pub(super) const REWRITE: Rewrite = Rewrite::TopTermsBlended(EXPANSIONS as usize);

impl Default for Fuzzy {
    fn default() -> Self {
        Self {
            prefix_length: 0,
            max_expansions: EXPANSIONS,
            transpositions: true,
            rewrite: REWRITE,
        }
    }
}

impl Fuzzy {
    /// Parses `prefix_length`, `max_expansions`, `transpositions` or `rewrite`, under any name that queries use for
    /// them.
    pub(super) fn read(&mut self, query: &str, param: &str, key: &str, value: &Value) -> Result<bool> {
        match key {
            "prefix_length" => self.prefix_length = count(query, param, value)?,
            "max_expansions" => self.max_expansions = max_expansions(query, param, value)?,
            "transpositions" => self.transpositions = flag(query, param, value)?,
            "rewrite" if value.is_null() => {}
            "rewrite" => self.rewrite = Rewrite::parse(query, param, value)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Inserts non-default values under the parameter names of a query.
    pub(super) fn put(&self, body: &mut Map<String, Value>, names: &FuzzyNames) {
        let default = Self::default();
        if self.prefix_length != default.prefix_length {
            body.insert(names.prefix_length.into(), self.prefix_length.into());
        }
        if self.max_expansions != default.max_expansions {
            body.insert(names.max_expansions.into(), self.max_expansions.into());
        }
        if !self.transpositions {
            body.insert(names.transpositions.into(), false.into());
        }
        self.rewrite.put(body, names.rewrite, default.rewrite);
    }
}

/// Parses the maximum number of expanded terms: at least one, and few enough to be clauses of one query.
pub(super) fn max_expansions(query: &str, param: &str, value: &Value) -> Result<u32> {
    match count(query, param, value)? {
        0 => Err(Error::illegal_argument(format!("[{query}] {param} must be positive"))),
        // Elasticsearch accepts any number here and fails at this limit when the terms reach it.
        number => Ok(number.min(REWRITE_TERMS_MAX as u32)),
    }
}

/// Parameter names of [`Fuzzy`] in one query type.
pub(super) struct FuzzyNames {
    pub(super) prefix_length: &'static str,
    pub(super) max_expansions: &'static str,
    pub(super) transpositions: &'static str,
    pub(super) rewrite: &'static str,
}

impl FuzzyNames {
    /// Parses a parameter by its name in the query.
    pub(super) fn read(&self, fuzzy: &mut Fuzzy, query: &str, param: &str, value: &Value) -> Result<bool> {
        let names = [
            (self.prefix_length, "prefix_length"),
            (self.max_expansions, "max_expansions"),
            (self.transpositions, "transpositions"),
            (self.rewrite, "rewrite"),
        ];
        match names.iter().find(|(name, _)| *name == param) {
            Some((_, key)) => fuzzy.read(query, param, key, value),
            None => Ok(false),
        }
    }
}

/// Names in `fuzzy`.
pub(super) const FUZZY_NAMES: FuzzyNames = FuzzyNames {
    prefix_length: "prefix_length",
    max_expansions: "max_expansions",
    transpositions: "transpositions",
    rewrite: "rewrite",
};

/// Names in the match queries.
pub(super) const MATCH_NAMES: FuzzyNames = FuzzyNames {
    prefix_length: "prefix_length",
    max_expansions: "max_expansions",
    transpositions: "fuzzy_transpositions",
    rewrite: "fuzzy_rewrite",
};

/// Names in `query_string` and `simple_query_string`.
pub(super) const STRING_NAMES: FuzzyNames = FuzzyNames {
    prefix_length: "fuzzy_prefix_length",
    max_expansions: "fuzzy_max_expansions",
    transpositions: "fuzzy_transpositions",
    rewrite: "fuzzy_rewrite",
};

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn edits() {
        for (written, printed, edits) in [
            (json!("AUTO"), "AUTO", [0, 1, 2]),
            (json!("auto:3,6"), "AUTO", [0, 1, 2]),
            (json!("AUTO:1,4"), "AUTO:1,4", [1, 1, 2]),
            (json!(0), "0", [0, 0, 0]),
            (json!("1.0"), "1", [1, 1, 1]),
            (json!("2"), "2", [2, 2, 2]),
        ] {
            let fuzziness = Fuzziness::parse("q", &written).unwrap();
            assert_eq!(fuzziness.print(), printed, "{written}");
            assert_eq!([2, 3, 6].map(|length| fuzziness.edits(length)), edits, "{written}");
        }
    }

    #[test]
    fn refuses() {
        for (written, reason) in [
            (json!(3), "Valid edit distances are [0, 1, 2] but was [3]"),
            (json!(0.5), "Valid edit distances are [0, 1, 2] but was [0.5]"),
            (json!("some"), "[q] failed to parse [fuzziness] from [some]"),
            (
                json!("AUTO:6"),
                "failed to find low and high distance values in [AUTO:6]",
            ),
            (json!("AUTO6"), "failed to find low and high distance values in [AUTO6]"),
            (
                json!("AUTO:6,3"),
                "fuzziness low value [6] should not be larger than high value [3]",
            ),
            (json!([1]), "[q] query does not support [START_ARRAY] for [fuzziness]"),
        ] {
            assert_eq!(
                Fuzziness::parse("q", &written).unwrap_err().reason(),
                reason,
                "{written}"
            );
        }
    }
}
