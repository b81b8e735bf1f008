//! Check that a caller is an operator.

use firn_engine::RequestContext;
use firn_model::{Error, ErrorKind, Result};

/// Fails unless the caller is an operator: snapshots hold events of all tenants.
pub(crate) fn check_operator(ctx: &RequestContext) -> Result<()> {
    match ctx.scope.is_unlimited() {
        true => Ok(()),
        false => Err(Error::new(
            ErrorKind::Forbidden,
            format!("action [{}] is for operators", ctx.action),
        )),
    }
}
