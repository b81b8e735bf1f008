//! Coverage of a rule: on which events of a partition it was evaluated, and where it has holes.

/// Place in a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark {
    /// Offset; `None`: the source has no offsets.
    pub offset: Option<u64>,
    /// When the event arrived, RFC 3339.
    pub received: String,
}

/// From which event on which version of a rule was evaluated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CoverageChange {
    /// First event.
    pub at: Mark,
    /// Version of the rule; `None`: it was not evaluated.
    pub version: Option<String>,
    /// Whether it was not evaluated because the budget of its owner was exhausted.
    pub is_throttled: bool,
    /// Times of the first and the last event between the change before and this one, ms since the epoch; `None`: unknown.
    pub times_before_ms: Option<(i64, i64)>,
}

/// Events of a partition that follow each other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interval {
    /// First event.
    pub from: Mark,
    /// First event behind it; `None`: it goes on.
    pub to: Option<Mark>,
    /// Version of the rule that was evaluated on them; `None`: a hole.
    pub version: Option<String>,
    /// Of a hole: whether the budget of the owner of the rule was exhausted.
    pub is_throttled: bool,
    /// Of a hole of the budget that has ended: times of the first and the last of its events, ms since the epoch. `None`: they are not
    /// known, since the node was stopped in it.
    pub times_ms: Option<(i64, i64)>,
}

/// Times of events of which the union counts.
#[derive(Debug, Clone, Copy, Default)]
struct Times {
    of_some: Option<(i64, i64)>,
    /// Whether those of other events are not known.
    are_partial: bool,
}

impl Times {
    fn add(&mut self, times: Option<(i64, i64)>) {
        match (self.of_some, times) {
            (_, None) => self.are_partial = true,
            (None, times) => self.of_some = times,
            (Some((first, last)), Some((other_first, other_last))) => {
                self.of_some = Some((first.min(other_first), last.max(other_last)));
            }
        }
    }

    fn of_all(self) -> Option<(i64, i64)> {
        self.of_some.filter(|_| !self.are_partial)
    }
}

/// Change that holds.
struct ValidChange<'c> {
    change: &'c CoverageChange,
    /// Times of the events before it, with those of the changes that it replaces.
    times_before_ms: Option<(i64, i64)>,
    /// Whether the rule was evaluated before, or is from here on.
    has_begun: bool,
}

