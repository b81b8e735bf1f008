//! A set of rules, indexed by the events that they are for.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use crate::event::{FieldId, FieldNames};
use crate::index::Group;
use crate::index::GroupBuilder;
use crate::log_sources::{LogSource, LogSources, Substitute};
use crate::rule::{Rule, RuleError};
use crate::substitute::for_substitute;

/// A group is rebuilt once one of so many of its rules has changed since it was built; until then, changed rules are in a small group
/// beside it. A second group costs a second look at each value.
const CHANGED_PART: usize = 8;
/// Groups of fewer rules are rebuilt at each change.
const REBUILT_BELOW: usize = 64;
/// Names of fields that are added before a set is compiled as a whole: some may be of rules that are gone.
const NAMES_ADDED_MAX: usize = 1_000;

/// Rules in the form in which they are evaluated.
#[derive(Debug)]
pub struct RuleSet {
    rules: Vec<Arc<Rule>>,
    names: FieldNames,
    /// Number of names when the set was last compiled as a whole.
    names_whole: usize,
    /// What it was compiled for.
    log_sources: LogSources,
    pub(crate) parts: Vec<Part>,
    /// Conditions of the log sources; the numbers are those of parts.
    pub(crate) sources: Vec<SourceConditions>,
    /// Parts for all events.
    pub(crate) always: Vec<u16>,
    /// Fields that decide which parts an event has.
    pub(crate) selectors: Vec<FieldId>,
}

/// Rules of the same log sources. Sets of nearly the same rules share the group.
#[derive(Debug)]
pub(crate) struct Part {
    /// Numbers of the log sources.
    entries: Vec<usize>,
    pub(crate) group: Arc<Group>,
    /// Rules by their places in the group.
    members: Arc<[Arc<Rule>]>,
    /// Their numbers in the set, by their places in the group; `None`: the set does not have the rule any more.
    pub(crate) numbers: Vec<Option<u32>>,
}

/// Events of one log source.
#[derive(Debug)]
pub(crate) struct SourceConditions {
    /// Fields, and the values in lower case of which each has one.
    pub(crate) when: Vec<(FieldId, Vec<String>)>,
    pub(crate) groups: Vec<u16>,
}

/// A rule for events that no log source has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unmapped {
    /// Identifier of the rule.
    pub id: String,
    /// Title of the rule.
    pub title: String,
    /// Its log source.
    pub log_source: LogSource,
}

/// A set, and the rules that are not in it.
#[derive(Debug)]
pub struct Compiled {
    /// The set.
    pub rules: RuleSet,
    /// Rules for other events.
    pub unmapped: Vec<Unmapped>,
    /// Rules that cannot be evaluated.
    pub errors: Vec<RuleError>,
}

/// Part before the numbers of its rules are known.
struct Draft {
    entries: Vec<usize>,
    group: Arc<Group>,
    members: Arc<[Arc<Rule>]>,
    /// Places of the members in the list of rules.
    places: Vec<Option<usize>>,
}

impl RuleSet {
    /// Compiles rules for the events of `sources`.
    pub fn compile(rules: impl IntoIterator<Item = impl Into<Arc<Rule>>>, sources: &LogSources) -> Compiled {
        Self::compile_from(None, rules, sources, [])
    }

