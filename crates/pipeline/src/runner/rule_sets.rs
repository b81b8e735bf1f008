//! Sets of rules that the pipelines of a node have compiled last: what they share is compiled once.

use std::sync::{Arc, Weak};

use firn_detect::{Compiled, LogSources, Rule, RuleSet};
use parking_lot::Mutex;

/// Most sets that a new one is compared with.
const COMPARED_MAX: usize = 8;

/// Compiled sets, the last one at the end.
#[derive(Debug, Default)]
pub(super) struct RuleSets(Mutex<Vec<Weak<RuleSet>>>);

/// A set that [`RuleSets`] knows, and what is not in it.
pub(super) struct SharedSet {
    pub(super) set: Arc<RuleSet>,
    pub(super) errors: Vec<firn_detect::RuleError>,
}

impl RuleSets {
    /// Compiles rules of which `fields` are read as well. Conditions that another set has, `previous` or one of the last, are not
    /// compiled again.
    pub(super) fn compile<'f>(
        &self,
        previous: Option<&Arc<RuleSet>>,
        rules: Vec<Arc<Rule>>,
        sources: &LogSources,
        fields: impl IntoIterator<Item = &'f str>,
    ) -> SharedSet {
        let last: Vec<Arc<RuleSet>> = {
            let mut sets = self.0.lock();
            sets.retain(|set| set.strong_count() > 0);
            sets.iter().rev().take(COMPARED_MAX).filter_map(Weak::upgrade).collect()
        };
        // Of several the first one: the last that was compiled has the latest changes.
        let mut base: Option<(usize, &Arc<RuleSet>)> = None;
        for set in last.iter().chain(previous) {
            if let Some(shared) = set.shared_with(&rules, sources)
                && base.is_none_or(|(most, _)| shared > most)
            {
                base = Some((shared, set));
            }
        }
        let base = base.map(|(_, set)| &**set);
        let Compiled { rules, errors, .. } = RuleSet::compile_from(base, rules, sources, fields);
        let set = Arc::new(rules);
        self.0.lock().push(Arc::downgrade(&set));
        SharedSet { set, errors }
    }
}
