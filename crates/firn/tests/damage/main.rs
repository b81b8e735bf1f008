//! Damage test for every class of file that firn writes: a flipped bit, a lost page or a lost file never changes an
//! answer, bypasses authentication or deletes anything. The answer stays the same, or an error names the file.
//!
//! `FIRN_DAMAGE_CASES` sets the number of cases. A failed run keeps its prepared data and prints how to repeat one
//! case: `FIRN_SEED`, `FIRN_DAMAGE_CASE` and `FIRN_DAMAGE_DATA` together.
#![allow(
    unreachable_pub,
    clippy::print_stderr,
    reason = "modules of one test; the test harness shows what it prints with a failure"
)]

mod battery;
mod case;
mod damages;
mod files;
mod world;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use firn_testkit::{copy_folder, seed};

use battery::{Question, ask, questions};
use case::{Case, End, Prepared};
use damages::Damage;
use files::{Class, files};
use world::Keys;

/// Cases of a run in the test suite.
const CASES: u64 = 300;
/// Concurrent nodes.
const WORKERS: usize = 2;
/// Maximum failures in the output.
const FAILURES_SHOWN: usize = 12;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Returns prepared data: of an earlier run if the environment names it, else created now.
fn prepared_data() -> PathBuf {
    if let Some(folder) = std::env::var_os("FIRN_DAMAGE_DATA") {
        return folder.into();
    }
    let folder = tempfile::tempdir().unwrap().keep();
    world::prepare(&folder);
    folder
}

/// Records the files of a prepared folder by class, and its undamaged answers from two copies.
fn record(root: &Path, name: &'static str, questions: &[Question]) -> Prepared {
    let folder = root.join(name);
    let mut known = Vec::new();
    for path in files(&folder) {
        if path.starts_with(world::DATA) || path.starts_with(world::WARM) || path.starts_with("repositories") {
            let class = Class::of(&path);
            known.push((
                class.unwrap_or_else(|| panic!("a class for [{}]", path.display())),
                path,
            ));
        }
    }
    let keys = Keys::read(&folder);
    let mut rounds = (0..2).map(|_| {
        let own = tempfile::tempdir().unwrap();
        copy_folder(&folder, own.path());
        let node = world::start(own.path(), &[]).unwrap();
        let responses: Vec<_> = questions
            .iter()
            .map(|question| ask(&node, &keys, question).unwrap())
            .collect();
        for (question, response) in questions.iter().zip(&responses) {
            assert!(
                response.status == 401 || !response.is_failure,
                "{name}: {} {}: {}",
                question.path,
                question.body,
                response.text
            );
        }
        node.kill9().unwrap();
        responses
    });
    let (responses, again) = (rounds.next().unwrap(), rounds.next().unwrap());
    for ((question, response), again) in questions.iter().zip(&responses).zip(&again) {
        assert!(
            response.is_same(again),
            "{name}: undamaged, {} {} differs: {} and {}",
            question.path,
            question.body,
            response.text,
            again.text
        );
    }
    drop(rounds);
    Prepared {
        name,
        folder,
        files: known,
        keys,
        responses,
    }
}

fn run_one(case: &Case, prepared: &Prepared, questions: &[Question]) -> Result<End, String> {
    let own = tempfile::tempdir().unwrap();
    copy_folder(&prepared.folder, own.path());
    case::run(case, prepared, own.path(), questions)
}

#[derive(Default)]
struct Outcome {
    ends: BTreeMap<(Class, End), u64>,
    failures: Vec<String>,
}

/// The page that a case of this seed zeroes made the store of the catalog panic.
const SEED: u64 = 16_748_367_934_605_260_868;

#[test]
fn damage_is_found_or_does_no_harm() {
    // Without a number of cases these are the same ones each time: more cases, and others, are for `make soak`.
    let seed = match number("FIRN_DAMAGE_CASES").or(number("FIRN_SEED")) {
        Some(_) => seed("damage"),
        None => SEED,
    };
    let root = prepared_data();
    let questions = questions();
    let prepared = [
        record(&root, "stopped", &questions),
        record(&root, "killed", &questions),
    ];
    for class in Class::ALL {
        let has_it = prepared.iter().any(|prepared| prepared.has(class));
        assert!(has_it, "no file of class {class:?} was prepared");
    }
    let wanted = match number("FIRN_DAMAGE_CASE") {
        Some(case) => case..case + 1,
        None => 0..number("FIRN_DAMAGE_CASES").unwrap_or(CASES),
    };
    let started = std::time::Instant::now();
    let next = AtomicU64::new(wanted.start);
    let outcome = Mutex::new(Outcome::default());
    std::thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= wanted.end {
                        return;
                    }
                    let (which, case) = Case::draw(seed, number, &prepared);
                    let end = run_one(&case, &prepared[which], &questions);
                    let mut outcome = outcome.lock().unwrap();
                    match end {
                        Ok(end) => *outcome.ends.entry((case.class, end)).or_default() += 1,
                        Err(wrong) => {
                            let text = format!("{case} of [{}]: {wrong}", prepared[which].name);
                            outcome.failures.push(text);
                        }
                    }
                }
            });
        }
    });
    let outcome = outcome.into_inner().unwrap();
    for ((class, end), count) in &outcome.ends {
        eprintln!("damage: {class:?} {end:?}: {count}");
    }
    eprintln!(
        "damage: {} cases in {} s",
        wanted.end - wanted.start,
        started.elapsed().as_secs()
    );
    if outcome.failures.is_empty() {
        if std::env::var_os("FIRN_DAMAGE_DATA").is_none() {
            std::fs::remove_dir_all(&root).unwrap();
        }
        return;
    }
    std::fs::write(root.join("failures.txt"), outcome.failures.join("\n\n")).unwrap();
    let shown: Vec<&str> = outcome
        .failures
        .iter()
        .take(FAILURES_SHOWN)
        .map(String::as_str)
        .collect();
    panic!(
        "{} of {} cases failed; repeat one with FIRN_SEED={seed} FIRN_DAMAGE_DATA={} FIRN_DAMAGE_CASE=N\n{}",
        outcome.failures.len(),
        wanted.end - wanted.start,
        root.display(),
        shown.join("\n\n")
    );
}

#[test]
fn every_kind_of_damage_changes_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    let mut random = fastrand::Rng::with_seed(1);
    let bytes: Vec<u8> = (0..40_000).map(|_| random.u8(1..)).collect();
    let mut seen = BTreeMap::<String, u32>::new();
    for _ in 0..200 {
        std::fs::write(&path, &bytes).unwrap();
        let damage = Damage::draw(&mut random, bytes.len());
        assert!(damage.apply(&path), "{damage:?}");
        assert_ne!(std::fs::read(&path).ok().as_ref(), Some(&bytes), "{damage:?}");
        let name = format!("{damage:?}");
        *seen
            .entry(name.split_whitespace().next().unwrap().to_owned())
            .or_default() += 1;
    }
    assert_eq!(seen.len(), 5, "{seen:?}");
}
