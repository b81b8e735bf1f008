//! Whose work a job is.

use std::sync::Arc;

use firn_engine::Scope;
use firn_model::tenant::TenantId;

/// Whose work a job is. Jobs of one flow wait for each other; flows share the threads by weight.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flow {
    pub(super) key: FlowKey,
    pub(super) weight: u32,
}

/// What tells flows apart.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum FlowKey {
    /// Operators, and what the node does by itself: together they count like one tenant.
    Node,
    /// A tenant, through whichever user or API key it comes.
    Tenant(TenantId),
    /// Maintenance of an index that belongs to no single tenant.
    Index(Arc<str>),
}

impl Flow {
    /// Of operators, and of the node itself.
    pub fn node() -> Self {
        Self {
            key: FlowKey::Node,
            weight: Scope::WEIGHT_DEFAULT,
        }
    }

    /// Of whoever a request is from.
    pub fn of(scope: &Scope) -> Self {
        Self {
            key: scope.tenant_id().cloned().map_or(FlowKey::Node, FlowKey::Tenant),
            weight: scope.weight(),
        }
    }

    /// Of the upkeep of an index: its owner's, if it has one.
    pub(crate) fn of_index(name: &Arc<str>, owner: Option<&str>) -> Self {
        let tenant = owner.and_then(|owner| TenantId::parse(owner).ok());
        Self {
            key: tenant.map_or_else(|| FlowKey::Index(Arc::clone(name)), FlowKey::Tenant),
            weight: Scope::WEIGHT_DEFAULT,
        }
    }

    /// What tells it apart from others.
    pub(crate) fn key(&self) -> &FlowKey {
        &self.key
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenant_is_one_flow_whatever_it_comes_through() {
        let tenant = TenantId::parse("acme").unwrap();
        let by_search = Flow::of(&Scope::tenant(tenant.clone()).within(vec!["logs".to_owned()]));
        assert_eq!(by_search.key, Flow::of(&Scope::tenant(tenant).weighted(300)).key);
        assert_eq!(by_search.key, Flow::of_index(&"acme-logs".into(), Some("acme")).key);
        assert_eq!(Flow::of(&Scope::operator()), Flow::node());
        assert_ne!(Flow::of_index(&"logs".into(), None).key, FlowKey::Node);
    }
}