    /// Compiles rules for the events of `sources`, of which these fields are read as well
    /// ([`Evaluator::value`](crate::Evaluator::value)). Fields beyond as many as a set may read are not. What is the same in `base`, a set
    /// for the same events, is not compiled again; rules are the same if their ids and contents are.
    pub fn compile_from<'f>(
        base: Option<&Self>,
        rules: impl IntoIterator<Item = impl Into<Arc<Rule>>>,
        sources: &LogSources,
        fields: impl IntoIterator<Item = &'f str>,
    ) -> Compiled {
        let is_usable =
            |base: &&Self| base.log_sources == *sources && base.names.len() <= base.names_whole + NAMES_ADDED_MAX;
        let base = base.filter(is_usable);
        let rules: Vec<Arc<Rule>> = rules.into_iter().map(Into::into).collect();
        let mut names = base.map(|base| base.names.clone()).unwrap_or_default();
        let mut unmapped = Vec::new();
        let mut wanted: BTreeMap<Vec<usize>, (Option<&Substitute>, Vec<usize>)> = BTreeMap::new();
        for (place, rule) in rules.iter().enumerate() {
            let (substitutes, entries) = entries_of(rule, sources);
            if entries.is_empty() && substitutes.is_empty() && *sources != LogSources::Any {
                unmapped.push(Unmapped {
                    id: rule.id.clone(),
                    title: rule.title.clone(),
                    log_source: rule.log_source.clone(),
                });
                continue;
            }
            if !entries.is_empty() || *sources == LogSources::Any {
                wanted.entry(entries).or_default().1.push(place);
            }
            for (entry, substitute) in substitutes {
                let of_entry = wanted.entry(vec![entry]).or_default();
                of_entry.0 = Some(substitute);
                of_entry.1.push(place);
            }
        }
        let mut errors = Vec::new();
        let mut drafts: Vec<Draft> = Vec::new();
        for (entries, (substitute, places)) in wanted {
            let (reused, remaining) = reuse(base, &entries, &rules, places);
            drafts.extend(reused);
            drafts.extend(build(entries, substitute, &rules, remaining, &mut names, &mut errors));
        }
        for field in fields {
            names.intern(field);
        }
        let mut set = Self {
            rules: Vec::with_capacity(rules.len()),
            parts: Vec::with_capacity(drafts.len()),
            sources: Vec::new(),
            always: Vec::new(),
            selectors: Vec::new(),
            names_whole: base.map_or(names.len(), |base| base.names_whole),
            log_sources: sources.clone(),
            names,
        };
        let mut is_evaluated = vec![false; rules.len()];
        for place in drafts.iter().flat_map(|draft| draft.places.iter().flatten()) {
            is_evaluated[*place] = true;
        }
        let mut numbers = vec![None; rules.len()];
        for (place, rule) in rules.into_iter().enumerate().filter(|(place, _)| is_evaluated[*place]) {
            numbers[place] = Some(set.rules.len() as u32);
            set.rules.push(rule);
        }
        set.add_parts(drafts, &numbers);
        Compiled {
            rules: set,
            unmapped,
            errors,
        }
    }

    fn add_parts(&mut self, drafts: Vec<Draft>, numbers: &[Option<u32>]) {
        let mut conditions: Vec<SourceConditions> = Vec::new();
        if let LogSources::Known(entries) = &self.log_sources {
            for entry in entries {
                let when = entry.when.iter().filter_map(|(name, values)| {
                    let values = values.iter().map(|value| crate::glob::lower_case(value)).collect();
                    Some((self.names.intern(name)?, values))
                });
                conditions.push(SourceConditions {
                    when: when.collect(),
                    groups: Vec::new(),
                });
            }
        }
        for draft in drafts {
            let number = self.parts.len() as u16;
            let entries = &draft.entries;
            let is_always = entries.is_empty() || entries.iter().any(|entry| conditions[*entry].when.is_empty());
            match is_always {
                true => self.always.push(number),
                false => entries.iter().for_each(|entry| conditions[*entry].groups.push(number)),
            }
            let numbers = draft.places.iter().map(|place| place.and_then(|place| numbers[place]));
            self.parts.push(Part {
                numbers: numbers.collect(),
                entries: draft.entries,
                group: draft.group,
                members: draft.members,
            });
        }
        conditions.retain(|source| !source.groups.is_empty());
        let mut selectors: Vec<FieldId> = conditions
            .iter()
            .flat_map(|source| &source.when)
            .map(|(id, _)| *id)
            .collect();
        selectors.sort_unstable();
        selectors.dedup();
        self.sources = conditions;
        self.selectors = selectors;
    }

    /// Returns how many of some rules it has, if it was compiled for the same events; `None`: it was not.
    pub fn shared_with(&self, rules: &[Arc<Rule>], sources: &LogSources) -> Option<usize> {
        if self.log_sources != *sources {
            return None;
        }
        let own: HashSet<&str> = self.rules.iter().map(|rule| rule.id.as_str()).collect();
        Some(rules.iter().filter(|rule| own.contains(rule.id.as_str())).count())
    }

    /// Returns the rules, by the numbers that an evaluator reports.
    pub fn rules(&self) -> &[Arc<Rule>] {
        &self.rules
    }

    /// Returns the fields that the rules read.
    pub fn names(&self) -> &FieldNames {
        &self.names
    }

    /// Returns whether a rule looks at the texts of all fields, also of those that are not in [`names`](Self::names).
    pub fn reads_all_texts(&self) -> bool {
        self.parts.iter().any(|part| part.group.reads_all_texts())
    }

    /// Bytes on the heap of the indexes.
    pub fn index_bytes(&self) -> usize {
        self.parts.iter().map(|part| part.group.heap_bytes()).sum()
    }
}

