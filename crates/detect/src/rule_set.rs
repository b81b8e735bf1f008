//! A set of rules, indexed by the events that they are for.

use std::collections::BTreeMap;

use crate::event::{FieldId, FieldNames};
use crate::expression::Expression;
use crate::index::Group;
use crate::index::GroupBuilder;
use crate::log_sources::{LogSource, LogSources, Substitute};
use crate::rule::{Rule, RuleError};
use crate::substitute::for_substitute;

/// Rules in the form in which they are evaluated.
#[derive(Debug)]
pub struct RuleSet {
    rules: Vec<Rule>,
    names: FieldNames,
    pub(crate) groups: Vec<Group>,
    /// Conditions of the log sources; the numbers are those of groups.
    pub(crate) sources: Vec<SourceConditions>,
    /// Groups of all events.
    pub(crate) always: Vec<u16>,
    /// Fields that decide which groups an event has.
    pub(crate) selectors: Vec<FieldId>,
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

impl RuleSet {
    /// Compiles rules for the events of `sources`.
    pub fn compile(rules: Vec<Rule>, sources: &LogSources) -> Compiled {
        Self::compile_with_fields(rules, sources, [])
    }

    /// Compiles rules for the events of `sources`, of which these fields are read as well
    /// ([`Evaluator::value`](crate::Evaluator::value)). Fields beyond as many as a set may read are not.
    pub fn compile_with_fields<'f>(
        rules: Vec<Rule>,
        sources: &LogSources,
        fields: impl IntoIterator<Item = &'f str>,
    ) -> Compiled {
        let mut names = FieldNames::default();
        let mut builders: BTreeMap<Vec<usize>, GroupBuilder> = BTreeMap::new();
        let (mut kept, mut unmapped, mut errors) = (Vec::with_capacity(rules.len()), Vec::new(), Vec::new());
        for rule in rules {
            let (substitutes, entries) = entries_of(&rule, sources);
            if entries.is_empty() && substitutes.is_empty() && *sources != LogSources::Any {
                unmapped.push(Unmapped {
                    id: rule.id,
                    title: rule.title,
                    log_source: rule.log_source,
                });
                continue;
            }
            let number = kept.len() as u32;
            let mut is_added = false;
            let mut add = |entries: Vec<usize>, condition: &Expression| {
                let added = builders.entry(entries).or_default().add(number, condition, &mut names);
                match added {
                    Ok(()) => is_added = true,
                    Err(reason) => errors.push(RuleError {
                        id: rule.id.clone(),
                        title: rule.title.clone(),
                        reason,
                    }),
                }
            };
            if !entries.is_empty() || *sources == LogSources::Any {
                add(entries, &rule.condition);
            }
            for (entry, substitute) in substitutes {
                add(vec![entry], &for_substitute(&rule.condition, substitute));
            }
            if is_added {
                kept.push(rule);
            }
        }
        for field in fields {
            names.intern(field);
        }
        let mut conditions: Vec<SourceConditions> = Vec::new();
        if let LogSources::Known(entries) = sources {
            for entry in entries {
                let when = entry.when.iter().filter_map(|(name, values)| {
                    let values = values.iter().map(|value| crate::glob::lower_case(value)).collect();
                    Some((names.intern(name)?, values))
                });
                conditions.push(SourceConditions {
                    when: when.collect(),
                    groups: Vec::new(),
                });
            }
        }
        let mut set = Self {
            rules: kept,
            groups: Vec::with_capacity(builders.len()),
            sources: Vec::new(),
            always: Vec::new(),
            selectors: Vec::new(),
            names,
        };
        for (entries, builder) in builders {
            match builder.build(&set.names) {
                Ok(group) if group.len() == 0 => {}
                Ok(group) => {
                    let number = set.groups.len() as u16;
                    let is_always =
                        entries.is_empty() || entries.iter().any(|entry| conditions[*entry].when.is_empty());
                    match is_always {
                        true => set.always.push(number),
                        false => entries.iter().for_each(|entry| conditions[*entry].groups.push(number)),
                    }
                    set.groups.push(group);
                }
                Err(reason) => errors.push(RuleError {
                    id: String::new(),
                    title: String::new(),
                    reason,
                }),
            }
        }
        conditions.retain(|source| !source.groups.is_empty());
        let mut selectors: Vec<FieldId> = conditions
            .iter()
            .flat_map(|source| &source.when)
            .map(|(id, _)| *id)
            .collect();
        selectors.sort_unstable();
        selectors.dedup();
        set.sources = conditions;
        set.selectors = selectors;
        Compiled {
            rules: set,
            unmapped,
            errors,
        }
    }

    /// Returns the rules, by the numbers that an evaluator reports.
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// Returns the fields that the rules read.
    pub fn names(&self) -> &FieldNames {
        &self.names
    }

    /// Returns whether a rule looks at the texts of all fields, also of those that are not in [`names`](Self::names).
    pub fn reads_all_texts(&self) -> bool {
        self.groups.iter().any(Group::reads_all_texts)
    }

    /// Bytes on the heap of the indexes.
    pub fn index_bytes(&self) -> usize {
        self.groups.iter().map(Group::heap_bytes).sum()
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
