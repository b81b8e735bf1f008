//! Rows of rules as a batch adds them to the windows.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::super::rule_row::RuleRows;
use super::super::rule_windows::WindowAlert;
use super::super::threshold_table::{Applied, RuleSet};
use super::{Aggregate, Emission, Windows};

/// Aggregates of the rules of the rows of a batch.
struct RowsOfRules<'r> {
    /// By the place of the set.
    sets: Vec<RowRules>,
    /// Places of the rules that are no thresholds.
    others: Vec<u32>,
    /// Names of the thresholds by their numbers in the table.
    names: BTreeMap<u32, &'r str>,
}

/// Rules of a set of rows.
#[derive(Debug, Default)]
struct RowRules {
    thresholds: Vec<Arc<RuleSet>>,
    /// Lengths and lateness of the windows, with the number of the rules.
    times: Vec<((i64, i64), u64)>,
}

impl Windows {
    /// Applies rows of rules. Their alerts are in the order of the names of the aggregates, and for each in that of its rows.
    pub(super) fn apply_rule_rows(&mut self, rules: &RuleRows, emissions: &mut Vec<Emission>) {
        if rules.is_empty() {
            return;
        }
        let RowsOfRules { sets, others, names } = self.resolve(rules);
        let mut late = 0;
        for row in &rules.rows {
            for ((every, lateness), count) in &sets[row.set as usize].times {
                let end = row.start_ms.saturating_add(*every).saturating_add(*lateness);
                if self.watermark.is_some_and(|watermark| end <= watermark) {
                    late += row.events * count;
                }
            }
        }
        self.noted.late += late;
        let mut alerts: Vec<(&str, u32, WindowAlert)> = Vec::new();
        let thresholds: Vec<Vec<Arc<RuleSet>>> = sets.into_iter().map(|set| set.thresholds).collect();
        let Applied { raised, overflowed } = self.thresholds.apply(&rules.keys, &rules.rows, &thresholds);
        self.noted.overflowed += overflowed;
        for raised in raised {
            let name = names.get(&raised.rule).copied();
            let Some((name, aggregate)) = name.and_then(|name| Some((name, self.aggregates.get(name)?))) else {
                continue;
            };
            let key = &rules.keys[rules.rows[raised.row as usize].key as usize];
            alerts.push((name, raised.row, aggregate.alert_of(key, &raised.reached)));
        }
        let mut keys: Vec<Option<Arc<str>>> = vec![None; rules.keys.len()];
        for rule in others {
            let name = &rules.rules[rule as usize];
            let Some(aggregate) = self.aggregates.get_mut(name) else {
                continue;
            };
            let Some(kind) = aggregate.rule_kind() else { continue };
            let has_rule: Vec<bool> = rules.sets.iter().map(|set| set.contains(&rule)).collect();
            for (place, row) in (0..).zip(&rules.rows) {
                if !has_rule[row.set as usize] {
                    continue;
                }
                let key = row.key as usize;
                let key = keys[key].get_or_insert_with(|| Arc::from(&*rules.keys[key]));
                let outcome = aggregate.add_rule_row(kind, key, row);
                if outcome.is_beyond {
                    self.noted.overflowed += row.events;
                }
                alerts.extend(outcome.alert.map(|alert| (name.as_str(), place, alert)));
            }
        }
        alerts.sort_by_key(|(name, row, _)| (*name, *row));
        let emitted = &mut self.emitted;
        emissions.extend(alerts.into_iter().map(|(.., alert)| Emission::of_alert(alert, emitted)));
    }

    /// Finds the aggregates of the rules of rows.
    fn resolve<'r>(&mut self, rules: &'r RuleRows) -> RowsOfRules<'r> {
        let known: Vec<Option<&Aggregate>> = rules.rules.iter().map(|name| self.aggregates.get(name)).collect();
        let (mut others, mut names) = (Vec::new(), BTreeMap::new());
        for (place, aggregate) in (0..).zip(&known) {
            match aggregate.map(|aggregate| (aggregate.rule_kind(), aggregate.threshold)) {
                Some((Some(_), Some(rule))) => {
                    names.insert(rule, rules.rules[place as usize].as_str());
                }
                Some((Some(_), None)) => others.push(place),
                Some((None, _)) | None => {}
            }
        }
        let sets = rules.sets.iter().map(|set| {
            let mut resolved = RowRules::default();
            let mut thresholds = Vec::with_capacity(set.len());
            for aggregate in set.iter().filter_map(|rule| known[*rule as usize]) {
                if aggregate.rule_kind().is_none() {
                    continue;
                }
                thresholds.extend(aggregate.threshold);
                let times = (aggregate.every_ms, aggregate.lateness_ms);
                match resolved.times.iter_mut().find(|(known, _)| *known == times) {
                    Some((_, count)) => *count += 1,
                    None => resolved.times.push((times, 1)),
                }
            }
            resolved.thresholds = self.thresholds.sets_of(&thresholds);
            resolved
        });
        RowsOfRules {
            sets: sets.collect(),
            others,
            names,
        }
    }
}