/// Returns the parts of `base` that go on, and the places of the rules that are in none of them.
fn reuse(
    base: Option<&RuleSet>,
    entries: &[usize],
    rules: &[Arc<Rule>],
    places: Vec<usize>,
) -> (Vec<Draft>, Vec<usize>) {
    let known = base.into_iter().flat_map(|base| &base.parts);
    let known: Vec<&Part> = known.filter(|part| part.entries == entries).collect();
    if known.is_empty() {
        return (Vec::new(), places);
    }
    let mut unmatched: HashMap<&str, usize> = places.iter().map(|place| (rules[*place].id.as_str(), *place)).collect();
    let mut drafts = Vec::with_capacity(known.len());
    let mut is_reused = vec![false; rules.len()];
    let mut is_whole = true;
    for part in known {
        let place_of = |member: &Arc<Rule>| {
            let place = *unmatched.get(member.id.as_str())?;
            let is_same = Arc::ptr_eq(member, &rules[place]) || **member == *rules[place];
            if is_same {
                unmatched.remove(member.id.as_str());
                is_reused[place] = true;
            }
            is_same.then_some(place)
        };
        let places: Vec<Option<usize>> = part.members.iter().map(place_of).collect();
        is_whole &= places.iter().flatten().count() == part.numbers.iter().flatten().count();
        drafts.push(Draft {
            entries: entries.to_vec(),
            group: Arc::clone(&part.group),
            members: Arc::clone(&part.members),
            places,
        });
    }
    if is_whole && places.iter().all(|place| is_reused[*place]) {
        return (drafts, Vec::new());
    }
    // The first one is the large one.
    drafts.truncate(1);
    let gone = drafts[0].places.iter().filter(|place| place.is_none()).count();
    let is_in_first: HashSet<usize> = drafts[0].places.iter().flatten().copied().collect();
    let mut remaining = places.clone();
    remaining.retain(|place| !is_in_first.contains(place));
    match places.len() >= REBUILT_BELOW && (gone + remaining.len()) * CHANGED_PART <= places.len() {
        true => (drafts, remaining),
        false => (Vec::new(), places),
    }
}

/// Compiles rules as one part; `None`: there are none.
fn build(
    entries: Vec<usize>,
    substitute: Option<&Substitute>,
    rules: &[Arc<Rule>],
    places: Vec<usize>,
    names: &mut FieldNames,
    errors: &mut Vec<RuleError>,
) -> Option<Draft> {
    let mut builder = GroupBuilder::default();
    let (mut members, mut added) = (Vec::with_capacity(places.len()), Vec::with_capacity(places.len()));
    for place in places {
        let rule = &rules[place];
        let result = match substitute {
            None => builder.add(&rule.condition, names),
            Some(substitute) => builder.add(&for_substitute(&rule.condition, substitute), names),
        };
        match result {
            Ok(()) => {
                members.push(Arc::clone(rule));
                added.push(Some(place));
            }
            Err(reason) => errors.push(RuleError {
                id: rule.id.clone(),
                title: rule.title.clone(),
                reason,
            }),
        }
    }
    if members.is_empty() {
        return None;
    }
    match builder.build(names) {
        Ok(group) => Some(Draft {
            entries,
            group: Arc::new(group),
            members: members.into(),
            places: added,
        }),
        Err(reason) => {
            errors.push(RuleError {
                id: String::new(),
                title: String::new(),
                reason,
            });
            None
        }
    }
}

