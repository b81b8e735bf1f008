//! Columns of a segment: numbers, strings, and which documents have a value.

pub mod column;
pub mod number_statistics;
pub mod paths;
pub mod presence;
pub mod strings;
