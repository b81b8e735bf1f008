//! Flow of a job: the tenant or component that the job belongs to.

use std::sync::Arc;

use firn_engine::Scope;
use firn_model::tenant::TenantId;

/// Owner of jobs for fair queuing. Jobs of one flow wait for each other; flows share the threads by weight.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flow {
    pub(super) key: FlowKey,
    pub(super) weight: u32,
}

/// Identity of a flow.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FlowKey {
    /// Operators and background work of the node: together they count like one tenant.
    Node,
    /// A tenant, whichever user or API key it uses.
    Tenant(TenantId),
    /// Maintenance of an index that belongs to no single tenant.
    Index(Arc<str>),
}

impl Flow {
    /// Returns the flow of operators and of the node.
    pub fn node() -> Self {
        Self {
            key: FlowKey::Node,
            weight: Scope::WEIGHT_DEFAULT,
        }
    }

    /// Returns the flow of the caller of a request.
    pub fn of(scope: &Scope) -> Self {
        Self {
            key: scope.tenant_id().cloned().map_or(FlowKey::Node, FlowKey::Tenant),
            weight: scope.weight(),
        }
    }

    /// Returns the flow for the maintenance of an index: that of its owner, if it has one.
    pub fn of_index(name: &Arc<str>, owner: Option<&str>) -> Self {
        let tenant = owner.and_then(|owner| TenantId::parse(owner).ok());
        Self {
            key: tenant.map_or_else(|| FlowKey::Index(Arc::clone(name)), FlowKey::Tenant),
            weight: Scope::WEIGHT_DEFAULT,
        }
    }

    /// Returns the identity of the flow.
    pub fn key(&self) -> &FlowKey {
        &self.key
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenant_is_one_flow_for_all_its_users_and_keys() {
        let tenant = TenantId::parse("acme").unwrap();
        let by_search = Flow::of(&Scope::tenant(tenant.clone()).within(vec!["logs".to_owned()]));
        assert_eq!(by_search.key, Flow::of(&Scope::tenant(tenant).weighted(300)).key);
        assert_eq!(by_search.key, Flow::of_index(&"acme-logs".into(), Some("acme")).key);
        assert_eq!(Flow::of(&Scope::operator()), Flow::node());
        assert_ne!(Flow::of_index(&"logs".into(), None).key, FlowKey::Node);
    }
}
