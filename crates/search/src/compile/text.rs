//! Analysis of query texts into terms.

use std::ops::ControlFlow;

use firn_model::Result;
use firn_model::mapping::Analyzer;
use firn_segment::analysis;

use crate::compile::limits::Guard;

/// Returns the terms of a text with their positions. Each term counts as a clause, so their number is limited.
pub(crate) fn tokens(analyzer: Analyzer, text: &str, guard: &Guard) -> Result<Vec<(usize, String)>> {
    let mut tokens = Vec::new();
    let ended = analysis::each_token(analyzer, text, |token| {
        if let Err(error) = guard.take_clauses(1) {
            return ControlFlow::Break(error);
        }
        tokens.push((token.position as usize, token.text));
        ControlFlow::Continue(())
    });
    match ended {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(tokens),
    }
}
