//! Budget of detection rules of the server: its clocks, the operator's alerts, and the task that fills holes.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use firn_detect::{BudgetLimits, Throttle};
use firn_engine::Engine;
use firn_model::tenant::TenantId;
use firn_notify::Notifier;
use firn_pipeline::rule_budget::RuleBudgets;
use firn_pipeline::rule_history::{FillLimits, HoleFiller};
use firn_pipeline::runner::Runner;
use tokio::task::JoinHandle;

use crate::event_pipelines::now_ns;
use crate::settings::ServeSettings;

/// How often throttles, and holes to fill, are looked at without a notice.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Pause between two steps of filling.
const FILL_PAUSE: Duration = Duration::from_millis(50);
/// Operator's alerts that are tried again, at most.
const ALERTS_MAX: usize = 1_000;

/// Creates the budget.
pub(crate) fn budget(settings: &ServeSettings) -> Arc<RuleBudgets> {
    let limits = settings.rule_budget;
    RuleBudgets::new(limits, Arc::new(now_ns), Arc::new(|_| thread_cpu_nanos()))
}

fn thread_cpu_nanos() -> u64 {
    cpu_time::ThreadTime::now().as_duration().as_nanos() as u64
}

/// Raises the operator's alerts of throttled rules, and fills the holes that they leave.
pub(crate) fn follow(
    settings: &ServeSettings,
    engine: &Arc<dyn Engine>,
    runner: &Arc<Runner>,
    notifier: &Arc<Notifier>,
    budget: &Arc<RuleBudgets>,
) -> [JoinHandle<()>; 2] {
    let limits = FillLimits {
        fetch_bytes_max: settings.discover.ask_over_bytes,
        settle_ns: settings.rule_budget.window_ns,
    };
    let (engine, runner) = (Arc::clone(engine), Arc::clone(runner));
    let filler = HoleFiller::new(engine, runner, Arc::clone(budget), Arc::new(now_ns), limits);
    [
        tokio::spawn(raise_alerts(Arc::clone(budget), Arc::clone(notifier))),
        tokio::spawn(fill(filler)),
    ]
}

async fn raise_alerts(budget: Arc<RuleBudgets>, notifier: Arc<Notifier>) {
    let mut open: Vec<Throttle> = Vec::new();
    loop {
        open.extend(budget.take_throttled());
        open.truncate(ALERTS_MAX);
        while let Some(throttle) = open.first() {
            if let Err(error) = notifier.raise_budget_exhausted(throttle).await {
                tracing::warn!(rule = throttle.rule, %error, "cannot store the alert that a rule exhausts its budget; retrying");
                break;
            }
            open.remove(0);
        }
        // A look without a notice also tries again.
        let _ = tokio::time::timeout(LOOK_EVERY, budget.noticed()).await;
    }
}

async fn fill(mut filler: HoleFiller) {
    loop {
        let has_stepped = filler.step().await.unwrap_or_else(|error| {
            tracing::warn!(%error, "cannot fill holes in the coverage of detection rules; retrying");
            false
        });
        tokio::time::sleep(if has_stepped { FILL_PAUSE } else { LOOK_EVERY }).await;
    }
}

/// Appends the throttled rules in Prometheus' text format.
pub(crate) fn write_metrics(budget: &RuleBudgets, text: &mut String) {
    // Writing to a string does not fail.
    let _ = writeln!(
        text,
        "# HELP firn_rules_throttled_total Detection rules that exhausted the budget of their owner since the start of the node.\n\
         # TYPE firn_rules_throttled_total counter\n\
         firn_rules_throttled_total {}",
        budget.throttle_count()
    );
    let throttles = budget.throttles();
    if throttles.is_empty() {
        return;
    }
    text.push_str(
        "# HELP firn_rule_throttled Detection rules that exhaust the budget of their owner now; evaluated says whether pipelines evaluate them all the same, since they count several events.\n\
         # TYPE firn_rule_throttled gauge\n",
    );
    let escape = |label: &str| label.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    for (id, throttle) in &throttles {
        let tenant = throttle.tenant.as_ref().map_or("", TenantId::as_str);
        let (id, tenant) = (escape(id), escape(tenant));
        let is_evaluated = !throttle.is_skipped;
        let _ = writeln!(
            text,
            "firn_rule_throttled{{rule=\"{id}\",tenant=\"{tenant}\",evaluated=\"{is_evaluated}\"}} 1"
        );
    }
}

/// Limits in the units of the budget.
pub(crate) fn limits(
    operator_percent: usize,
    tenant_percent: usize,
    window: Duration,
    pause: Duration,
) -> BudgetLimits {
    let share = |percent: usize| (percent > 0).then(|| percent as f64 / 100.0);
    let ns = |time: Duration| i64::try_from(time.as_nanos()).unwrap_or(i64::MAX).max(1);
    BudgetLimits {
        operator_share: share(operator_percent),
        tenant_share: share(tenant_percent),
        window_ns: ns(window),
        pause_ns: ns(pause),
    }
}

#[cfg(test)]
mod tests {
    use firn_detect::Pause;

    use super::*;

    #[test]
    fn the_gauge_of_a_throttled_rule_is_1_whether_it_is_evaluated_or_not() {
        let budget = RuleBudgets::new(
            limits(50, 50, Duration::from_secs(60), Duration::from_secs(300)),
            Arc::new(|| 0),
            Arc::new(|_| 0),
        );
        let pause = |rule: &str, is_skipped: bool| Pause {
            rule: rule.to_owned(),
            version: "v".to_owned(),
            tenant: None,
            is_skipped,
            share: 0.75,
            share_max: 0.5,
            since_ns: 0,
            until_ns: 1,
            next_pause_ns: 1,
        };
        budget.restore(vec![pause("many", false), pause("slow", true)]);
        let mut text = String::new();
        write_metrics(&budget, &mut text);
        for line in [
            "firn_rule_throttled{rule=\"many\",tenant=\"\",evaluated=\"true\"} 1\n",
            "firn_rule_throttled{rule=\"slow\",tenant=\"\",evaluated=\"false\"} 1\n",
        ] {
            assert!(text.contains(line), "{text}");
        }
    }
}
