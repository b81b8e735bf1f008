//! Tiers: the devices of a node that can hold an index, from the fastest to the cheapest.
//!
//! Elasticsearch's tiers are nodes with a role; here a tier is a data path of the only node. The setting
//! [`TIER_PREFERENCE`] of an index names tiers, best first, and the index lies on the first of them that exists. Rules
//! of allocation by attribute see one attribute, `data`, with the name of the tier: the usual attribute before
//! Elasticsearch had tiers.

use std::fmt;

use crate::names::matches_pattern;
use crate::settings::{SettingsMap, plain};
use crate::{Error, Result};

/// Setting of an index that names its preferred tiers.
pub const TIER_PREFERENCE: &str = "index.routing.allocation.include._tier_preference";

/// Elasticsearch's names of tiers.
const ROLES: [(&str, Option<Tier>); 5] = [
    ("data_content", Some(Tier::Hot)),
    ("data_hot", Some(Tier::Hot)),
    ("data_warm", Some(Tier::Warm)),
    ("data_cold", Some(Tier::Cold)),
    // Frozen indices have no local files: they are read through a cache.
    ("data_frozen", None),
];

/// Tier that holds the files of a shard.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Tier {
    /// `path.data`, where every index starts.
    #[default]
    Hot,
    /// `path.data.warm`.
    Warm,
    /// `path.data.cold`.
    Cold,
}

impl Tier {
    /// All tiers, fastest first.
    pub const ALL: [Self; 3] = [Self::Hot, Self::Warm, Self::Cold];

    /// Returns `hot`, `warm` or `cold`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Hot => "hot",
            Self::Warm => "warm",
            Self::Cold => "cold",
        }
    }

    /// Returns the tier with a name.
    pub fn find(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|tier| tier.name() == name)
    }
}

impl fmt::Display for Tier {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// Attribute of a data path that allocation rules match: the name of its tier.
const ATTRIBUTE: &str = "data";

/// Allocation settings of an index.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Allocation {
    /// Tiers, best first; empty: no preference.
    preference: Vec<Tier>,
    /// `index.routing.allocation.{require,include,exclude}.data`: names of tiers, with wildcards.
    rules: Vec<(Rule, Vec<String>)>,
}

/// Kind of an allocation rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rule {
    /// All names must match the tier: two different names allow no tier.
    Require,
    /// At least one name must match.
    Include,
    /// No name may match.
    Exclude,
}

impl Allocation {
    /// Reads flat settings. They were checked when they were set; invalid ones that an older firn accepted are ignored.
    pub(crate) fn of(settings: &SettingsMap) -> Self {
        let text = |name: &str| settings.get(name).map(plain).unwrap_or_default();
        let rules = [
            ("require", Rule::Require),
            ("include", Rule::Include),
            ("exclude", Rule::Exclude),
        ];
        let rules = rules.into_iter().filter_map(|(kind, rule)| {
            let names = text(&format!("index.routing.allocation.{kind}.{ATTRIBUTE}"));
            let names: Vec<String> = names
                .split(',')
                .filter(|name| !name.is_empty())
                .map(str::to_owned)
                .collect();
            (!names.is_empty()).then_some((rule, names))
        });
        Self {
            preference: parse_preference(&text(TIER_PREFERENCE)).unwrap_or_default(),
            rules: rules.collect(),
        }
    }

    /// Returns whether there is neither a preference nor a rule.
    pub fn is_empty(&self) -> bool {
        self.preference.is_empty() && self.rules.is_empty()
    }

    /// Returns the best existing tier for a shard that lies on `now`. `None`: no tier fits, so the shard stays where it
    /// is.
    pub fn target(&self, now: Tier, exists: impl Fn(Tier) -> bool) -> Option<Tier> {
        let fits = |tier: &Tier| exists(*tier) && self.rules.iter().all(|(rule, names)| rule.allows(names, *tier));
        match self.preference.is_empty() {
            false => self.preference.iter().copied().find(fits),
            true => [now].into_iter().chain(Tier::ALL).find(fits),
        }
    }
}

