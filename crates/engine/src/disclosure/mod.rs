//! Disclosure: what of an engine's answer a caller may see.
//!
//! An engine reads only what the scope of a request allows ([`crate::Scope`]). Its answer may still say more than a
//! tenant may know: where a snapshot repository is, counters of all tenants together, that an index exists. [`rules`]
//! decides that, and [`Disclosed`] applies the rules to every answer of an engine. Engines do not look at it: they
//! return one answer for all callers. What only an engine can compute for one tenant (its number of documents, a cost
//! estimate that is independent of other tenants) it computes itself.

mod decorator;
pub mod rules;
#[cfg(test)]
mod tests;

pub use decorator::Disclosed;

use crate::{Error, RequestContext, Scope};

/// Returns the error that the caller sees ([`rules::disclose_error`]); details that are withheld go to the log.
pub fn disclose_error(ctx: &RequestContext, error: Error) -> Error {
    log_withheld(&ctx.scope, error.index(), &error);
    rules::disclose_error(ctx, error)
}

/// Replaces errors of failed shards ([`rules::disclose_failures`]); details that are withheld go to the log.
fn disclose_failures(ctx: &RequestContext, failures: &mut [(String, u32, Error)]) {
    for (index, _, error) in &*failures {
        log_withheld(&ctx.scope, error.index().or(Some(index)), error);
    }
    rules::disclose_failures(&ctx.scope, failures);
}

fn log_withheld(scope: &Scope, index: Option<&str>, error: &Error) {
    if rules::is_withheld(scope, error) {
        tracing::warn!(error = ?error, index, "a snapshot repository failed a tenant's request");
    }
}
