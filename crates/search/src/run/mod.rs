//! Execution of a compiled search: segment by segment, block by block, with memory limits, preemption and progress.

pub(crate) mod answer;
pub(crate) mod best_first;
pub(crate) mod collapse;
pub(crate) mod execute;
pub(crate) mod matching_docs;
pub(crate) mod memory;
pub(crate) mod newest_first;
pub(crate) mod preemption;
pub(crate) mod prefetch;
pub(crate) mod prepare;
pub(crate) mod prepared_shard;
pub(crate) mod profile;
pub(crate) mod progress;
pub(crate) mod second_pass;
pub(crate) mod segment_hits;
pub(crate) mod segment_parts;
pub(crate) mod segment_run;
pub(crate) mod shard_plan;
pub(crate) mod shared_state;
pub(crate) mod task_runner;
pub(crate) mod top_k;
