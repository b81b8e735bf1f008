//! `firn bench layout` from loading to the report, and `firn layout advise` on what it has loaded.

mod support;

use std::path::Path;

use firn_testkit::{Node, NodeOptions};
use serde_json::Value;

use support::{firn, stderr};

/// Enough for a small tenant with some hundred events.
const EVENTS: &str = "20000";
const TENANTS: &str = "12";

fn node(folder: &Path) -> Node {
    std::fs::create_dir_all(folder).expect("a folder");
    let binary = Path::new(env!("CARGO_BIN_EXE_firn"));
    // Pretend to have much disk space, because the test stores little.
    let headroom = "cluster.routing.allocation.disk.watermark.flood_stage.max_headroom";
    let options = NodeOptions {
        settings: vec![(headroom.to_owned(), "1gb".to_owned())],
    };
    Node::start(binary, folder, &options).expect("a node")
}

/// Runs `firn bench layout` with additional options; returns its stderr and its report.
fn bench(node: &Node, folder: &Path, more: &[&str]) -> (String, Value) {
    let json = folder.join("layout.json").display().to_string();
    let mut arguments = vec!["bench", "layout", "--url", node.client().base()];
    arguments.extend(["--events", EVENTS, "--tenants", TENANTS, "--settle-seconds", "0"]);
    arguments.extend(["--batch-bytes", "6000000", "--warm-up-rounds", "0", "--repeats", "2"]);
    arguments.extend(["--repeats-max", "2", "--json", &json]);
    arguments.extend(more);
    let output = firn(&arguments);
    assert!(output.status.success(), "{}", stderr(&output));
    let report = std::fs::read(&json).expect("a report");
    (stderr(&output), serde_json::from_slice(&report).expect("JSON"))
}

/// Fails unless all elements of the page are closed and properly nested.
fn check_well_formed(page: &str) {
    let mut open = Vec::new();
    let mut rest = page.strip_prefix("<!DOCTYPE html>").expect("a doctype");
    while let Some((_, after)) = rest.split_once('<') {
        let (tag, after) = after.split_once('>').expect("a tag ends");
        assert!(!tag.contains('<'), "a tag in a tag: {tag}");
        assert_eq!(tag.matches('"').count() % 2, 0, "a quote is left open: {tag}");
        let name = |tag: &str| tag.split_whitespace().next().expect("a name").to_owned();
        match tag.strip_prefix('/') {
            Some(ended) => assert_eq!(
                open.pop(),
                Some(name(ended)),
                "before {}",
                &after[..after.len().min(100)]
            ),
            None if tag.ends_with('/') => {}
            None => open.push(name(tag)),
        }
        rest = after;
    }
    assert_eq!(open, Vec::<String>::new());
}

