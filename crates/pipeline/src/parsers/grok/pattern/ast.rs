//! Syntax tree of a pattern.

use super::Assertion;
use super::class::Class;

/// A part of a pattern.
#[derive(Debug, Clone)]
pub(super) enum Node {
    Empty,
    Character(char),
    Class(Class),
    Assert(Assertion),
    Concat(Vec<Node>),
    Alternate(Vec<Node>),
    /// A group that captures under its number.
    Capture(usize, Box<Node>),
    Repeat {
        node: Box<Node>,
        min: u32,
        /// `u32::MAX` is without end.
        max: u32,
        kind: RepeatKind,
    },
    Atomic(Box<Node>),
    Look {
        node: Box<Node>,
        behind: bool,
        negated: bool,
    },
}

/// Which number of repetitions is tried first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RepeatKind {
    Greedy,
    Lazy,
    Possessive,
}

impl Node {
    /// The class if this is one character.
    pub(super) fn as_class(&self) -> Option<Class> {
        match self {
            Self::Character(character) => Some(Class::of(*character)),
            Self::Class(class) => Some(class.clone()),
            _ => None,
        }
    }

    /// True if this may match without any character.
    pub(super) fn may_be_empty(&self) -> bool {
        match self {
            Self::Character(_) | Self::Class(_) => false,
            Self::Empty | Self::Assert(_) | Self::Look { .. } => true,
            Self::Concat(nodes) => nodes.iter().all(Self::may_be_empty),
            Self::Alternate(nodes) => nodes.iter().any(Self::may_be_empty),
            Self::Capture(_, node) | Self::Atomic(node) => node.may_be_empty(),
            Self::Repeat { node, min, .. } => *min == 0 || node.may_be_empty(),
        }
    }

    /// Characters of each match, if all matches have the same number.
    pub(super) fn fixed_length(&self) -> Option<u32> {
        match self {
            Self::Empty | Self::Assert(_) | Self::Look { .. } => Some(0),
            Self::Character(_) | Self::Class(_) => Some(1),
            Self::Concat(nodes) => nodes
                .iter()
                .try_fold(0_u32, |sum, node| sum.checked_add(node.fixed_length()?)),
            Self::Alternate(nodes) => {
                let mut lengths = nodes.iter().map(Self::fixed_length);
                let first = lengths.next()??;
                lengths.all(|length| length == Some(first)).then_some(first)
            }
            Self::Capture(_, node) | Self::Atomic(node) => node.fixed_length(),
            Self::Repeat { node, min, max, .. } if min == max => node.fixed_length()?.checked_mul(*min),
            Self::Repeat { .. } => None,
        }
    }
}
