//! Aggregation at write time: events of a window of time with the same values of some fields become one event of their own.
//!
//! The state is a function of a journal ([`record`]): what each stored batch adds, and the decisions to close windows, in the
//! order in which they were written. So after a crash the same windows hold the same events, although memory is lost. Everything
//! here is pure; [`crate::runner`] writes the journal and the events.

mod change_key;
mod compact_key;
mod definition;
mod event;
mod record;
mod row;
mod rule_row;
mod rule_rows_builder;
mod rule_state;
#[cfg(test)]
mod rule_tests;
mod rule_windows;
mod sample;
mod sequence_key;
mod stored_rows;
#[cfg(test)]
mod tests;
mod threshold_key;
#[cfg(test)]
mod threshold_key_reference;
mod threshold_table;
#[cfg(test)]
mod threshold_table_tests;
mod windows;

pub use definition::{AggregateDefinition, MetricDefinition};
pub(crate) use record::{Content, Delta, ReceivedSample, Record};
pub(crate) use rule_windows::{TENANT_FIELD, WindowAlert, aggregate_of};
pub(crate) use sample::{Matched, Sample, Sampler};
pub use windows::WindowCounts;
pub(crate) use windows::{Emission, EmissionContent, Windows, last_base};
