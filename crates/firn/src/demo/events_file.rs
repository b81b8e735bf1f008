//! `EVENTS=FILE`: indexes a file of the user instead of generated events.

use std::path::Path;

use anyhow::Context;
use clap::Parser;
use firn_tools::client::encode_segment;
use firn_tools::ingest;
use firn_tools::ingest::{IngestArgs, grouped};
use serde_json::{Value, json};

use super::Demo;

/// Indexes the file into an index named after it, unless an earlier run completed this.
pub(super) fn index(demo: &Demo<'_>, file: &Path) -> anyhow::Result<()> {
    let index = index_name(file);
    let path = format!("/{}", encode_segment(&index));
    if demo.client.exists(&path)? {
        if is_complete(demo, &path)? {
            let count = count(demo, &path)?;
            println!(
                "index {index} already has {} events from an earlier run",
                grouped(count)
            );
            print_what_to_try(demo, &index);
            return Ok(());
        }
        println!("an earlier run into {index} was interrupted: starting over");
        demo.client.json("DELETE", &path, None)?;
    }
    println!("indexing {} into {index}", file.display());
    demo.client.json("PUT", &path, None)?;
    let summary = ingest::ingest(&arguments(demo, file, &index), &demo.stopping)?;
    demo.client.json("POST", &format!("{path}/_refresh"), None)?;
    let found = count(demo, &path)?;
    println!(
        "{} of {} events indexed, {} found by a search{}",
        grouped(summary.indexed),
        grouped(summary.events),
        grouped(found),
        match summary.rejected + summary.unknown {
            0 => String::new(),
            lost => format!("; {} were not indexed, see the rejects file", grouped(lost)),
        }
    );
    if summary.stopped.is_none() {
        let meta = json!({"_meta": {"firn_demo": {"complete": true}}});
        demo.client.json("PUT", &format!("{path}/_mapping"), Some(&meta))?;
    }
    print_what_to_try(demo, &index);
    Ok(())
}

/// Returns the arguments of the equivalent `firn ingest` command.
fn arguments(demo: &Demo<'_>, file: &Path, index: &str) -> IngestArgs {
    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: IngestArgs,
    }
    let words = [
        "ingest".as_ref(),
        file.as_os_str(),
        "--url".as_ref(),
        demo.client.base().as_ref(),
        "--index".as_ref(),
        index.as_ref(),
    ];
    Line::parse_from(words).args
}

fn is_complete(demo: &Demo<'_>, path: &str) -> anyhow::Result<bool> {
    let mapping = demo.client.json("GET", &format!("{path}/_mapping"), None)?;
    let complete = mapping
        .as_object()
        .and_then(|indices| indices.values().next())
        .and_then(|index| index.pointer("/mappings/_meta/firn_demo/complete"));
    Ok(complete == Some(&Value::Bool(true)))
}

fn count(demo: &Demo<'_>, path: &str) -> anyhow::Result<u64> {
    let answer = demo.client.json("GET", &format!("{path}/_count"), None)?;
    answer["count"].as_u64().context("the response of _count has no count")
}

fn print_what_to_try(demo: &Demo<'_>, index: &str) {
    let base = demo.client.base();
    println!(
        "\nTry in another terminal:\n\n\
         # their number\n\
         curl -s '{base}/{index}/_count?pretty'\n\n\
         # the latest\n\
         curl -s '{base}/{index}/_search?sort=@timestamp:desc&size=1&pretty'\n\n\
         # their fields\n\
         curl -s '{base}/{index}/_field_caps?fields=*&pretty'\n\n\
         Ctrl-C stops."
    );
}

/// Returns the index name for a file: `windows-events` for `../data/Windows Events.ndjson.gz`. Removes the file
/// extensions and replaces characters that an index name must not contain.
fn index_name(file: &Path) -> String {
    let name = file.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
    let mut stem = name.as_str();
    for ending in [".gz", ".zst", ".zstd", ".ndjson", ".jsonl", ".json", ".log", ".txt"] {
        stem = stem.strip_suffix(ending).unwrap_or(stem);
    }
    let clean: String = stem
        .chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.') {
                c
            } else {
                '-'
            }
        })
        .take(200)
        .collect();
    let clean = clean.trim_start_matches(['-', '_', '.', '+']);
    if clean.is_empty() {
        "events".to_owned()
    } else {
        clean.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_is_named_after_its_file() {
        let check = |file: &str, expect: &str| assert_eq!(index_name(Path::new(file)), expect);
        check("../shared/data/windows-events.ndjson.gz", "windows-events");
        check("Windows Events.JSON", "windows-events");
        check("/a/_x.y.jsonl.zst", "x.y");
        check("---", "events");
        check("ä.ndjson", "events");
    }
}
