//! Simulation of the whole engine on a simulated disk: runs of random operations, each with faults at random disk
//! operations, checked against a model of the acknowledged writes. `docs/simulation.md` says what is simulated and how
//! to repeat a run.
//!
//! A run follows from its seed as far as the threads of the engine allow. `FIRN_SIM_SECONDS` limits the total time
//! (default 60), `FIRN_SIM_RUNS` the number of runs; `FIRN_SIM_SEED` makes one run of this seed and prints its journal.

mod check;
mod faults;
mod model;
mod node;
mod operations;
mod policy;
mod run;
mod snapshots;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use run::{Journal, Tally};

/// Number of parallel runs: a run waits for the threads of its engine most of the time.
const WORKERS: u64 = 2;

#[expect(clippy::disallowed_methods, reason = "seed and duration come from the environment")]
fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Makes a run; a violation is returned as text with the journal.
fn run_of(seed: u64, tally: &Tally) -> Result<(), String> {
    let journal = Journal::default();
    let outcome = catch_unwind(AssertUnwindSafe(|| run::run(seed, &journal, tally)));
    let violation = match outcome {
        Ok(Ok(())) => return Ok(()),
        Ok(Err(violation)) => violation,
        Err(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
            format!("panic: {}", text.unwrap_or("of another type"))
        }
    };
    Err(format!(
        "{violation}\nrepeat with FIRN_SIM_SEED={seed}; what was done:\n{}",
        journal.text()
    ))
}

#[test]
fn no_fault_of_the_disk_loses_an_acknowledged_event() {
    let tally = Tally::default();
    if let Some(seed) = number("FIRN_SIM_SEED") {
        if let Err(violation) = run_of(seed, &tally) {
            panic!("{violation}");
        }
        return;
    }
    let first = firn_testkit::seed("no_fault_of_the_disk_loses_an_acknowledged_event");
    let until = Instant::now() + Duration::from_secs(number("FIRN_SIM_SECONDS").unwrap_or(60));
    let runs_max = number("FIRN_SIM_RUNS").unwrap_or(u64::MAX);
    let next = AtomicU64::new(0);
    let violations = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(|| {
                while Instant::now() < until && violations.lock().is_empty() {
                    let run = next.fetch_add(1, Ordering::Relaxed);
                    if run >= runs_max {
                        return;
                    }
                    if let Err(violation) = run_of(first.wrapping_add(run), &tally) {
                        violations.lock().push(violation);
                    }
                }
            });
        }
    });
    let summary = tally.summary();
    #[allow(clippy::print_stderr, reason = "the test harness shows it")]
    {
        eprintln!("{summary}");
    }
    let violations = violations.into_inner();
    assert!(violations.is_empty(), "{}", violations.join("\n\n"));
    tally.check();
}
