//! Mapping of raw fields onto common fields, the Elastic Common Schema (ECS).
//!
//! A pack is one YAML file for one source: how its records are parsed, which raw field becomes which common field and of which
//! type, what is constant, what is looked up in tables, and examples that run as tests. A record is read once, without a tree;
//! values that are stored as they are borrow from it. Nothing is lost: a field without a rule and a value that has not the type
//! of its target stay under the prefix of the pack.

mod action;
mod compile;
mod convert;
pub(crate) mod dates;
mod detector;
mod ecs;
mod ecs_fields;
mod error;
mod examples;
mod extract;
mod formats;
mod items;
mod json_pass;
mod lines;
mod lookup;
mod mapper;
mod names;
mod numbers;
mod pack;
mod pack_file;
mod packs;
mod print;
mod raw_fields;
mod raw_names;
mod scan;
mod sigma;
mod targets;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_of_records;
mod unmapped;

pub use ecs::{DEFAULT_VIEW, Field, Kind};
pub use error::PackError;
pub use examples::{ExampleFailure, run_examples};
pub use lines::{LineFailure, LineTotals, map_lines};
pub use mapper::{MapOptions, Mapper};
pub use pack::Pack;
pub use packs::{builtin, builtin_names};
