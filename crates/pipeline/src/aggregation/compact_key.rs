//! Key of a threshold in little memory: most keys have events in one pane, and one value.

use super::rule_row::RuleRow;
use super::threshold_key::{Counted, Reached, Threshold, ThresholdKey};

/// See the module.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum CompactKey {
    /// Events of one pane, without an alert.
    Pane {
        events: u32,
        content: Content,
        /// Hash of the value, or bits of the sum.
        word: u64,
        /// Start of the pane, ms since the epoch.
        start: i64,
    },
    /// Everything else.
    Whole(Box<ThresholdKey>),
}

/// What a pane has besides its events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Content {
    Nothing,
    Value,
    Sum,
}

const _: () = assert!(size_of::<CompactKey>() == 24);

impl CompactKey {
    /// Returns the key of one row, and the window that it reaches the threshold with.
    pub(super) fn of_row(threshold: &Threshold, row: &RuleRow) -> (Self, Option<Reached>) {
        if let Some(pane) = of_pane(row.start_ms, row.events, row.sum, &row.hashes)
            && !pane.may_reach(threshold)
        {
            return (pane, None);
        }
        let mut whole = ThresholdKey::default();
        let reached = whole.add(threshold, row);
        (whole.into(), reached)
    }

    /// See [`ThresholdKey::add`].
    pub(super) fn add(&mut self, threshold: &Threshold, row: &RuleRow) -> Option<Reached> {
        match self {
            Self::Whole(whole) => return whole.add(threshold, row),
            Self::Pane {
                events,
                content,
                word,
                start,
            } if *start == row.start_ms && row.sum == 0.0 => {
                let sum = u32::try_from(u64::from(*events).saturating_add(row.events));
                let has_values = match row.hashes[..] {
                    [] => true,
                    [hash] => *content == Content::Value && *word == hash,
                    _ => false,
                };
                if let (Ok(sum), true) = (sum, has_values) {
                    let with = Self::Pane {
                        events: sum,
                        content: *content,
                        word: *word,
                        start: *start,
                    };
                    if !with.may_reach(threshold) {
                        *self = with;
                        return None;
                    }
                }
            }
            Self::Pane { .. } => {}
        }
        let mut whole = self.to_whole();
        let reached = whole.add(threshold, row);
        *self = whole.into();
        reached
    }

    /// Whether the events of a pane alone reach a threshold, unless it is known that they do not.
    fn may_reach(&self, threshold: &Threshold) -> bool {
        match (self, threshold.counted) {
            (Self::Pane { events, .. }, Counted::Events) => f64::from(*events) >= threshold.at_least,
            (
                Self::Pane {
                    content: Content::Value,
                    ..
                },
                Counted::Values { sample_bits },
            ) => (1_u64 << sample_bits) as f64 >= threshold.at_least,
            (
                Self::Pane {
                    content: Content::Nothing,
                    ..
                },
                Counted::Values { .. },
            ) => threshold.at_least <= 0.0,
            _ => true,
        }
    }

    /// See [`ThresholdKey::forget`].
    pub(super) fn forget(&mut self, threshold: &Threshold, horizon: i64) -> bool {
        match self {
            Self::Pane { start, .. } => *start <= threshold.oldest(horizon),
            Self::Whole(whole) => {
                let is_empty = whole.forget(threshold, horizon);
                if let Some(pane) = compact(whole) {
                    *self = pane;
                }
                is_empty
            }
        }
    }

    /// Returns everything that is known of the key.
    pub(super) fn to_whole(&self) -> ThresholdKey {
        match self {
            Self::Whole(whole) => (**whole).clone(),
            Self::Pane {
                events,
                content,
                word,
                start,
            } => {
                let sum = match content {
                    Content::Sum => f64::from_bits(*word),
                    Content::Nothing | Content::Value => 0.0,
                };
                let value = (*content == Content::Value).then_some(*word);
                ThresholdKey::of_pane(*start, u64::from(*events), sum, value)
            }
        }
    }
}

impl From<ThresholdKey> for CompactKey {
    fn from(whole: ThresholdKey) -> Self {
        compact(&whole).unwrap_or_else(|| Self::Whole(Box::new(whole)))
    }
}

fn compact(whole: &ThresholdKey) -> Option<CompactKey> {
    let (start, events, sum, value) = whole.as_pane()?;
    of_pane(start, events, sum, value.as_slice())
}

/// Returns the key of a pane; `None`: it has more.
fn of_pane(start: i64, events: u64, sum: f64, values: &[u64]) -> Option<CompactKey> {
    let (content, word) = match (sum == 0.0, values) {
        (true, []) => (Content::Nothing, 0),
        (true, [hash]) => (Content::Value, *hash),
        (false, []) => (Content::Sum, sum.to_bits()),
        _ => return None,
    };
    Some(CompactKey::Pane {
        events: u32::try_from(events).ok()?,
        content,
        word,
        start,
    })
}
