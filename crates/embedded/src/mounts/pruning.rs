//! Which splits can hold a match, told by what manifests say of them: no request is made.

use std::sync::Arc;

use firn_storage::split::SplitRef;

/// What every match of a search has in an index.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Conditions {
    /// Inclusive bounds of `@timestamp`, ms since epoch UTC; `None`: any instant, or none.
    pub(crate) window: Option<(i64, i64)>,
    /// One of these tenants; `None`: any.
    pub(crate) tenants: Option<Arc<[String]>>,
}

impl Conditions {
    /// Whether a split may hold a match. False is certain.
    pub(crate) fn may_match(&self, split: &SplitRef) -> bool {
        if !self.is_within(split.time_range_ms) {
            return false;
        }
        let (Some(tenants), Some(_)) = (&self.tenants, &split.tenants) else {
            return true;
        };
        tenants.iter().any(|tenant| {
            let part = split.tenant(tenant);
            part.is_some_and(|part| self.is_within(part.time_range_ms))
        })
    }

    fn is_within(&self, range: Option<(i64, i64)>) -> bool {
        match (self.window, range) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some((min, max)), Some((first, last))) => min <= max && first <= max && min <= last,
        }
    }
}

#[cfg(test)]
mod tests {
    use firn_storage::split::SplitTenant;

    use super::*;

    /// Instants 10 to 30: `a` at 10 to 12, `b` later.
    fn split() -> SplitRef {
        let tenant = |name: &str, range| SplitTenant {
            tenant: name.to_owned(),
            docs: 1,
            time_range_ms: Some(range),
        };
        SplitRef {
            id: String::new(),
            len: 0,
            salt: 0,
            footer: 0..0,
            segment: String::new(),
            docs: 2,
            time_range_ms: Some((10, 30)),
            without_time: 0,
            seq_no_range: (0, 1),
            segment_bytes: 0,
            tenants: Some(vec![tenant("a", (10, 12)), tenant("b", (20, 30))]),
            filters: Vec::new(),
        }
    }

    fn check(window: Option<(i64, i64)>, tenants: Option<&[&str]>, expect: bool) {
        let conditions = Conditions {
            window,
            tenants: tenants.map(|names| names.iter().map(|name| (*name).to_owned()).collect()),
        };
        assert_eq!(conditions.may_match(&split()), expect, "{conditions:?}");
    }

    #[test]
    fn a_split_of_another_time_or_tenant_holds_no_match() {
        check(None, None, true);
        check(Some((30, 40)), None, true);
        check(Some((31, 40)), None, false);
        check(Some((12, 11)), None, false);
        check(None, Some(&["c"]), false);
        check(None, Some(&["c", "b"]), true);
        check(None, Some(&[]), false);
        check(Some((13, 40)), Some(&["a"]), false);
        check(Some((13, 40)), Some(&["a", "b"]), true);
    }

    #[test]
    fn what_is_not_known_of_a_split_leaves_it_in() {
        let unknown = SplitRef {
            tenants: None,
            ..split()
        };
        let conditions = Conditions {
            window: None,
            tenants: Some(Arc::from(["c".to_owned()])),
        };
        assert!(conditions.may_match(&unknown));
        let timeless = SplitRef {
            time_range_ms: None,
            tenants: None,
            ..split()
        };
        assert!(Conditions::default().may_match(&timeless));
        let window = Conditions {
            window: Some((0, 100)),
            tenants: None,
        };
        assert!(!window.may_match(&timeless));
    }
}
