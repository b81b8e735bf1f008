//! Counts of stored events on which a rule was not evaluated, by reason.

/// Most reasons of one answer; events of further ones are counted as [`OTHERS`].
const REASONS_MAX: usize = 10;
const OTHERS: &str = "other reasons";
/// Longest detail in bytes: parsers may quote the record.
const DETAIL_BYTES_MAX: usize = 500;

/// Events that a rule was not evaluated on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Unevaluated {
    /// Their number.
    pub events: u64,
    /// The reasons, in the order in which they were found.
    pub reasons: Vec<UnevaluatedReason>,
}

/// Why a rule was not evaluated on some events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnevaluatedReason {
    /// The reason.
    pub reason: String,
    /// Number of the events.
    pub events: u64,
    /// Index and id of the first one.
    pub example: (String, String),
    /// What is wrong with the first one.
    pub detail: Option<String>,
}

impl Unevaluated {
    /// Adds one event.
    pub(super) fn add(&mut self, reason: &str, detail: Option<&str>, (index, id): (&str, &str)) {
        self.add_reason(UnevaluatedReason {
            reason: reason.to_owned(),
            events: 1,
            example: (index.to_owned(), id.to_owned()),
            detail: detail.map(|detail| detail[..detail.floor_char_boundary(DETAIL_BYTES_MAX)].to_owned()),
        });
    }

    /// Adds the events of another count.
    pub(super) fn merge(&mut self, other: Self) {
        other.reasons.into_iter().for_each(|reason| self.add_reason(reason));
    }

    fn add_reason(&mut self, mut added: UnevaluatedReason) {
        self.events += added.events;
        let is_known = |known: &UnevaluatedReason, reason: &str| known.reason == reason;
        if self.reasons.len() >= REASONS_MAX && !self.reasons.iter().any(|known| is_known(known, &added.reason)) {
            OTHERS.clone_into(&mut added.reason);
        }
        match self.reasons.iter_mut().find(|known| is_known(known, &added.reason)) {
            Some(known) => known.events += added.events,
            None => self.reasons.push(added),
        }
    }

    /// Returns the number of the events and the reasons as one text.
    pub fn describe(&self) -> String {
        let of_reason = |reason: &UnevaluatedReason| format!("{} ({})", reason.reason, reason.events);
        let reasons: Vec<String> = self.reasons.iter().map(of_reason).collect();
        let (noun, verb) = match self.events {
            1 => ("event", "was"),
            _ => ("events", "were"),
        };
        let events = self.events;
        format!("{events} {noun} {verb} not evaluated: {}", reasons.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_counted_by_reason_and_reasons_are_bounded() {
        let mut all = Unevaluated::default();
        all.add("no record", None, ("logs", "1"));
        assert_eq!(all.describe(), "1 event was not evaluated: no record (1)");
        let mut more = Unevaluated::default();
        more.add("cannot be parsed", Some(&"ä".repeat(DETAIL_BYTES_MAX)), ("logs", "2"));
        more.add("no record", None, ("logs", "3"));
        all.merge(more);
        assert_eq!(
            all.describe(),
            "3 events were not evaluated: no record (2), cannot be parsed (1)"
        );
        assert_eq!(all.reasons[0].example, ("logs".to_owned(), "1".to_owned()));
        assert_eq!(all.reasons[1].detail.as_ref().unwrap().len(), DETAIL_BYTES_MAX);
        for number in 0..REASONS_MAX {
            all.add(&format!("reason {number}"), None, ("logs", "4"));
        }
        // The last place is that of all others.
        assert_eq!(all.reasons.len(), REASONS_MAX + 1);
        assert_eq!(all.reasons.last().unwrap().reason, OTHERS);
        assert_eq!(all.reasons.iter().map(|reason| reason.events).sum::<u64>(), all.events);
        assert_eq!(all.events, 3 + REASONS_MAX as u64);
    }
}
