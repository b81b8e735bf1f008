//! `_ingest`: ingest pipelines of Elasticsearch.
//!
//! Pipelines belong to operators and are shared by all tenants, as templates are. A tenant's writes run through those
//! that its requests, its indices or the templates name; a tenant can neither read nor change them.

mod document;
mod failure;
mod pipelines;
mod run;
mod simulate;
mod statistics;

pub(crate) use pipelines::{DELETE_PARAMS, GET_PARAMS, PUT_PARAMS, delete, get, processors, put};
pub(crate) use run::{ItemPlan, Outcomes, run};
pub(crate) use simulate::{SIMULATE_PARAMS, simulate};
pub(crate) use statistics::statistics;
