//! `rewrite`: how the terms that a pattern finds become a query, and so a score.
//!
//! Follows Elasticsearch's reference page "rewrite parameter".

use serde_json::{Map, Value};

use super::params::text;
use crate::{Error, Result};

/// The most terms that `top_terms_N` may name, and that `scoring_boolean` may find
/// (`indices.query.bool.max_clause_count` of small heaps).
pub const REWRITE_TERMS_MAX: usize = 1024;

/// How the terms that a pattern finds become a score.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rewrite {
    /// Every match scores the boost (`constant_score`, `constant_score_boolean`,
    /// `constant_score_blended`: in firn they are one).
    Constant,
    /// Every term scores as if it had been asked for (`scoring_boolean`).
    Scoring,
    /// As before for the best of them, as many as this (`top_terms_N`).
    TopTerms(usize),
    /// The best of them score the boost and how near they are (`top_terms_boost_N`).
    TopTermsBoost(usize),
    /// The best of them score as if all were as frequent as the most frequent
    /// (`top_terms_blended_freqs_N`).
    TopTermsBlended(usize),
}

impl Rewrite {
    /// Reads it by its name.
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

    /// Its name.
    pub(super) fn print(self) -> String {
        match self {
            Self::Constant => "constant_score".to_owned(),
            Self::Scoring => "scoring_boolean".to_owned(),
            Self::TopTerms(count) => format!("top_terms_{count}"),
            Self::TopTermsBoost(count) => format!("top_terms_boost_{count}"),
            Self::TopTermsBlended(count) => format!("top_terms_blended_freqs_{count}"),
        }
    }

    /// Inserts it unless it is `default`.
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
