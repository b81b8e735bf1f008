//! Ingest processors: Elasticsearch's ingest pipelines as a pure library.
//!
//! [`Pipeline::parse`] reads the body of `PUT _ingest/pipeline/{id}`; [`Pipeline::run`] changes one [`Document`]. Time,
//! other pipelines, look-up tables and the caller come in with the [`Context`]. A document costs at most its
//! [`Budget`].
//!
//! | files | hold |
//! |---|---|
//! | `pipeline.rs`, `context.rs`, `run.rs` | a parsed pipeline, what it gets from outside, the state of one run |
//! | `document/` | a document, paths into it, templates over it |
//! | `options.rs`, `step.rs`, `registry.rs` | options of a processor, options common to all, the list of processors |
//! | `kinds/` | one file per processor |
//! | `painless/` | the safe subset of Painless of `if` and `script` |
//! | `simulate.rs` | results of `_simulate` in Elasticsearch's JSON |

mod budget;
mod context;
mod document;
mod failure;
mod flow;
mod kinds;
mod options;
mod painless;
mod parse;
mod pipeline;
mod registry;
mod run;
mod simulate;
mod statistics;
mod step;
mod tables;
mod trace;

#[cfg(test)]
mod tests;

pub use budget::Budget;
pub use context::{Caller, Context, NoPipelines, Pipelines};
pub use document::Document;
pub use failure::{Failure, FailureKind};
pub use pipeline::{Outcome, Pipeline};
pub use registry::{PROCESSORS, REFUSED};
pub use simulate::{print_document, print_failure, print_result, print_verbose};
pub use statistics::{Counts, PipelineCounts, Statistics};
pub use tables::{EnrichPolicy, GeoRecord, NoTables, Tables};
pub use trace::{Condition, StepResult, StepStatus};
