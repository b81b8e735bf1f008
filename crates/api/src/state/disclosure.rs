//! Disclosure rules for objects of the REST edge: errors of handlers, running requests, retained results, costs and usage.
//!
//! [`firn_engine::disclosure`] decides the same for the answers of the engine.

use firn_auth::{Identity, Privilege};
use firn_engine::{Error, RequestContext, Scope, disclosure};
use firn_model::tenant::TenantId;

use crate::wire::error::ApiError;

/// Returns the error with the details that the caller may see. Called where an error of a handler leaves the server:
/// handlers resolve names, too.
pub(crate) fn disclose_error(ctx: &RequestContext, error: ApiError) -> ApiError {
    match error {
        ApiError::Engine(error) => ApiError::Engine(disclosure::disclose_error(ctx, error)),
        other => other,
    }
}

/// Returns the error about an object with this name. A tenant gets the error for a name that does not exist.
pub(crate) fn disclose_name_error(ctx: &RequestContext, name: &str, error: Error) -> Error {
    match ctx.scope.tenant_id() {
        Some(_) => ctx.scope.refusal(ctx.action, name),
        None => error,
    }
}

/// Whether the caller may access the request of `creator`: as an operator by privilege, as the same caller, or as an
/// admin of the same tenant.
pub(crate) fn may_reach(identity: &Identity, caller: &Scope, creator: &Scope, operators: Privilege) -> bool {
    if identity.has(operators) {
        return true;
    }
    let is_creator = caller.subject().is_some() && caller.subject() == creator.subject();
    let is_admin = caller.tenant_id().is_some() && identity.has(Privilege::ManageTenant) && !creator.is_viewing();
    caller.tenant_id() == creator.tenant_id() && (is_creator || is_admin)
}

/// Whether the caller may end an answer that the request of `creator` left running or retained: its creator, operators
/// and an admin of its tenant may.
pub(crate) fn may_end(identity: &Identity, caller: &Scope, creator: &Scope) -> bool {
    caller.may_use(creator) || may_reach(identity, caller, creator, Privilege::ManageCluster)
}

/// Whether the caller sees what its search fetched from repositories. The cost depends on data and earlier searches of
/// other tenants, so a tenant does not see it.
pub(crate) fn shows_cost(caller: &Scope) -> bool {
    caller.tenant_id().is_none()
}

/// Whether the caller sees the usage of a tenant, and whether the tenant exists.
pub(crate) fn shows_usage(caller: &Scope, tenant: &TenantId) -> bool {
    caller.tenant_id().is_none_or(|own| own == tenant)
}

/// Whether the caller sees the address of the node.
pub(crate) fn shows_address(identity: &Identity) -> bool {
    identity.has(Privilege::Monitor)
}

#[cfg(test)]
mod tests {
    use firn_engine::ErrorKind;

    use super::*;

    fn tenant(name: &str) -> Scope {
        Scope::tenant(TenantId::parse(name).unwrap())
    }

    #[test]
    fn a_limited_caller_gets_one_error_for_missing_and_forbidden_names() {
        let kind_for = |scope: Scope| {
            let ctx = RequestContext {
                scope: scope.into(),
                ..RequestContext::new()
            };
            let missing = disclose_error(&ctx, Error::index_not_found("a").into());
            let alias = disclose_name_error(&ctx, "a", Error::illegal_argument("matches an alias"));
            match missing {
                ApiError::Engine(missing) => (missing.kind(), alias.kind()),
                other => panic!("{other:?}"),
            }
        };
        use ErrorKind::{Forbidden, IllegalArgument, IndexNotFound};
        assert_eq!(kind_for(Scope::operator()), (IndexNotFound, IllegalArgument));
        assert_eq!(kind_for(tenant("acme")), (Forbidden, Forbidden));
        let named = Scope::operator().within(vec!["b".to_owned()]);
        assert_eq!(kind_for(named), (Forbidden, IllegalArgument));
    }

    #[test]
    fn a_tenant_sees_its_own_usage_and_no_cost() {
        let acme = TenantId::parse("acme").unwrap();
        assert!(shows_usage(&Scope::operator(), &acme) && shows_usage(&tenant("acme"), &acme));
        assert!(!shows_usage(&tenant("bolt"), &acme));
        assert!(shows_cost(&Scope::operator()) && !shows_cost(&tenant("acme")));
    }
}
