//! Scope of a request: the data that it may access.

use std::sync::Arc;

use firn_model::names::matches_pattern;
use firn_model::tenant::TenantId;
use firn_model::{Error, ErrorKind};

/// Data that a request may access: events of which tenant, in which indices.
///
/// Authentication creates the scope, [`crate::RequestContext`] carries it, and the engine reads nothing outside it:
/// names outside the scope do not exist, and inside it only the events of the tenant are visible.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Scope {
    tenant: Option<TenantId>,
    /// Patterns with `*`; a name has to match one of each list.
    names: Vec<Arc<[String]>>,
    /// Caller, as errors name it.
    subject: Option<Arc<str>>,
    /// Relative to [`Scope::WEIGHT_DEFAULT`].
    weight: u32,
    is_viewing: bool,
}

impl Scope {
    /// Weight in fair queues of a caller without a weight setting.
    pub const WEIGHT_DEFAULT: u32 = 100;

    /// Unlimited scope, for operators and for firn's internal work.
    pub fn operator() -> Self {
        Self {
            tenant: None,
            names: Vec::new(),
            subject: None,
            weight: Self::WEIGHT_DEFAULT,
            is_viewing: false,
        }
    }

    /// Scope of the events of one tenant, in indices that hold events by tenant.
    pub fn tenant(tenant: TenantId) -> Self {
        Self {
            tenant: Some(tenant),
            names: Vec::new(),
            subject: None,
            weight: Self::WEIGHT_DEFAULT,
            is_viewing: false,
        }
    }

    /// Limits the scope to indices, aliases and data streams with these names; patterns take `*`. After two calls a
    /// name has to match both lists.
    pub fn within(mut self, names: impl Into<Arc<[String]>>) -> Self {
        self.names.push(names.into());
        self
    }

    /// Sets the caller that errors name (`user [x] with effective roles [y]`).
    pub fn of(self, subject: impl Into<Arc<str>>) -> Self {
        Self {
            subject: Some(subject.into()),
            ..self
        }
    }

    /// Sets the weight in fair queues (`search_cpu_share`).
    pub fn weighted(self, weight: u32) -> Self {
        Self {
            weight: weight.max(1),
            ..self
        }
    }

    /// Marks the scope as an operator's view of a tenant: the caller sees the tenant's data but does not belong to the
    /// tenant.
    pub fn viewing(self) -> Self {
        Self {
            is_viewing: true,
            ..self
        }
    }

    /// Whether an operator views the tenant's data.
    pub fn is_viewing(&self) -> bool {
        self.is_viewing
    }

    /// Returns the error for access outside the scope, in Elasticsearch's words.
    pub fn refusal(&self, action: &str, indices: &str) -> Error {
        let action = match action {
            "" => "the action".to_owned(),
            named => format!("action [{named}]"),
        };
        let by = self
            .subject
            .as_ref()
            .map(|subject| format!(" for {subject}"))
            .unwrap_or_default();
        Error::new(
            ErrorKind::Forbidden,
            format!("{action} is unauthorized{by} on indices [{indices}]"),
        )
    }

    /// Returns the weight of the caller in fair queues.
    pub fn weight(&self) -> u32 {
        self.weight
    }

    /// Returns the tenant whose events are visible; `None`: those of all tenants.
    pub fn tenant_id(&self) -> Option<&TenantId> {
        self.tenant.as_ref()
    }

    /// Returns the caller as errors name it; `None`: firn itself, or any caller where security is off.
    pub fn subject(&self) -> Option<&str> {
        self.subject.as_deref()
    }

    /// Whether the scope has no limit.
    pub fn is_unlimited(&self) -> bool {
        self.tenant.is_none() && self.names.is_empty()
    }

    /// Returns the patterns that limit names: one of each list has to match.
    pub fn names(&self) -> &[Arc<[String]>] {
        &self.names
    }

    /// Whether this caller may use what `opened_by` opened: both have the same scope and the same subject, or this
    /// scope is unlimited.
    pub fn may_use(&self, opened_by: &Scope) -> bool {
        let same =
            self.tenant == opened_by.tenant && self.names == opened_by.names && self.subject == opened_by.subject;
        same || self.is_unlimited()
    }

    /// Whether the names of the scope allow an index, alias or data stream of this name.
    pub fn allows_name(&self, name: &str) -> bool {
        self.names
            .iter()
            .all(|patterns| patterns.iter().any(|pattern| matches_pattern(pattern, name)))
    }
}

impl Default for Scope {
    fn default() -> Self {
        Self::operator()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_limit_a_scope() {
        let tenant = TenantId::parse("a").unwrap();
        let scope = Scope::tenant(tenant.clone()).within(vec!["events-*".to_owned(), "web".to_owned()]);
        assert_eq!(scope.tenant_id(), Some(&tenant));
        assert!(scope.allows_name("events-2026") && scope.allows_name("web"));
        assert!(!scope.allows_name("web2") && !scope.allows_name(".firn-audit"));
        assert!(Scope::operator().is_unlimited() && !scope.is_unlimited());
        let narrower = scope.within(vec!["*-2026".to_owned()]);
        assert!(narrower.allows_name("events-2026") && !narrower.allows_name("web"));
    }

    #[test]
    fn refusals_name_the_action_and_the_caller() {
        let scope = Scope::operator().within(vec!["a".to_owned()]).of("user [u]");
        let error = scope.refusal("indices:data/read/search", "b");
        assert_eq!(error.kind(), ErrorKind::Forbidden);
        assert_eq!(
            error.reason(),
            "action [indices:data/read/search] is unauthorized for user [u] on indices [b]"
        );
    }
}
