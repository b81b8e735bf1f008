//! Split pruning by the contents of manifests, without requests.

use std::sync::Arc;

use firn_search::NotOpened;
use firn_search::pruning::required_terms::{AnyOf, RequiredTerm};
use firn_storage::split::SplitRef;

/// Conditions that every match of a search meets in an index.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Conditions {
    /// Inclusive bounds of `@timestamp`, ms since epoch UTC; `None`: any timestamp, or none.
    pub(crate) window: Option<(i64, i64)>,
    /// The match belongs to one of these tenants; `None`: any.
    pub(crate) tenants: Option<Arc<[String]>>,
    /// The match has one value of each of these sets.
    pub(crate) exact: Vec<AnyOf>,
    /// Matches are scored, and scores depend on all splits of a shard: filters may only exclude whole shards.
    pub(crate) scored: bool,
}

/// Reason for pruning a split.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pruned {
    /// No event in the window.
    Time,
    /// No event of the tenants.
    Tenant,
    /// None of the values. The manifest decides for generated ids, filters for all others.
    Value,
}

impl Pruned {
    /// Adds one to the counter of this reason.
    pub(super) fn count(self, counts: &mut NotOpened) {
        match self {
            Self::Time => counts.by_time += 1,
            Self::Tenant => counts.by_tenant += 1,
            Self::Value => counts.by_value += 1,
        }
    }
}

impl Conditions {
    /// Returns the reason why a split of a shard holds no match. `None`: it may hold one.
    pub(crate) fn prune(&self, shard: u32, split: &SplitRef) -> Option<Pruned> {
        if !self.is_within(split.time_range_ms) {
            return Some(Pruned::Time);
        }
        if let (Some(tenants), Some(_)) = (&self.tenants, &split.tenants) {
            let mut parts = tenants.iter().filter_map(|tenant| split.tenant(tenant)).peekable();
            if parts.peek().is_none() {
                return Some(Pruned::Tenant);
            }
            if !parts.any(|part| self.is_within(part.time_range_ms)) {
                return Some(Pruned::Time);
            }
        }
        let is_met = |one: &AnyOf| one.iter().any(|sought| may_hold(shard, split, sought));
        (!self.exact.iter().all(is_met)).then_some(Pruned::Value)
    }

    fn is_within(&self, range: Option<(i64, i64)>) -> bool {
        match (self.window, range) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some((min, max)), Some((first, last))) => min <= max && first <= max && min <= last,
        }
    }
}

/// Whether a split of a shard may hold a value according to its manifest.
pub(super) fn may_hold(shard: u32, split: &SplitRef, sought: &RequiredTerm) -> bool {
    match sought {
        RequiredTerm::Term { .. } => true,
        RequiredTerm::Made { shard: own, seq_no } => {
            let (first, last) = split.seq_no_range;
            *own == shard && (first..=last).contains(seq_no)
        }
    }
}

#[cfg(test)]
mod tests {
    use firn_storage::split::SplitTenant;

    use super::*;

    /// Timestamps 10 to 30: `a` has 10 to 12, `b` later ones.
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
            ..Conditions::default()
        };
        assert_eq!(conditions.prune(0, &split()).is_none(), expect, "{conditions:?}");
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
            tenants: Some(Arc::from(["c".to_owned()])),
            ..Conditions::default()
        };
        assert_eq!(conditions.prune(0, &unknown), None);
        let timeless = SplitRef {
            time_range_ms: None,
            tenants: None,
            ..split()
        };
        assert_eq!(Conditions::default().prune(0, &timeless), None);
        let window = Conditions {
            window: Some((0, 100)),
            ..Conditions::default()
        };
        assert_eq!(window.prune(0, &timeless), Some(Pruned::Time));
    }

    #[test]
    fn a_made_id_is_in_one_shard_and_among_its_numbers() {
        let check = |exact: &[AnyOf], expect| {
            let conditions = Conditions {
                exact: exact.to_vec(),
                ..Conditions::default()
            };
            // Sequence numbers 0 and 1.
            assert_eq!(conditions.prune(3, &split()), expect, "{exact:?}");
        };
        let made = |shard, seq_no| RequiredTerm::Made { shard, seq_no };
        let term = RequiredTerm::Term {
            field: "f".to_owned(),
            term: "t".to_owned(),
        };
        check(&[vec![made(3, 1)]], None);
        check(&[vec![made(3, 2)]], Some(Pruned::Value));
        check(&[vec![made(2, 1)]], Some(Pruned::Value));
        check(&[vec![made(2, 1), made(3, 0)]], None);
        check(&[vec![made(2, 1), term.clone()]], None);
        check(&[vec![term], vec![made(2, 1)]], Some(Pruned::Value));
        check(&[vec![]], Some(Pruned::Value));
    }
}
