//! Scoring of expanded terms (`rewrite`): how the terms that a pattern matches become a query.
//!
//! Follows Elasticsearch's reference page "rewrite parameter".

use firn_model::{Error, Result};
use serde_json::{Map, Value};

use super::params::text;

/// Maximum terms that `top_terms_N` may name and `scoring_boolean` may find (`indices.query.bool.max_clause_count` of
/// small heaps).
pub const REWRITE_TERMS_MAX: usize = 1024;

/// Scoring of the terms that a pattern matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rewrite {
    /// Every match scores the boost (`constant_score`, `constant_score_boolean` and `constant_score_blended` are the
    /// same in firn).
    Constant,
    /// Every term scores like a term of the query (`scoring_boolean`).
    Scoring,
    /// Like `Scoring`, for this number of best terms (`top_terms_N`).
    TopTerms(usize),
    /// The best terms score the boost and their similarity (`top_terms_boost_N`).
    TopTermsBoost(usize),
    /// The best terms score as if all had the frequency of the most frequent one (`top_terms_blended_freqs_N`).
    TopTermsBlended(usize),
}

impl Rewrite {
    /// Parses a method by its name.
    pub(super) fn parse(query: &str, param: &str, value: &Value) -> Result<Self> {
        let name = text(query, param, value)?;
        let unknown = || Error::illegal_argument(format!("Failed to parse rewrite_method [{name}]"));
        Ok(match name.as_str() {
            "constant_score" | "constant_score_blended" | "constant_score_boolean" => Self::Constant,
            "scoring_boolean" => Self::Scoring,
            other => {
                let (digits, make): (&str, fn(usize) -> Self) =
                    if let Some(digits) = other.strip_prefix("top_terms_blended_freqs_") {
                        (digits, Self::TopTermsBlended)
                    } else if let Some(digits) = other.strip_prefix("top_terms_boost_") {
                        (digits, Self::TopTermsBoost)
                    } else if let Some(digits) = other.strip_prefix("top_terms_") {
                        (digits, Self::TopTerms)
                    } else {
                        return Err(unknown());
                    };
                let count: usize = digits.parse().map_err(|_| unknown())?;
                if count > REWRITE_TERMS_MAX {
                    return Err(Error::illegal_argument(format!(
                        "[{param}] of [{query}] takes at most {REWRITE_TERMS_MAX} terms, got [{name}]"
                    )));
                }
                make(count)
            }
        })
    }

    /// Returns the name.
    pub(super) fn print(self) -> String {
        match self {
            Self::Constant => "constant_score".to_owned(),
            Self::Scoring => "scoring_boolean".to_owned(),
            Self::TopTerms(count) => format!("top_terms_{count}"),
            Self::TopTermsBoost(count) => format!("top_terms_boost_{count}"),
            Self::TopTermsBlended(count) => format!("top_terms_blended_freqs_{count}"),
        }
    }

    /// Inserts the method unless it equals `default`.
    pub(super) fn put(self, body: &mut Map<String, Value>, key: &str, default: Self) {
        if self != default {
            body.insert(key.into(), self.print().into());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        for name in [
            "constant_score",
            "scoring_boolean",
            "top_terms_3",
            "top_terms_boost_1024",
            "top_terms_blended_freqs_50",
        ] {
            assert_eq!(Rewrite::parse("q", "rewrite", &name.into()).unwrap().print(), name);
        }
        for name in ["", "constant", "top_terms_", "top_terms_x", "top_terms_-1"] {
            let error = Rewrite::parse("q", "rewrite", &name.into()).unwrap_err();
            assert_eq!(error.reason(), format!("Failed to parse rewrite_method [{name}]"));
        }
        let error = Rewrite::parse("q", "rewrite", &"top_terms_1025".into()).unwrap_err();
        assert_eq!(
            error.reason(),
            "[rewrite] of [q] takes at most 1024 terms, got [top_terms_1025]"
        );
    }
}
