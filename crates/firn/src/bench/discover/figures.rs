//! What is to be reached, and whether it was.

use super::asking::bound_ms;
use super::report::{Figure, Row, Times};
use super::stages::{Mode, STAGES};

/// Repeating must cost no more than this part of the first time.
const REPEATED_PART: f64 = 0.5;
/// From the acknowledgement of a bulk to the tail's showing its event.
const TAIL_MS_MAX: f64 = 1500.0;

/// By stage: the bound of the first time, and of repeating, which must stay under half of the bound (a
/// repeated stage that takes less than that is as good as half of any time).
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
