//! Settings of the budget of detection rules.

use super::definitions::Definition;
use super::kinds::DefaultValue::{Derived, Fixed};
use super::kinds::Kind;

const SECTION: &str = "Alerts";

pub(super) const OPERATOR: Definition = Definition {
    name: "rules.budget.operator.core_percent",
    section: SECTION,
    kind: Kind::Count(0, 100_000),
    default: Derived("50 for each core of the machine"),
    help: "Percentage of one core that the conditions of all detection rules without a tenant may use; 0 is no limit. Above it the most expensive rules [pause](alerts.md#the-budget-of-rules). Only in firn.",
};

pub(super) const TENANT: Definition = Definition {
    name: "rules.budget.tenant.core_percent",
    section: SECTION,
    kind: Kind::Count(0, 100_000),
    default: Fixed("50"),
    help: "The same for the rules of each tenant.",
};

pub(super) const WINDOW: Definition = Definition {
    name: "rules.budget.window",
    section: SECTION,
    kind: Kind::Duration,
    default: Fixed("1m"),
    help: "Sliding window over which the budget of rules is measured. The hole of a paused rule is filled this long after its end. Only in firn.",
};

pub(super) const PAUSE: Definition = Definition {
    name: "rules.budget.pause",
    section: SECTION,
    kind: Kind::Duration,
    default: Fixed("5m"),
    help: "First pause of a rule that exhausts the budget; each further pause is twice as long, up to 16 times. Only in firn.",
};