impl Rule {
    fn allows(self, names: &[String], tier: Tier) -> bool {
        let is_named = |name: &String| matches_pattern(name, tier.name());
        match self {
            Self::Require => names.iter().all(is_named),
            Self::Include => names.iter().any(is_named),
            Self::Exclude => !names.iter().any(is_named),
        }
    }
}

/// Reads `data_warm,data_hot`; an unknown tier name fails with [`crate::ErrorKind::IllegalArgument`]. `data_frozen` is
/// not a device: frozen indices have no local files.
pub(crate) fn parse_preference(text: &str) -> Result<Vec<Tier>> {
    let mut tiers = Vec::new();
    for name in text.split(',').filter(|name| !name.is_empty()) {
        match ROLES.iter().find(|(role, _)| *role == name) {
            Some((_, Some(tier))) if !tiers.contains(tier) => tiers.push(*tier),
            Some(_) => {}
            None => {
                let roles: Vec<&str> = ROLES.iter().map(|(role, _)| *role).collect();
                return Err(Error::illegal_argument(format!(
                    "invalid tier names found in [{text}] allowed values are [{}]",
                    roles.join(", ")
                )));
            }
        }
    }
    Ok(tiers)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::settings::flatten;

    fn check(settings: serde_json::Value, now: Tier, there: &[Tier], expected: Option<Tier>) {
        let flat = flatten(&json!({"routing": {"allocation": settings}}), true).unwrap();
        let target = Allocation::of(&flat).target(now, |tier| there.contains(&tier));
        assert_eq!(target, expected, "{flat:?} on {now} with {there:?}");
    }

    #[test]
    fn an_index_lies_on_the_first_tier_of_its_preference_that_there_is() {
        let prefers = |text: &str| json!({"include": {"_tier_preference": text}});
        check(prefers("data_warm,data_hot"), Tier::Hot, &Tier::ALL, Some(Tier::Warm));
        check(
            prefers("data_warm,data_hot"),
            Tier::Hot,
            &[Tier::Hot, Tier::Cold],
            Some(Tier::Hot),
        );
        check(prefers("data_cold"), Tier::Hot, &[Tier::Hot], None);
        check(prefers("data_content"), Tier::Warm, &[Tier::Hot], Some(Tier::Hot));
        check(prefers("data_frozen"), Tier::Cold, &Tier::ALL, Some(Tier::Cold));
        check(prefers(""), Tier::Warm, &Tier::ALL, Some(Tier::Warm));
    }

    #[test]
    fn rules_leave_some_tiers() {
        check(
            json!({"require": {"data": "warm"}}),
            Tier::Hot,
            &Tier::ALL,
            Some(Tier::Warm),
        );
        check(json!({"require": {"data": "warm,cold"}}), Tier::Hot, &Tier::ALL, None);
        check(
            json!({"include": {"data": "warm,c*"}}),
            Tier::Cold,
            &Tier::ALL,
            Some(Tier::Cold),
        );
        check(
            json!({"exclude": {"data": "hot"}}),
            Tier::Hot,
            &Tier::ALL,
            Some(Tier::Warm),
        );
        check(json!({"exclude": {"data": "hot"}}), Tier::Hot, &[Tier::Hot], None);
        check(
            json!({"include": {"_tier_preference": "data_warm,data_cold"}, "exclude": {"data": "warm"}}),
            Tier::Hot,
            &Tier::ALL,
            Some(Tier::Cold),
        );
        // No path has this attribute: the rule is ignored here.
        check(
            json!({"require": {"rack": "r1"}}),
            Tier::Hot,
            &Tier::ALL,
            Some(Tier::Hot),
        );
    }

    #[test]
    fn a_name_that_is_no_tier_is_refused() {
        let error = parse_preference("data_warm,data_lukewarm").unwrap_err();
        assert_eq!(
            error.reason(),
            "invalid tier names found in [data_warm,data_lukewarm] allowed values are [data_content, data_hot, \
             data_warm, data_cold, data_frozen]"
        );
    }
}