/// Returns the entries whose events a rule is for: those that stand in for others, and the rest.
fn entries_of<'s>(rule: &Rule, sources: &'s LogSources) -> (Vec<(usize, &'s Substitute)>, Vec<usize>) {
    let (mut substitutes, mut entries) = (Vec::new(), Vec::new());
    let LogSources::Known(known) = sources else {
        return (substitutes, entries);
    };
    for (place, entry) in known.iter().enumerate() {
        if rule.log_source.includes(&entry.log_source) {
            match &entry.substitute {
                None => entries.push(place),
                Some(substitute) if rule.log_source.category.is_some() => substitutes.push((place, substitute)),
                Some(_) => {}
            }
        }
    }
    (substitutes, entries)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::evaluator::Evaluator;
    use crate::log_sources::LogSourceEntry;
    use crate::sigma;

    fn rule(number: usize, value: &str) -> Arc<Rule> {
        let category = ["process_creation", "network"][number % 2];
        let yaml = format!(
            "title: t\nid: r-{number:03}\nlogsource: {{category: {category}}}\n\
             detection: {{s: {{f{}|contains: {value}}}, n: {{g|re: 'x+{value}'}}, condition: s or n}}\n",
            number % 7,
        );
        let mut loaded = sigma::load(&yaml);
        assert_eq!(loaded.errors, []);
        Arc::new(loaded.rules.remove(0))
    }

    fn sources() -> LogSources {
        let entry = |category: &str, substitute: Option<Substitute>| LogSourceEntry {
            log_source: LogSource {
                category: Some(category.to_owned()),
                ..LogSource::default()
            },
            when: vec![(
                "kind".to_owned(),
                vec![match &substitute {
                    None => category.to_owned(),
                    Some(_) => "other".to_owned(),
                }],
            )],
            substitute,
        };
        let other_name = Substitute {
            fields: vec![("g".to_owned(), Some("h".to_owned()))],
            partial: Vec::new(),
        };
        LogSources::Known(vec![
            entry("process_creation", None),
            entry("network", None),
            entry("process_creation", Some(other_name)),
        ])
    }

    /// Ids of the rules that match.
    fn matches(set: &Arc<RuleSet>, event: &Value) -> Vec<String> {
        let mut evaluator = Evaluator::new(Arc::clone(set));
        evaluator.begin();
        evaluator.push_object(event.as_object().unwrap());
        let mut numbers = Vec::new();
        evaluator.evaluate(&mut numbers);
        let ids = numbers.iter().map(|number| set.rules()[*number as usize].id.clone());
        ids.collect()
    }

    #[test]
    fn a_set_that_was_changed_step_by_step_is_the_one_that_is_compiled_at_once() {
        let seed = 7;
        let mut random = fastrand::Rng::with_seed(seed);
        let word = |random: &mut fastrand::Rng| format!("w{}", random.u32(0..6));
        let mut rules: BTreeMap<usize, Arc<Rule>> = (0..300).map(|number| (number, rule(number, "w1"))).collect();
        let mut set = Arc::new(RuleSet::compile(rules.values().cloned(), &sources()).rules);
        let mut is_side_group_seen = false;
        for round in 0..40 {
            for _ in 0..random.usize(0..if round % 10 == 9 { 60 } else { 6 }) {
                let number = random.usize(0..320);
                match random.u8(0..3) {
                    0 => drop(rules.remove(&number)),
                    _ => drop(rules.insert(number, rule(number, &word(&mut random)))),
                }
            }
            let compiled = RuleSet::compile_from(Some(&set), rules.values().cloned(), &sources(), ["extra"]);
            assert!(compiled.errors.is_empty() && compiled.unmapped.is_empty());
            set = Arc::new(compiled.rules);
            is_side_group_seen |= set.parts.len() > 3;
            let whole = Arc::new(RuleSet::compile(rules.values().cloned(), &sources()).rules);
            assert_eq!(set.rules(), whole.rules());
            for _ in 0..20 {
                let kind = ["process_creation", "network", "other", "none"][random.usize(0..4)];
                let mut event = json!({"kind": kind});
                for field in ["f0", "f1", "f2", "f3", "g", "h"] {
                    let word = word(&mut random);
                    event[field] = if random.bool() { word } else { format!("xx{word}") }.into();
                }
                assert_eq!(
                    matches(&set, &event),
                    matches(&whole, &event),
                    "seed {seed}, round {round}: {event}"
                );
            }
        }
        assert!(is_side_group_seen);
    }

    #[test]
    fn an_evaluator_that_has_chosen_other_gates_finds_the_same_rules() {
        let seed = 8;
        let mut random = fastrand::Rng::with_seed(seed);
        let condition = |random: &mut fastrand::Rng| {
            let mut part = |modifier: &str| {
                let field = ["f0", "f1", "f2", "g"][random.usize(0..4)];
                format!("{{{field}{modifier}: w{}}}", random.u32(0..5))
            };
            format!(
                "{{a: {}, b: {}, c: {}, d: {}, condition: {}}}",
                part(""),
                part("|contains"),
                part("|endswith"),
                part("|re"),
                [
                    "a and b and c",
                    "a and (b or c)",
                    "a and not c",
                    "2 of them",
                    "d and a",
                    "not a"
                ][random.usize(0..6)]
            )
        };
        let rules = (0..60).map(|number| {
            let condition = condition(&mut random);
            let yaml = format!("title: t\nid: r-{number}\nlogsource: {{category: x}}\ndetection: {condition}\n");
            let mut loaded = sigma::load(&yaml);
            assert_eq!(loaded.errors, [], "{yaml}");
            loaded.rules.remove(0)
        });
        let compiled = RuleSet::compile(rules.collect::<Vec<_>>(), &LogSources::Any);
        assert_eq!(compiled.errors, []);
        let set = Arc::new(compiled.rules);
        let mut evaluator = Evaluator::new(Arc::clone(&set));
        let mut is_found = 0;
        for number in 0..6_000 {
            let mut event = json!({});
            for field in ["f0", "f1", "f2", "g"] {
                // One value of the first field is in nearly all events.
                let word = if field == "f0" && random.u8(0..20) > 0 {
                    0
                } else {
                    random.u32(0..5)
                };
                event[field] = ["w", "xw"].map(|start| format!("{start}{word}"))[random.usize(0..2)]
                    .clone()
                    .into();
            }
            evaluator.begin();
            evaluator.push_object(event.as_object().unwrap());
            let mut numbers = Vec::new();
            evaluator.evaluate(&mut numbers);
            let ids: Vec<String> = numbers
                .iter()
                .map(|number| set.rules()[*number as usize].id.clone())
                .collect();
            is_found += ids.len();
            assert_eq!(ids, matches(&set, &event), "seed {seed}, event {number}: {event}");
        }
        assert!(is_found > 6_000, "{is_found}");
    }

    #[test]
    fn a_changed_rule_compiles_no_other_one() {
        let mut rules: Vec<Arc<Rule>> = (0..300).map(|number| rule(number, "w1")).collect();
        let base = RuleSet::compile(rules.clone(), &sources()).rules;
        rules[10] = rule(10, "changed");
        rules.remove(20);
        let changed = RuleSet::compile_from(Some(&base), rules.clone(), &sources(), []).rules;
        // Those of each kind of events are there as they were, and the changed one beside them.
        let large = |set: &RuleSet| {
            let parts = set.parts.iter().filter(|part| part.members.len() > 1);
            parts.map(|part| Arc::as_ptr(&part.group)).collect::<Vec<_>>()
        };
        assert_eq!(large(&base).len(), 3);
        assert_eq!(large(&changed), large(&base));
        assert_eq!(changed.parts.len(), 5);
        // The same rules need nothing.
        let same = RuleSet::compile_from(Some(&changed), rules, &sources(), []).rules;
        let groups = |set: &RuleSet| {
            set.parts
                .iter()
                .map(|part| Arc::as_ptr(&part.group))
                .collect::<Vec<_>>()
        };
        assert_eq!(groups(&same), groups(&changed));
    }
}
