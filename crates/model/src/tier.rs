//! Tiers: the devices of a node that an index may lie on, from the fastest to the cheapest.
//!
//! Elasticsearch's tiers are nodes with a role; here a tier is a data path of the one node there is. An index says with
//! [`TIER_PREFERENCE`] which tiers it wants, best first, and lies on the first of them that there is. Rules of allocation
//! by attribute see one attribute, `data`, with the name of the tier: the usual one before there were tiers.

use std::fmt;

use crate::names::matches_pattern;
use crate::settings::{SettingsMap, plain};
use crate::{Error, Result};

/// The setting of an index that names the tiers it wants.
pub const TIER_PREFERENCE: &str = "index.routing.allocation.include._tier_preference";

/// Elasticsearch's names of tiers.
const ROLES: [(&str, Option<Tier>); 5] = [
    ("data_content", Some(Tier::Hot)),
    ("data_hot", Some(Tier::Hot)),
    ("data_warm", Some(Tier::Warm)),
    ("data_cold", Some(Tier::Cold)),
    // Its indices have no files of their own: they are read through a cache.
    ("data_frozen", None),
];

/// Where the files of a shard lie.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Tier {
    /// `path.data`, where every index begins.
    #[default]
    Hot,
    /// `path.data.warm`.
    Warm,
    /// `path.data.cold`.
    Cold,
}

impl Tier {
    /// From the fastest on.
    pub const ALL: [Self; 3] = [Self::Hot, Self::Warm, Self::Cold];

    /// `hot`, `warm`, `cold`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Hot => "hot",
            Self::Warm => "warm",
            Self::Cold => "cold",
        }
    }

    /// The tier of a name.
    pub fn find(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|tier| tier.name() == name)
    }
}

impl fmt::Display for Tier {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// The attribute of a data path that rules of allocation are about: the name of its tier.
const ATTRIBUTE: &str = "data";

/// Where an index wants its shards.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Allocation {
    /// Tiers, best first; empty: it does not care.
    preference: Vec<Tier>,
    /// `index.routing.allocation.{require,include,exclude}.data`: names of tiers, with wildcards.
    rules: Vec<(Rule, Vec<String>)>,
}

/// What a rule says of the tiers that it names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rule {
    /// All of its names must be this tier's: two different ones leave none.
    Require,
    /// One of them.
    Include,
    /// None of them.
    Exclude,
}

impl Allocation {
    /// What flat settings say. They were checked when they were set; what cannot be read of those that an older firn
    /// took says nothing.
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

    /// Whether it says anything at all.
    pub fn is_empty(&self) -> bool {
        self.preference.is_empty() && self.rules.is_empty()
    }

    /// The tier that a shard belongs on which lies on `now`: the best that there is. `None`: there is none, so it stays
    /// where it is.
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

/// Reads `data_warm,data_hot`; [`crate::ErrorKind::IllegalArgument`] for a name that is none of a tier. `data_frozen` is
/// no device: what has it has no files of its own.
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
        // Another attribute is one that no path has: it says nothing here.
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
