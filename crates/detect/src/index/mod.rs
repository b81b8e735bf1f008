//! Index over the conditions of rules: each value is read once, and only rules of which something was found are tested.

mod anchored;
mod build;
mod gates;
mod group;
mod item;
mod leaf;
mod literals;
mod node;
mod search;

pub(crate) use build::{GroupBuilder, compile_regex};
pub(crate) use group::{Group, GroupState};
