//! Targets of the benchmark, and whether they were met.

use super::asking::bound_ms;
use super::report::{Figure, Row, Times};
use super::stages::{Mode, STAGES};

/// A repetition must take no more than this part of the limit for the first time.
const REPEATED_PART: f64 = 0.5;
/// From the acknowledgement of a bulk to its event in the live tail.
const TAIL_MS_MAX: f64 = 1500.0;

/// Returns for each stage the limit of the first time, and of repetitions, which is half of it. (A repeated stage that
/// meets this limit passes even if it takes more than half of its first time.)
pub(super) fn figures(rows: &[Row], tail: Option<Times>) -> Vec<Figure> {
    let mut figures = Vec::new();
    for stage in STAGES {
        for mode in [Mode::First, Mode::Repeated] {
            let (bound, what) = match mode {
                Mode::First => (bound_ms(stage), format!("{} at the API, p95", stage.id())),
                Mode::Repeated => (bound_ms(stage) * REPEATED_PART, format!("{} repeated, p95", stage.id())),
            };
            let worst = rows
                .iter()
                .filter(|row| row.stage == stage && row.mode == mode)
                .map(|row| row.firn.p95_ms)
                .max_by(f64::total_cmp);
            if let Some(found_ms) = worst {
                figures.push(Figure {
                    what,
                    bound_ms: bound,
                    found_ms,
                    reached: found_ms <= bound,
                });
            }
        }
    }
    figures.extend(tail.map(|tail| Figure {
        what: "an event in the live tail after its bulk was acknowledged, p95".to_owned(),
        bound_ms: TAIL_MS_MAX,
        found_ms: tail.p95_ms,
        reached: tail.p95_ms <= TAIL_MS_MAX,
    }));
    figures
}