/// Returns the intervals of a partition since the rule was first evaluated, holes included. `changes` are in the order in which they
/// were recorded; of two from the same offset the later one holds: the batch of the earlier one is read again. A rule that was evaluated on
/// such a batch and is not when it is read again has a hole there.
pub fn intervals(changes: &[CoverageChange]) -> Vec<Interval> {
    let mut valid: Vec<ValidChange<'_>> = Vec::new();
    let mut has_begun = false;
    for change in changes {
        has_begun |= change.version.is_some();
        let mut times = change.times_before_ms;
        while let Some(last) = valid.last()
            && last.change.at.offset.is_some()
            && last.change.at.offset >= change.at.offset
        {
            // Its times are of events before this change, too.
            times = match (times, last.times_before_ms) {
                (Some((first, last)), Some((other_first, other_last))) => {
                    Some((first.min(other_first), last.max(other_last)))
                }
                (times, of_last) => times.or(of_last),
            };
            valid.pop();
        }
        valid.push(ValidChange {
            change,
            times_before_ms: times,
            has_begun,
        });
    }
    let mut found: Vec<Interval> = Vec::new();
    let mut of_hole = Times::default();
    for valid in valid {
        let change = valid.change;
        of_hole.add(valid.times_before_ms);
        match found.last_mut() {
            // A rule that is throttled was evaluated before, maybe on a part of the same batch.
            None if change.version.is_none() && !change.is_throttled && !valid.has_begun => continue,
            Some(last) if last.version == change.version && last.is_throttled == change.is_throttled => continue,
            Some(last) => {
                last.to = Some(change.at.clone());
                last.times_ms = of_hole.of_all().filter(|_| last.is_throttled);
            }
            None => {}
        }
        of_hole = Times::default();
        found.push(Interval {
            from: change.at.clone(),
            to: None,
            version: change.version.clone(),
            is_throttled: change.is_throttled,
            times_ms: None,
        });
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(offset: u64, version: Option<&str>) -> CoverageChange {
        CoverageChange {
            at: Mark {
                offset: Some(offset),
                received: format!("t{offset}"),
            },
            version: version.map(str::to_owned),
            is_throttled: false,
            times_before_ms: None,
        }
    }

    fn of(changes: &[CoverageChange]) -> Vec<(u64, Option<u64>, Option<String>)> {
        let offset = |mark: &Mark| mark.offset.unwrap();
        let interval = |found: Interval| (offset(&found.from), found.to.as_ref().map(offset), found.version);
        intervals(changes).into_iter().map(interval).collect()
    }

    #[test]
    fn a_batch_that_is_read_again_without_the_rule_is_a_hole() {
        let changes = [change(0, Some("a")), change(0, None), change(45, Some("a"))];
        let version = Some("a".to_owned());
        assert_eq!(of(&changes), [(0, Some(45), None), (45, None, version)]);
        // What came before the rule is none.
        let changes = [
            change(0, None),
            change(5, Some("a")),
            change(3, None),
            change(9, Some("a")),
        ];
        let version = Some("a".to_owned());
        assert_eq!(of(&changes), [(3, Some(9), None), (9, None, version)]);
    }

    #[test]
    fn a_hole_lies_between_two_intervals_and_none_before_the_first() {
        let version = |name: &str| Some(name.to_owned());
        let changes = [
            change(0, None),
            change(5, Some("a")),
            change(9, Some("a")),
            change(12, None),
            change(20, Some("b")),
        ];
        let expected = [
            (5, Some(12), version("a")),
            (12, Some(20), None),
            (20, None, version("b")),
        ];
        assert_eq!(of(&changes), expected);
        assert_eq!(of(&changes[..4])[1], (12, None, None));
        assert_eq!(of(&[change(0, None)]), []);
    }

    #[test]
    fn a_batch_that_was_read_again_counts_with_its_last_record() {
        let version = |name: &str| Some(name.to_owned());
        let changes = [change(0, Some("a")), change(10, None), change(10, Some("b"))];
        assert_eq!(of(&changes), [(0, Some(10), version("a")), (10, None, version("b"))]);
        // The repetition was a larger batch.
        let changes = [change(0, Some("a")), change(10, None), change(8, Some("a"))];
        assert_eq!(of(&changes), [(0, None, version("a"))]);
    }

    #[test]
    fn a_hole_of_the_budget_is_one_of_its_own() {
        let throttled = |offset: u64| CoverageChange {
            is_throttled: true,
            ..change(offset, None)
        };
        let changes = [
            throttled(0),
            change(5, Some("a")),
            throttled(9),
            change(12, None),
            throttled(15),
            throttled(20),
            change(30, Some("a")),
        ];
        let found = intervals(&changes).into_iter().map(|found| {
            let to = found.to.and_then(|to| to.offset);
            (
                found.from.offset.unwrap(),
                to,
                found.version.is_some(),
                found.is_throttled,
            )
        });
        let expected = [
            (0, Some(5), false, true),
            (5, Some(9), true, false),
            (9, Some(12), false, true),
            (12, Some(15), false, false),
            (15, Some(30), false, true),
            (30, None, true, false),
        ];
        assert_eq!(found.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_hole_of_the_budget_knows_the_times_of_its_events() {
        let changed = |offset: u64, version: Option<&str>, times: Option<(i64, i64)>| CoverageChange {
            is_throttled: version.is_none(),
            times_before_ms: times,
            ..change(offset, version)
        };
        let times_of = |changes: &[CoverageChange]| {
            let found = intervals(changes).into_iter();
            found
                .filter(|found| found.version.is_none())
                .map(|found| found.times_ms)
                .collect::<Vec<_>>()
        };
        let a = Some("a");
        let mut changes = vec![
            changed(0, a, None),
            changed(5, None, Some((900, 901))),
            // Another rule was changed.
            changed(7, None, Some((30, 40))),
            changed(9, a, Some((20, 35))),
            changed(12, None, None),
            changed(14, a, None),
        ];
        assert_eq!(times_of(&changes), [Some((20, 40)), None]);
        assert_eq!(times_of(&changes[..3]), [None], "it goes on");
        // The batch of the change at 9 was not stored, and read again when the rule was throttled once more.
        changes.truncate(4);
        changes.extend([changed(9, None, Some((50, 60))), changed(11, a, Some((5, 6)))]);
        assert_eq!(times_of(&changes), [Some((5, 60))]);
    }

    #[test]
    fn records_without_offsets_follow_each_other() {
        let at = |received: &str| Mark {
            offset: None,
            received: received.to_owned(),
        };
        let changes = [("t1", Some("a")), ("t2", None), ("t3", Some("a"))].map(|(time, version)| CoverageChange {
            at: at(time),
            version: version.map(str::to_owned),
            is_throttled: false,
            times_before_ms: None,
        });
        let found = intervals(&changes);
        assert_eq!(found.len(), 3);
        assert_eq!((&found[1].from, &found[1].to), (&at("t2"), &Some(at("t3"))));
    }
}
