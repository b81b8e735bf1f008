//! Detection rules: which of thousands of rules one event matches.
//!
//! A rule is a condition over the fields of an event ([`Expression`]); [`sigma`] reads the files of SigmaHQ as they are. A
//! [`RuleSet`] indexes the literals of all conditions by field, so that an [`Evaluator`] reads each value once for any number of
//! rules, and tests only the rules of which a literal was found. Pure: no clock, no file, no socket.

mod alert;
mod audience;
mod budget;
mod cost_meter;
mod coverage;
mod definition;
mod evaluator;
mod event;
mod expression;
mod generated;
mod glob;
mod history;
pub mod import;
mod index;
mod json;
mod log_sources;
mod maintenance_window;
mod member_kinds;
pub mod query;
mod recurrence;
mod rule;
mod rule_set;
pub mod sigma;
mod steps;
mod substitute;
mod summary;
mod window_rule;

pub use alert::{EventPlace, alert, group_of, values_of, without_event};
pub use audience::{Audience, channels_of};
pub use budget::{BudgetLimits, Charge, Pause, RuleBudget, Throttle};
pub use cost_meter::CpuClock;
pub use coverage::{CoverageChange, Interval, Mark, intervals};
pub use definition::{DetectionRule, EscalationStep, Input, RuleException};
pub use evaluator::Evaluator;
pub use event::{EventFields, FieldId, FieldNames, Value};
pub use expression::{Comparison, Expression, Field, FieldTest, Test, TextOperator, TimePart};
pub use glob::{Pattern, Token};
pub use history::{HistoryCount, HistorySearch, history_search};
pub use log_sources::{LogSource, LogSourceEntry, LogSources, Substitute};
pub use maintenance_window::{MaintenanceWindow, MaintenanceWindows};
pub use member_kinds::{check_run, check_selection, check_test};
pub use rule::{Rule, RuleError, Severity};
pub use rule_set::{Compiled, RuleSet, Unmapped};
pub use steps::{STEPS_MAX, Step};
pub use summary::rule_summary;
pub use window_rule::{Measure, RateChange, WindowKind, WindowRule};
