//! House rules of the repository: levels of crates, import circles, banned words, long files, links between pages.
//!
//! `make tidy` runs it in a few seconds, before anything slow. Each rule collects all violations before it fails, with file and line.
//! clippy.toml and deny.toml hold the rules that clippy and cargo-deny can check.
#![allow(clippy::print_stdout, reason = "the report of a command-line tool")]

mod circles;
mod files;
mod levels;
mod pages;
mod sources;
mod words;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use sources::Source;

/// A rule: its statement, and the check that returns all violations.
type Rule = (&'static str, fn(&[Source]) -> Vec<String>);

const RULES: &[Rule] = &[
    (
        "imports between crates go down only (the table in ARCHITECTURE.md)",
        levels::check,
    ),
    (
        "modules of a crate import each other in few and small circles (see circles.rs)",
        circles::check,
    ),
    ("names and texts use the field's words (docs/glossary.md)", words::check),
    ("a Rust file has at most 800 lines", files::check_length),
    ("no debugging macros remain", files::check_debugging),
    ("no file contains a path of one machine", files::check_machine_paths),
    ("each page of docs/ is linked, and each link has a target", pages::check),
];

/// Root of the repository: the argument, or the workspace that this program was built in.
fn root() -> PathBuf {
    std::env::args_os()
        .nth(1)
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."), PathBuf::from)
}

fn main() -> ExitCode {
    let sources = match sources::read(&root()) {
        Ok(sources) => sources,
        Err(error) => {
            println!("tidy: cannot read the repository: {error}");
            return ExitCode::FAILURE;
        }
    };
    let mut violations = 0;
    for (statement, check) in RULES {
        let found = check(&sources);
        if !found.is_empty() {
            println!("tidy: {statement}:");
        }
        for violation in &found {
            println!("  {violation}");
        }
        violations += found.len();
    }
    if violations == 0 {
        return ExitCode::SUCCESS;
    }
    println!("tidy: {violations} violations");
    ExitCode::FAILURE
}
