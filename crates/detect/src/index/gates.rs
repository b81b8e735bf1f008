//! Gates: items of which at least one is found in each event that a rule matches. Only rules whose gate was found are tested.

use super::node::Node;

/// Gates of the rules of a group.
#[derive(Debug, Default)]
pub(super) struct Gates {
    /// Rules that are tested when an item was found: from its place to the next one.
    starts: Box<[u32]>,
    rules: Box<[u32]>,
    /// Rules that are tested on each event.
    ungated: Box<[u32]>,
}

impl Gates {
    /// Chooses for each rule the gate that is expected in the fewest events. `expected` says how often an item is, by its number.
    pub(super) fn new(rules: &[Node], expected: &[f64]) -> Self {
        let mut by_item: Vec<Vec<u32>> = vec![Vec::new(); expected.len()];
        let mut ungated = Vec::new();
        for (place, rule) in (0u32..).zip(rules) {
            match rule.gate(expected) {
                None => ungated.push(place),
                Some((_, mut items)) => {
                    items.sort_unstable();
                    items.dedup();
                    for item in items {
                        by_item[item as usize].push(place);
                    }
                }
            }
        }
        let mut starts = vec![0];
        for rules in &by_item {
            starts.push(starts.last().unwrap_or(&0) + rules.len() as u32);
        }
        Self {
            starts: starts.into(),
            rules: by_item.concat().into(),
            ungated: ungated.into(),
        }
    }

    /// Returns the rules that are tested when an item was found.
    #[inline]
    pub(super) fn of_item(&self, item: u32) -> &[u32] {
        let item = item as usize;
        &self.rules[self.starts[item] as usize..self.starts[item + 1] as usize]
    }

    /// Returns the rules that are tested on each event.
    pub(super) fn ungated(&self) -> &[u32] {
        &self.ungated
    }
}