/// Checks the advice on daily indices with three shards each, as text and as JSON.
fn check_advice(node: &Node) {
    let advise = |more: &[&str]| {
        let mut arguments = vec!["layout", "advise", "--url", node.client().base()];
        arguments.extend(["--repeats", "2", "--by", "event_class"]);
        arguments.extend(more);
        let output = firn(&arguments);
        assert!(output.status.success(), "{}", stderr(&output));
        String::from_utf8(output.stdout).expect("text")
    };
    let daily = ["--index", "bench-layout-daily-*", "--retention-days", "30"];
    let text = advise(&daily);
    for part in [
        "20,000 events of 12 tenants over 21.0 days",
        "in 21 indices with 63 shards",
        "tenant-001 (large)",
        "ms per shard",
        "- period: ",
        "only volume",
        "\"index.tenant.field\": \"tenant\"",
    ] {
        assert!(text.contains(part), "[{part}] is not in\n{text}");
    }
    let mut more = daily.to_vec();
    more.push("--json");
    let found: Value = serde_json::from_str(&advise(&more)).expect("JSON");
    assert_eq!(found["volumes"]["events"], 20_000);
    assert_eq!(found["volumes"]["tenants"].as_array().map(Vec::len), Some(12));
    // Three windows of each of three tenants, in all shards and in one shard of each index; the longest covers
    // everything.
    let measured = found["measured"].as_array().expect("measures");
    assert_eq!(measured.len(), 18);
    assert_eq!(measured[2]["events"], found["volumes"]["tenants"][0]["events"]);
    assert_eq!(
        (&measured[2]["shards"], &measured[11]["shards"]),
        (&Value::from(63), &Value::from(21))
    );
    // A month and two weeks would retain data too long that must be deleted after thirty days.
    let candidates = found["advice"]["candidates"].as_array().expect("candidates");
    let refused: Vec<_> = candidates
        .iter()
        .filter(|of| of["refused"].is_string())
        .map(|of| &of["period"])
        .collect();
    assert_eq!(refused, ["two_weeks", "month"]);
    assert!(found["advice"]["period"] == "day" || found["advice"]["period"] == "week");
    assert_eq!(found["advice"]["shards"], 1);
    let expected = found["expected"].as_array().expect("effects").iter();
    let effects: Vec<_> = expected
        .map(|of| (of["sample_ms"][0].as_f64(), of["sample_ms"][1].as_f64()))
        .collect();
    assert!(
        effects.len() == 3 && effects.iter().all(|(now, then)| then.is_some() && then <= now),
        "{effects:?}"
    );

    let output = firn(&[
        "layout",
        "advise",
        "--url",
        node.client().base(),
        "--tenant-field",
        "noname",
    ]);
    assert!(!output.status.success());
    assert!(
        stderr(&output).contains("no event of [*] has both [noname] and [@timestamp]"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn layouts_are_loaded_queried_and_found_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let first = node(&folder.path().join("first"));
    let other = node(&folder.path().join("other"));
    let (html, markdown) = (folder.path().join("layout.html"), folder.path().join("layout.md"));
    let vs = vec!["--vs", other.client().base(), "--vs-subjects", "routed-weekly"];
    let mut more = vs.clone();
    let (html_name, markdown_name) = (html.display().to_string(), markdown.display().to_string());
    more.extend(["--html", &html_name, "--markdown", &markdown_name, "--no-merge"]);
    let (_, report) = bench(&first, folder.path(), &more);

    let layouts = |report: &Value, reloaded: bool| -> Vec<String> {
        let subjects = report["subjects"].as_array().expect("subjects").iter();
        let subjects = subjects.filter(|subject| subject["load_seconds"].is_number() == reloaded);
        subjects
            .map(|subject| {
                format!(
                    "{} {}",
                    subject["server"],
                    subject["layout"].as_str().expect("a layout")
                )
            })
            .collect()
    };
    let all = [
        "0 daily",
        "0 routed-daily",
        "0 routed-weekly",
        "0 routed-two-weekly",
        "0 routed-monthly",
        "0 own",
        "1 routed-weekly",
    ];
    assert_eq!(layouts(&report, true), all);
    // The data stream has an index for each of the three weeks, and one for the events of today.
    let shards: Vec<_> = report["subjects"]
        .as_array()
        .expect("subjects")
        .iter()
        .map(|of| of["stored"]["shards"].as_u64())
        .collect();
    assert_eq!(shards, [63, 63, 21, 28, 28, 8, 21].map(Some));
    // 3 tenants, 2 windows, 5 measures, 3 modes.
    let rows = report["rows"].as_array().expect("rows");
    assert_eq!(rows.len(), 90);
    assert!(
        rows.iter()
            .all(|row| row["times"].as_array().is_some_and(|times| times.len() == all.len()))
    );
    assert!(rows.iter().all(|row| {
        row["times"]
            .as_array()
            .into_iter()
            .flatten()
            .all(|times| times["runs"] == 2)
    }));

    assert_eq!(report["figures"].as_array().expect("figures").len(), 2);

    let page = std::fs::read_to_string(&html).expect("a page");
    check_well_formed(&page);
    // 6 sections of 3 charts, and 7 squares in the legend of each.
    assert_eq!(page.matches("<svg").count(), 6 * (3 + 7));
    let tables = std::fs::read_to_string(&markdown).expect("tables");
    assert!(tables.contains("daily×3 routed") && tables.contains(" %)"), "{tables}");

    let placement = first.client().get("/_firn/placement").expect("an answer");
    assert_eq!(placement.status, 404, "the table is as it was: {}", placement.text());
    check_advice(&first);

    // Complete indices are reused, incomplete ones are loaded again.
    let indices = first
        .client()
        .get("/_cat/indices/bench-layout-routed-weekly-*?h=index")
        .expect("an answer");
    let index = indices.text().lines().next().expect("an index").trim().to_owned();
    let deleted = first
        .client()
        .send("DELETE", &format!("/{index}"), None, b"")
        .expect("an answer");
    assert_eq!(deleted.status, 200);
    let mut more = vs.clone();
    more.extend(["--reuse", "--load-only", "--no-merge"]);
    let (said, report) = bench(&first, folder.path(), &more);
    assert_eq!(layouts(&report, true), ["0 routed-weekly"], "{said}");
    assert_eq!(report["rows"], Value::Array(Vec::new()));
    let more = ["--subjects", "routed-weekly,own", "--reuse", "--load-only"];
    let (_, report) = bench(&first, folder.path(), &more);
    assert_eq!(layouts(&report, true), Vec::<String>::new());
    assert_eq!(layouts(&report, false), ["0 routed-weekly", "0 own"]);
    let stored = report["subjects"]
        .as_array()
        .expect("subjects")
        .iter()
        .map(|of| &of["stored"]);
    let merged = |of: &Value| {
        of["segments"]
            .as_u64()
            .is_some_and(|segments| Some(segments) <= of["shards"].as_u64())
    };
    assert!(stored.clone().all(merged), "{report:#}");
}

#[test]
fn options_that_make_no_sense_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = node(folder.path());
    let url = node.client().base();
    for (more, reason) in [
        (
            &["--repeats", "9", "--repeats-max", "3"][..],
            "--repeats must not be more",
        ),
        (&["--subjects", "daily,daily"], "daily is named twice"),
        (&["--subjects", "yearly"], "invalid value 'yearly'"),
        (&["--events", "500", "--tenants", "40"], "more events, or fewer tenants"),
    ] {
        let mut arguments = vec!["bench", "layout", "--url", url];
        arguments.extend(more);
        let output = firn(&arguments);
        assert!(!output.status.success(), "{more:?}");
        assert!(stderr(&output).contains(reason), "{more:?}: {}", stderr(&output));
    }
}
