//! Scenarios of `tests/rest/` (its README has the format), run against a separate firn and, by `make test-peers`,
//! against a real OpenSearch; and docs/compatibility.md, which is generated from them.

#![allow(
    clippy::print_stderr,
    reason = "what was run and skipped belongs into a test's output"
)]

mod expect;
mod page;
mod run;
mod scenario;

use std::path::{Path, PathBuf};

use firn_testkit::{Client, Node, NodeOptions};

use crate::run::{Peer, Report};
use crate::scenario::ScenarioFile;

/// Minimum number from the issue that asked for the scenarios.
const SCENARIOS_MIN: usize = 200;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn files() -> Vec<ScenarioFile> {
    let files = scenario::read_all(&root().join("tests/rest")).unwrap_or_else(|error| panic!("{error:#}"));
    match std::env::var("FIRN_REST") {
        Ok(wanted) => files.into_iter().filter(|file| file.stem.contains(&wanted)).collect(),
        Err(_) => files,
    }
}

#[track_caller]
fn finish(report: &Report) {
    eprintln!("{report}");
    assert!(report.failures.is_empty(), "{} scenarios failed", report.failures.len());
}

#[test]
fn firn_answers_as_the_scenarios_say() {
    let folder = tempfile::tempdir().unwrap();
    // FIRN_BINARY selects another one, such as a release build.
    let binary = std::env::var_os("FIRN_BINARY").unwrap_or_else(|| env!("CARGO_BIN_EXE_firn").into());
    let options = NodeOptions {
        settings: vec![(
            "path.repo".to_owned(),
            folder.path().join("repositories").display().to_string(),
        )],
    };
    let node = Node::start(Path::new(&binary), folder.path(), &options).unwrap();
    let report = run::run_all(&files(), node.client(), Peer::Firn);
    finish(&report);
}

/// `make test-peers` sets the address; without one the test is skipped.
#[test]
fn opensearch_answers_as_the_scenarios_say() {
    let Ok(url) = std::env::var("OPENSEARCH_URL") else {
        eprintln!("SKIPPED: OPENSEARCH_URL names no OpenSearch to run the scenarios against (see `make test-peers`)");
        return;
    };
    let report = run::run_all(&files(), &Client::new(url), Peer::OpenSearch);
    finish(&report);
}

#[test]
fn there_are_enough_scenarios() {
    let files = scenario::read_all(&root().join("tests/rest")).unwrap();
    let count: usize = files.iter().map(|file| file.scenarios.len()).sum();
    assert!(count >= SCENARIOS_MIN, "{count} scenarios");
}

#[test]
fn every_query_and_aggregation_has_a_scenario() {
    let files = scenario::read_all(&root().join("tests/rest")).unwrap();
    let uncovered = page::uncovered(&files).unwrap_or_else(|error| panic!("{error:#}"));
    assert!(uncovered.is_empty(), "no row with a scenario for {uncovered:?}");
}

/// `make docs` sets `UPDATE_DOCS` to have the page written instead of compared.
#[test]
fn the_compatibility_page_is_up_to_date() {
    let root = root();
    let files = scenario::read_all(&root.join("tests/rest")).unwrap();
    let template = std::fs::read_to_string(root.join("tests/rest/compatibility.md")).unwrap();
    let page = page::print(&template, &files).unwrap_or_else(|error| panic!("{error:#}"));
    let path = root.join("docs/compatibility.md");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, &page).unwrap();
        return;
    }
    let written = std::fs::read_to_string(&path).unwrap();
    let first = page.lines().zip(written.lines()).find(|(new, old)| new != old);
    assert!(
        page == written,
        "docs/compatibility.md is not what the scenarios say; run `make docs`. First difference: {first:#?}"
    );
}
