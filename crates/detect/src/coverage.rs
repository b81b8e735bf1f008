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
}

/// Returns the intervals of a partition since the rule was first evaluated, holes included. `changes` are in the order in which they
/// were recorded; of two from the same offset the later one holds, since the batch of the earlier one was not stored.
pub fn intervals(changes: &[CoverageChange]) -> Vec<Interval> {
    let mut valid: Vec<&CoverageChange> = Vec::new();
    for change in changes {
        while let Some(last) = valid.last()
            && last.at.offset.is_some()
            && last.at.offset >= change.at.offset
        {
            valid.pop();
        }
        valid.push(change);
    }
    let mut found: Vec<Interval> = Vec::new();
    for change in valid {
        match found.last_mut() {
            None if change.version.is_none() => continue,
            Some(last) if last.version == change.version => continue,
            Some(last) => last.to = Some(change.at.clone()),
            None => {}
        }
        found.push(Interval {
            from: change.at.clone(),
            to: None,
            version: change.version.clone(),
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
        }
    }

    fn of(changes: &[CoverageChange]) -> Vec<(u64, Option<u64>, Option<String>)> {
        let offset = |mark: &Mark| mark.offset.unwrap();
        let interval = |found: Interval| (offset(&found.from), found.to.as_ref().map(offset), found.version);
        intervals(changes).into_iter().map(interval).collect()
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
    fn records_without_offsets_follow_each_other() {
        let at = |received: &str| Mark {
            offset: None,
            received: received.to_owned(),
        };
        let changes = [("t1", Some("a")), ("t2", None), ("t3", Some("a"))].map(|(time, version)| CoverageChange {
            at: at(time),
            version: version.map(str::to_owned),
        });
        let found = intervals(&changes);
        assert_eq!(found.len(), 3);
        assert_eq!((&found[1].from, &found[1].to), (&at("t2"), &Some(at("t3"))));
    }
}
