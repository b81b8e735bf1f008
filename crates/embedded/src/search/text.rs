//! Texts of queries as terms.

use firn_model::mapping::Analyzer;

use crate::analysis;

/// The terms of a text with their positions.
pub(super) fn tokens(analyzer: Analyzer, text: &str) -> Vec<(usize, String)> {
    analysis::analyze(analyzer, text)
        .into_iter()
        .map(|token| (token.position as usize, token.text))
        .collect()
}
