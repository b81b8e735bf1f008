//! What a request may touch.

use std::sync::Arc;

use firn_model::names::matches_pattern;
use firn_model::tenant::TenantId;

use crate::{Error, ErrorKind};

/// What a request may touch: whose events, and in which indices.
///
/// Authentication makes it, [`crate::RequestContext`] carries it, and the engine reads nothing outside of
/// it: names outside do not exist, and of the events inside only the tenant's are there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scope {
    tenant: Option<TenantId>,
    /// Patterns with `*`; a name has to match one of each list.
    names: Vec<Arc<[String]>>,
    /// Who asks, in the words of errors.
    subject: Option<Arc<str>>,
    /// Beside [`Scope::WEIGHT_DEFAULT`] of others.
    weight: u32,
    is_viewing: bool,
}

impl Scope {
    /// The weight in fair queues of who has no other.
    pub const WEIGHT_DEFAULT: u32 = 100;

    /// Everything. For operators, and for what firn does by itself.
    pub fn operator() -> Self {
        Self {
            tenant: None,
            names: Vec::new(),
            subject: None,
            weight: Self::WEIGHT_DEFAULT,
            is_viewing: false,
        }
    }

    /// The events of one tenant, in indices that hold events by tenant.
    pub fn tenant(tenant: TenantId) -> Self {
        Self {
            tenant: Some(tenant),
            names: Vec::new(),
            subject: None,
            weight: Self::WEIGHT_DEFAULT,
            is_viewing: false,
        }
    }

    /// The same in indices, aliases and data streams of these names only; patterns take `*`. Said twice, a name has
    /// to be among both.
    pub fn within(mut self, names: impl Into<Arc<[String]>>) -> Self {
        self.names.push(names.into());
        self
    }

    /// The same for somebody whom errors call `subject` (`user [x] with effective roles [y]`).
    pub fn of(self, subject: impl Into<Arc<str>>) -> Self {
        Self {
            subject: Some(subject.into()),
            ..self
        }
    }

    /// The same with a share of the node of its own (`search_cpu_share`).
    pub fn weighted(self, weight: u32) -> Self {
        Self {
            weight: weight.max(1),
            ..self
        }
    }

    /// The same for an operator who looks at what the tenant sees, and is none of its people.
    pub fn viewing(self) -> Self {
        Self {
            is_viewing: true,
            ..self
        }
    }

    /// Whether an operator looks at what the tenant sees.
    pub fn is_viewing(&self) -> bool {
        self.is_viewing
    }

    /// The refusal of what is out of reach, in Elasticsearch's words.
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

    /// Its share of the node where others wait too.
    pub fn weight(&self) -> u32 {
        self.weight
    }

    /// Whose events; `None`: everybody's.
    pub fn tenant_id(&self) -> Option<&TenantId> {
        self.tenant.as_ref()
    }

    /// Who asks, in the words of errors; `None`: firn itself, or anybody where security is off.
    pub fn subject(&self) -> Option<&str> {
        self.subject.as_deref()
    }

    /// Whether nothing is out of reach.
    pub fn is_unlimited(&self) -> bool {
        self.tenant.is_none() && self.names.is_empty()
    }

    /// The patterns that limit names: one of each list has to match.
    pub fn names(&self) -> &[Arc<[String]>] {
        &self.names
    }

    /// Whether what one of them asked for may be used by the other: they reach the same and were made
    /// for the same asker, or this one reaches everything.
    pub fn may_use(&self, opened_by: &Scope) -> bool {
        let same =
            self.tenant == opened_by.tenant && self.names == opened_by.names && self.subject == opened_by.subject;
        same || self.is_unlimited()
    }

    /// Whether an index, alias or data stream of this name is within reach, as far as names tell.
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
    fn refusals_name_the_action_and_who_asked() {
        let scope = Scope::operator().within(vec!["a".to_owned()]).of("user [u]");
        let error = scope.refusal("indices:data/read/search", "b");
        assert_eq!(error.kind(), ErrorKind::Forbidden);
        assert_eq!(
            error.reason(),
            "action [indices:data/read/search] is unauthorized for user [u] on indices [b]"
        );
    }
}
