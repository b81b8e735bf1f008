//! `bool` query: combines queries.

use firn_model::Result;
use firn_query::query::{Bool, Query};

use super::super::weight::{Compiled, combine};
use super::minimum;
use crate::compile::Compiler;

pub(crate) fn compile(compiler: &Compiler, part: &Bool) -> Result<Compiled> {
    let scoring = compiler.scoring();
    let filter = compiler.filter();
    // If nothing else is required, one of them must match, even with `minimum_should_match: 0`.
    let least = usize::from(part.must.is_empty() && part.filter.is_empty() && !part.should.is_empty());
    let minimum = match &part.minimum_should_match {
        Some(spec) => minimum::calculate(spec, part.should.len())?.max(least),
        None => least,
    };
    if part.must.is_empty() && part.filter.is_empty() && part.should.is_empty() && part.must_not.is_empty() {
        return Ok(Compiled::All.constant(part.boost.0, scoring));
    }
    // Optional clauses matter only for scores and highlighting.
    let optional = scoring || compiler.marks.is_some();
    let each = |compiler: &Compiler, queries: &[Query]| -> Result<Vec<Compiled>> {
        queries.iter().map(|query| compiler.compile(query)).collect()
    };
    let mut must = each(compiler, &part.must)?;
    for query in each(&filter, &part.filter)? {
        must.push(query.constant(0.0, scoring));
    }
    // Postings lead, tests on columns follow; the weight opens its clauses in this order.
    let should = if minimum == 0 && !optional {
        Vec::new()
    } else {
        each(compiler, &part.should)?
    };
    let must_not = each(&filter.unmarked(), &part.must_not)?;
    Ok(combine(must, should, must_not, minimum, scoring).boost(part.boost.0, scoring))
}
