//! `dis_max` query: any of some queries, scored by the best.

use firn_model::Result;
use firn_query::query::DisMax;

use super::super::weight::Compiled;
use crate::compile::Compiler;

pub(crate) fn compile(compiler: &Compiler, part: &DisMax) -> Result<Compiled> {
    let parts: Result<Vec<_>> = part.queries.iter().map(|query| compiler.compile(query)).collect();
    let scoring = compiler.scoring();
    Ok(Compiled::best(parts?, part.tie_breaker, scoring).boost(part.boost, scoring))
}
