//! Rules about single files: length, debugging macros, paths of one machine.

use crate::sources::Source;

/// Lines of a Rust file: one file is one idea.
const LINES_MAX: usize = 800;

/// Written in two parts, so that this file does not break its own rule.
const DEBUGGING: &[&str] = &[
    concat!("dbg", "!("),
    concat!("todo", "!("),
    concat!("unimplemented", "!("),
];

const MACHINE_PATHS: &[&str] = &[
    concat!("/", "work", "/"),
    concat!("/", "root", "/"),
    concat!("/", "home", "/"),
    concat!("/", "Users", "/"),
];

pub(crate) fn check_length(sources: &[Source]) -> Vec<String> {
    let files = sources.iter().filter(|source| source.is_rust());
    files
        .map(|source| (&source.name, source.text.lines().count()))
        .filter(|(_, lines)| *lines > LINES_MAX)
        .map(|(name, lines)| format!("{name} has {lines} lines"))
        .collect()
}

pub(crate) fn check_debugging(sources: &[Source]) -> Vec<String> {
    let files = sources.iter().filter(|source| source.is_rust());
    files.flat_map(|source| source.lines_with(DEBUGGING)).collect()
}

pub(crate) fn check_machine_paths(sources: &[Source]) -> Vec<String> {
    sources
        .iter()
        .flat_map(|source| source.lines_with(MACHINE_PATHS))
        .collect()
}
