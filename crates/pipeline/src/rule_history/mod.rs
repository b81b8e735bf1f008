//! Detection rules over stored events: the coverage ledger as it is read, runs of a rule for events that no pipeline evaluated it on,
//! and the runs that fill the holes of the budget by themselves.

mod fill;
mod ledger;
mod open_holes;
mod record_test;
mod stored_events;
mod stored_run;
mod unevaluated;

pub use fill::{FillLimits, HoleFiller, index_without_tenants, reason_without_tenants, restore_pauses};
pub use ledger::{Hole, PartitionCoverage, RuleLedger};
pub use open_holes::{OpenHoleList, OpenHoles};
pub use record_test::{RecordTest, TestReport};
pub use stored_run::{RunOutcome, RunReport, StoredRun};
pub use unevaluated::{Unevaluated, UnevaluatedReason};
