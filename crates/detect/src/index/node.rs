//! Conditions in the form that is evaluated.

/// Condition of a rule. Numbers are those of its group.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Node {
    And(Box<[Node]>),
    Or(Box<[Node]>),
    AtLeast(usize, Box<[Node]>),
    Not(Box<Node>),
    /// One of the literals of an item was found.
    Found(u32),
    /// The same of an item whose literals are in the index of its field.
    Indexed(u32),
    /// A test that no literal stands for.
    Tested(u32),
}

/// Answers of the leaves.
pub(super) trait Leaves {
    fn is_found(&mut self, item: u32) -> bool;
    fn is_found_by_index(&mut self, item: u32) -> bool;
    fn passes(&mut self, test: u32) -> bool;
}

impl Node {
    pub(super) fn holds(&self, leaves: &mut impl Leaves) -> bool {
        match self {
            Self::Found(item) => leaves.is_found(*item),
            Self::Indexed(item) => leaves.is_found_by_index(*item),
            Self::Tested(test) => leaves.passes(*test),
            Self::And(nodes) => nodes.iter().all(|node| node.holds(leaves)),
            Self::Or(nodes) => nodes.iter().any(|node| node.holds(leaves)),
            Self::Not(node) => !node.holds(leaves),
            Self::AtLeast(wanted, nodes) => {
                let mut missing = *wanted;
                for node in nodes {
                    if missing == 0 {
                        break;
                    }
                    missing -= usize::from(node.holds(leaves));
                }
                missing == 0
            }
        }
    }

    /// Returns items of which at least one was found if the condition holds, and how often that is expected; `None`: it may hold
    /// without any.
    pub(super) fn gate(&self, costs: &[f64]) -> Option<(f64, Vec<u32>)> {
        let union = |nodes: &[Node]| {
            let gates: Option<Vec<_>> = nodes.iter().map(|node| node.gate(costs)).collect();
            let gates = gates?;
            let cost = gates.iter().map(|(cost, _)| cost).sum();
            Some((cost, gates.into_iter().flat_map(|(_, items)| items).collect()))
        };
        match self {
            Self::Found(item) | Self::Indexed(item) => Some((costs[*item as usize], vec![*item])),
            Self::Tested(_) | Self::Not(_) | Self::AtLeast(0, _) => None,
            Self::Or(nodes) | Self::AtLeast(_, nodes) => union(nodes),
            Self::And(nodes) => {
                let gates = nodes.iter().filter_map(|node| node.gate(costs));
                gates.min_by(|(one, _), (other, _)| one.total_cmp(other))
            }
        }
    }

    /// Marks the items that are in an index.
    pub(super) fn mark_indexed(&mut self, is_indexed: &[bool]) {
        match self {
            Self::Found(item) if is_indexed[*item as usize] => *self = Self::Indexed(*item),
            Self::Found(_) | Self::Indexed(_) | Self::Tested(_) => {}
            Self::Not(node) => node.mark_indexed(is_indexed),
            Self::And(nodes) | Self::Or(nodes) | Self::AtLeast(_, nodes) => {
                nodes.iter_mut().for_each(|node| node.mark_indexed(is_indexed));
            }
        }
    }

    /// Orders the parts so that those which decide sooner come first. Returns how often it is expected to hold, with what is dear
    /// to test above 1.
    pub(super) fn order(&mut self, costs: &[f64]) -> f64 {
        match self {
            Self::Found(item) | Self::Indexed(item) => costs[*item as usize].min(0.9),
            Self::Tested(_) => 2.0,
            Self::Not(node) => 1.0 + node.order(costs),
            Self::And(nodes) => {
                let mut ranked = rank(nodes, costs);
                ranked.sort_by(|(one, _), (other, _)| one.total_cmp(other));
                let first = ranked.first().map_or(1.0, |(cost, _)| *cost);
                *nodes = ranked.into_iter().map(|(_, node)| node).collect();
                first
            }
            Self::Or(nodes) | Self::AtLeast(_, nodes) => {
                let mut ranked = rank(nodes, costs);
                let total = ranked.iter().map(|(cost, _)| cost).sum();
                // Dear tests stay last.
                ranked.sort_by(|(one, _), (other, _)| {
                    let key = |cost: f64| if cost > 1.0 { cost } else { -cost };
                    key(*one).total_cmp(&key(*other))
                });
                *nodes = ranked.into_iter().map(|(_, node)| node).collect();
                total
            }
        }
    }
}

fn rank(nodes: &mut Box<[Node]>, costs: &[f64]) -> Vec<(f64, Node)> {
    let nodes = std::mem::take(nodes).into_vec();
    let ranked = nodes.into_iter().map(|mut node| (node.order(costs), node));
    ranked.collect()
}
