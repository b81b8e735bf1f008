//! Imports of whole texts.

use serde_json::{Map, Value, json};

use super::*;
use crate::definition::LIST_MAX;

/// 2026-01-01.
const NOW_MS: i64 = 1_767_225_600_000;

fn import(lines: &[Value]) -> Import {
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    read(&text)
}

fn read(text: &str) -> Import {
    let options = ImportOptions {
        members: Map::new(),
        now_ms: NOW_MS,
        ..ImportOptions::default()
    };
    ndjson(text, &options).unwrap()
}

/// A rule of Kibana with these members.
fn rule(members: Value) -> Value {
    let mut rule = json!({
        "id": "5c1c7f9e-0000-4000-8000-000000000001", "rule_id": "r", "name": "Rule", "description": "Says more.", "type": "query",
        "severity": "high", "risk_score": 73, "enabled": true, "query": "user.name: root", "language": "kuery", "immutable": false,
        "interval": "5m", "from": "now-6m", "to": "now", "version": 3, "revision": 1, "actions": [], "exceptions_list": [],
        "created_at": "2025-06-01T00:00:00.000Z", "created_by": "ann", "max_signals": 100, "threat": [], "tags": [], "meta": {},
    });
    rule.as_object_mut()
        .unwrap()
        .extend(members.as_object().unwrap().clone());
    rule
}

/// Returns the definition of a rule, and the names of the members that are not taken, without notes.
#[track_caller]
fn definition(lines: &[Value]) -> (Value, Vec<String>) {
    let import = import(lines);
    assert!(import.refused.is_empty(), "{:?}", import.refused);
    let [rule] = &import.rules[..] else {
        panic!("{} rules", import.rules.len())
    };
    let lost = rule.not_taken.iter().filter(|member| !member.is_note);
    let names = lost.map(|member| member.member.clone());
    (Value::Object(rule.definition.clone()), names.collect())
}

#[track_caller]
fn refused(lines: &[Value], words: &str) {
    let import = import(lines);
    assert!(import.rules.is_empty(), "{:?}", import.rules);
    let reasons: Vec<&str> = import.refused.iter().map(|refused| refused.reason.as_str()).collect();
    assert!(reasons.iter().any(|reason| reason.contains(words)), "{reasons:?}");
}

#[test]
fn a_query_is_taken_with_what_readers_need() {
    let (taken, not_taken) = definition(&[rule(json!({
        "tags": ["Domain: Endpoint", "attack.t1078"], "references": ["https://example.com/a"], "false_positives": ["Admins"],
        "author": ["Ann", "Bob"], "note": "## Look at the host", "license": "MIT", "index": ["logs-*"], "enabled": false,
        "actions": [{"id": "1", "group": "default", "action_type_id": ".slack", "params": {}}], "building_block_type": "default",
        "threat": [
            {"framework": "MITRE ATT&CK", "tactic": {"id": "TA0005", "name": "Defense Evasion", "reference": "x"}, "technique": [
                {"id": "T1078", "name": "Valid Accounts", "reference": "x", "subtechnique": [{"id": "T1078.003", "name": "Local"}]},
            ]},
            {"framework": "Another", "tactic": {"id": "1", "name": "One"}},
        ],
        "alert_suppression": {"group_by": ["host.name"], "duration": {"value": 5, "unit": "m"}, "missing_fields_strategy": "suppress"},
        "of_a_later_version": {"a": 1},
    }))]);
    let expect = json!({
        "type": "query", "name": "Rule", "description": "Says more.", "enabled": false, "severity": "high", "risk_score": 73,
        "tags": ["Domain: Endpoint", "attack.t1078", "attack.defense-evasion", "attack.t1078.003"],
        "references": ["https://example.com/a"], "false_positives": ["Admins"], "author": "Ann, Bob", "note": "## Look at the host",
        "query": "user.name: root", "language": "kuery", "group_by": ["host.name"],
    });
    assert_eq!(taken, expect);
    let mut names = not_taken;
    names.sort();
    let expect = [
        "actions",
        "alert_suppression.duration",
        "building_block_type",
        "index",
        "license",
        "max_signals",
        "of_a_later_version",
        "threat",
    ];
    assert_eq!(names, expect);
}

#[test]
fn a_schedule_is_a_note() {
    let notes = |members: Value| {
        let import = import(&[rule(members)]);
        let notes = import.rules[0].not_taken.iter().filter(|member| member.is_note);
        notes
            .map(|note| format!("{}: {}", note.member, note.reason))
            .collect::<Vec<_>>()
    };
    let reason = "each event is evaluated as it comes, which covers every interval";
    assert_eq!(
        notes(json!({})),
        [format!("interval: {reason}"), format!("from: {reason}")]
    );
    // The window of a threshold.
    let threshold = json!({"type": "threshold", "threshold": {"field": ["a"], "value": 9}});
    assert_eq!(notes(threshold), [format!("interval: {reason}")]);
}

#[test]
fn filters_become_clauses_of_the_query_dsl() {
    let with = |filters: Value, query: &str, language: &str| {
        let (taken, _) = definition(&[rule(json!({"filters": filters, "query": query, "language": language}))]);
        taken["query"].clone()
    };
    let is = |field: &str, value: &str| json!({"match_phrase": { field: value }});
    let filter = |query: Value, meta: Value| json!({"meta": meta, "$state": {"store": "appState"}, "query": query});
    let kql = json!({"kql": {"query": "a: 1"}});
    assert_eq!(
        with(
            json!([
                filter(is("b", "2"), json!({"negate": false})),
                filter(is("c", "3"), json!({"negate": true}))
            ]),
            "a: 1",
            "kuery"
        ),
        json!({"bool": {"filter": [kql, is("b", "2")], "must_not": [is("c", "3")]}})
    );
    // A filter alone; older ones have no `query`, and another phrase.
    assert_eq!(
        with(
            json!([{"meta": {}, "query": {"match": {"b": {"query": "2", "type": "phrase"}}}}]),
            "",
            "kuery"
        ),
        is("b", "2")
    );
    assert_eq!(
        with(
            json!([{"meta": {"negate": true}, "exists": {"field": "b"}}]),
            "",
            "lucene"
        ),
        json!({"bool": {"must_not": [{"exists": {"field": "b"}}]}})
    );
    let parts = json!([
        filter(is("b", "2"), json!({})),
        filter(is("c", "3"), json!({"negate": true})),
        filter(is("d", "4"), json!({"disabled": true}))
    ]);
    assert_eq!(
        with(
            json!([{"meta": {"type": "combined", "relation": "OR", "params": parts}, "query": {}}]),
            "a:1",
            "lucene"
        ),
        json!({"bool": {"filter": [
            {"query_string": {"query": "a:1"}},
            {"bool": {"should": [is("b", "2"), {"bool": {"must_not": [is("c", "3")]}}]}},
        ]}})
    );
    let (taken, not_taken) = definition(&[rule(
        json!({"filters": [filter(is("b", "2"), json!({"disabled": true}))], "query": ""}),
    )]);
    assert_eq!(taken["query"], "*");
    assert!(not_taken.contains(&"filters".to_owned()), "{not_taken:?}");

    refused(
        &[rule(json!({"filters": [filter(json!({"script": {}}), json!({}))]}))],
        "script",
    );
    refused(&[rule(json!({"filters": [{"meta": {}}]}))], "has no query");
    refused(&[rule(json!({"filters": {}}))], "[filters] is no list");
    refused(&[rule(json!({"language": "esql"}))], "not [esql]");
    refused(&[rule(json!({"query": "user.*: a"}))], "is a pattern");
}

#[test]
fn thresholds_and_new_terms_become_rules_over_several_events() {
    let of = |members: Value| {
        let (taken, not_taken) = definition(&[rule(members)]);
        assert!(
            !not_taken.contains(&"from".to_owned()) || taken["type"] == "new_value",
            "{not_taken:?}"
        );
        json!({"type": taken["type"], "group_by": taken["group_by"], "window": taken["window"], "threshold": taken["threshold"], "learn_for": taken["learn_for"]})
    };
    assert_eq!(
        of(
            json!({"type": "threshold", "threshold": {"field": ["source.ip", "user.name"], "value": 20, "cardinality": []}, "from": "now-360s"})
        ),
        json!({"type": "threshold", "group_by": ["source.ip", "user.name"], "window": "6m", "threshold": {"count": 20}, "learn_for": null})
    );
    assert_eq!(
        of(
            json!({"type": "threshold", "threshold": {"field": "source.ip", "value": 1, "cardinality": [{"field": "user.name", "value": 5}]}, "from": "now-1d"})
        ),
        json!({"type": "threshold", "group_by": ["source.ip"], "window": "1d", "threshold": {"distinct": "user.name", "at_least": 5}, "learn_for": null})
    );
    assert_eq!(
        of(json!({"type": "threshold", "threshold": {"field": [], "value": 7}, "from": null})),
        json!({"type": "threshold", "group_by": null, "window": "6m", "threshold": {"count": 7}, "learn_for": null})
    );
    assert_eq!(
        of(
            json!({"type": "new_terms", "new_terms_fields": ["user.name", "host.name"], "history_window_start": "now-2w"})
        ),
        json!({"type": "new_value", "group_by": ["user.name", "host.name"], "window": null, "threshold": null, "learn_for": "14d"})
    );

    let threshold =
        |threshold: Value, from: &str| [rule(json!({"type": "threshold", "threshold": threshold, "from": from}))];
    let both = json!({"field": ["a"], "value": 9, "cardinality": [{"field": "b", "value": 5}]});
    refused(&threshold(both, "now-6m"), "a rule measures one of them");
    refused(
        &threshold(json!({"field": ["a"], "value": 9}), "now-7d"),
        "[window] is 1s to 1d",
    );
    refused(
        &threshold(json!({"field": ["a"], "value": 9}), "now-1d/d"),
        "[from] is not",
    );
    refused(
        &threshold(json!({"field": ["a"], "value": 9}), "now-18446744073709551615w"),
        "[from] is not",
    );
    refused(&threshold(json!({"field": ["a"]}), "now-6m"), "[threshold.value]");
    refused(
        &[rule(json!({"type": "new_terms", "new_terms_fields": ["a"]}))],
        "[history_window_start]",
    );
    refused(
        &[rule(
            json!({"type": "new_terms", "new_terms_fields": [], "history_window_start": "now-7d"}),
        )],
        "[group_by]",
    );
    for kind in [
        "saved_query",
        "eql",
        "esql",
        "machine_learning",
        "threat_match",
        "other",
    ] {
        refused(
            &[rule(json!({"type": kind}))],
            &format!("the type [{kind}] is not taken"),
        );
    }
    let (_, not_taken) = definition(&[rule(json!({
        "type": "threshold", "threshold": {"field": ["a"], "value": 9}, "alert_suppression": {"duration": {"value": 1, "unit": "h"}}, "to": "now-1m",
    }))]);
    assert!(
        not_taken.contains(&"alert_suppression".to_owned()) && not_taken.contains(&"to".to_owned()),
        "{not_taken:?}"
    );
}

fn list(id: &str) -> Value {
    json!({"_version": "WzEsMV0=", "id": "u1", "list_id": id, "type": "detection", "name": "Known tools", "namespace_type": "single"})
}

fn item(id: &str, entries: Value) -> Value {
    json!({"_version": "WzIsMV0=", "item_id": id, "list_id": "tools", "name": format!("Item {id}"), "namespace_type": "single", "type": "simple", "entries": entries})
}

fn with_list() -> Value {
    rule(
        json!({"exceptions_list": [{"id": "u1", "list_id": "tools", "type": "detection", "namespace_type": "single"}]}),
    )
}

#[test]
fn exceptions_follow_their_rules() {
    let entry = |kind: &str, operator: &str, value: Value| json!({"field": "process.name", "operator": operator, "type": kind, "value": value});
    let query = |entries: Value| {
        let (taken, not_taken) = definition(&[with_list(), list("tools"), item("i", entries)]);
        assert!(!not_taken.contains(&"exceptions_list".to_owned()), "{not_taken:?}");
        assert_eq!(taken["exceptions"][0]["name"], "Item i");
        taken["exceptions"][0]["query"].clone()
    };
    let is = json!({"match_phrase": {"process.name": "a.exe"}});
    assert_eq!(query(json!([entry("match", "included", json!("a.exe"))])), is);
    assert_eq!(
        query(json!([entry("match", "excluded", json!("a.exe"))])),
        json!({"bool": {"must_not": [is]}})
    );
    assert_eq!(
        query(json!([
            entry("match_any", "included", json!(["a.exe", "b.exe"])),
            entry("exists", "excluded", Value::Null)
        ])),
        json!({"bool": {
            "filter": [{"terms": {"process.name": ["a.exe", "b.exe"]}}], "must_not": [{"exists": {"field": "process.name"}}],
        }})
    );
    assert_eq!(
        query(json!([{"field": "message", "operator": "included", "type": "match_any", "value": ["one word", "two"]}])),
        json!({"bool": {"should": [{"match_phrase": {"message": "one word"}}, {"match_phrase": {"message": "two"}}]}})
    );
    assert_eq!(
        query(json!([entry("wildcard", "included", json!("a*.exe"))])),
        json!({"wildcard": {"process.name": "a*.exe"}})
    );
    let signed = json!({"field": "subject_name", "operator": "included", "type": "match", "value": "Acme"});
    let nested = json!({"field": "process.Ext.code_signature", "type": "nested", "entries": [signed]});
    assert_eq!(
        query(json!([nested])),
        json!({"match_phrase": {"process.Ext.code_signature.subject_name": "Acme"}})
    );

    let mut of_windows = item("w", json!([entry("match", "included", json!("a.exe"))]));
    of_windows["os_types"] = json!(["windows"]);
    let (taken, _) = definition(&[with_list(), list("tools"), of_windows]);
    assert_eq!(
        taken["exceptions"][0]["query"],
        json!({"bool": {"filter": [is, {"terms": {"host.os.type": ["windows"]}}]}})
    );
}

#[test]
fn index_patterns_select_the_pipelines_of_these_indices() {
    let pipeline = |id: &str, indices: &[&str]| PipelineIndices {
        id: id.to_owned(),
        indices: indices.iter().map(|index| (*index).to_owned()).collect(),
    };
    let mut pipelines = vec![
        pipeline("win", &["logs-windows"]),
        pipeline("linux", &["logs-linux"]),
        pipeline("flow", &["flows"]),
    ];
    let read = |patterns: Value, pipelines: &[PipelineIndices]| {
        let options = ImportOptions {
            pipelines: pipelines.to_vec(),
            ..ImportOptions::default()
        };
        let mut import = ndjson(&rule(json!({"index": patterns})).to_string(), &options).unwrap();
        let rule = import.rules.remove(0);
        let reason = rule.not_taken.iter().find(|part| part.member == "index");
        (
            rule.definition.get("pipelines").cloned().unwrap_or_default(),
            reason.map_or_else(String::new, |part| part.reason.clone()),
        )
    };
    for (patterns, expect, words) in [
        (json!(["logs-windows"]), json!(["win"]), ""),
        (json!(["logs-*"]), json!(["win", "linux"]), ""),
        (json!(["logs-*", "-logs-linux*"]), json!(["win"]), ""),
        (json!("flows"), json!(["flow"]), ""),
        (
            json!(["winlogbeat-*", "logs-w*"]),
            json!(["win"]),
            "no pipeline stores its events in [winlogbeat-*]; the others",
        ),
        (
            json!(["winlogbeat-*"]),
            Value::Null,
            "no pipeline stores its events in these indices",
        ),
        (json!(["remote:logs-*"]), Value::Null, "no pipeline stores"),
        (json!([]), Value::Null, ""),
        (json!(["logs-windows", "*"]), Value::Null, ""),
        (json!(["*", "-logs-*"]), json!(["flow"]), ""),
    ] {
        let (found, reason) = read(patterns.clone(), &pipelines);
        assert_eq!(found, expect, "{patterns}");
        assert!(
            reason.starts_with(words) && reason.is_empty() == words.is_empty(),
            "{patterns}: {reason}"
        );
    }
    // Of a pipeline that reads several indices the rule is for some, which it cannot say.
    pipelines.push(pipeline("stored", &["old-windows", "old-linux"]));
    let (found, reason) = read(json!(["*-windows"]), &pipelines);
    assert_eq!(
        (found, reason.contains("[stored] reads several")),
        (Value::Null, true),
        "{reason}"
    );
    let (found, _) = read(json!(["old-*"]), &pipelines);
    assert_eq!(found, json!(["stored"]));
}

#[test]
fn many_exceptions_that_end_are_put_together_by_their_ends() {
    let ends = ["2026-12-30T00:00:00.000Z", "2026-12-31T00:00:00.000Z", ""];
    let items = (0..2 * LIST_MAX).map(|number| {
        let entries = json!([{"field": "a", "operator": "included", "type": "match", "value": number}]);
        let mut item = item(&number.to_string(), entries);
        item["expire_time"] = ends[number % ends.len()].into();
        item
    });
    let lines: Vec<Value> = [with_list(), list("tools")].into_iter().chain(items).collect();
    let (taken, _) = definition(&lines);
    let groups = taken["exceptions"].as_array().unwrap();
    assert!(groups.len() <= LIST_MAX);
    let mut counts = [0; 3];
    for group in groups {
        for query in group["query"]["bool"]["should"].as_array().unwrap() {
            let number = query["match_phrase"]["a"].as_u64().unwrap() as usize;
            assert_eq!(group["expires"].as_str().unwrap_or_default(), ends[number % ends.len()]);
            counts[number % ends.len()] += 1;
        }
    }
    assert_eq!(counts.iter().sum::<usize>(), 2 * LIST_MAX);
}

#[test]
fn exceptions_that_cannot_be_expressed_are_named() {
    let reason_of = |lines: &[Value]| {
        let import = import(lines);
        assert_eq!(import.rules.len(), 1, "{:?}", import.refused);
        let exceptions = import.rules[0]
            .definition
            .get("exceptions")
            .map_or(0, |list| list.as_array().unwrap().len());
        let reasons = import.rules[0]
            .not_taken
            .iter()
            .filter(|member| member.member == "exceptions_list");
        (
            exceptions,
            reasons
                .map(|member| member.reason.clone())
                .collect::<Vec<_>>()
                .join("; "),
        )
    };
    let good = item(
        "good",
        json!([{"field": "a", "operator": "included", "type": "match", "value": "1"}]),
    );
    for (entries, words) in [
        (
            json!([{"field": "source.ip", "operator": "included", "type": "list", "list": {"id": "ips", "type": "ip"}}]),
            "[list]",
        ),
        (
            json!([{"field": "a", "type": "nested", "entries": [{"field": "b", "type": "exists"}, {"field": "c", "type": "exists"}]}]),
            "[nested]",
        ),
        (
            json!([{"field": "a", "type": "nested", "entries": [{"field": "b", "type": "exists", "operator": "excluded"}]}]),
            "[excluded]",
        ),
        (
            json!([{"field": "a", "operator": "included", "type": "match"}]),
            "has no value",
        ),
        (
            json!([{"field": "a", "operator": "included", "type": "match_any", "value": []}]),
            "[match_any]",
        ),
        (
            json!([{"field": "a", "operator": "other", "type": "match", "value": "1"}]),
            "[other]",
        ),
        (
            json!([{"operator": "included", "type": "match", "value": "1"}]),
            "[field]",
        ),
        (json!([]), "no entries"),
    ] {
        let (exceptions, reason) = reason_of(&[with_list(), list("tools"), good.clone(), item("bad", entries)]);
        assert_eq!(exceptions, 1, "{reason}");
        assert!(reason.contains("exception [bad]") && reason.contains(words), "{reason}");
    }
    let ending = |time: &str| {
        let mut item = good.clone();
        item["expire_time"] = time.into();
        item
    };
    let (exceptions, reason) = reason_of(&[with_list(), ending("2025-12-31T00:00:00.000Z")]);
    assert_eq!((exceptions, reason.contains("was over")), (0, true), "{reason}");
    let (exceptions, reason) = reason_of(&[with_list(), ending("2026-12-31T00:00:00.000Z")]);
    assert_eq!((exceptions, reason.as_str()), (1, ""));
    let (taken, _) = definition(&[with_list(), ending("2026-12-31T00:00:00.000Z")]);
    assert_eq!(taken["exceptions"][0]["expires"], "2026-12-31T00:00:00.000Z");
    let (exceptions, reason) = reason_of(&[with_list()]);
    assert_eq!(
        (exceptions, reason.contains("does not have this list")),
        (0, true),
        "{reason}"
    );

    // More than a definition can have are put together; of a list that is too long none are lost in silence.
    let number = 3 * LIST_MAX + 1;
    let items = (0..number).map(|number| {
        item(
            &number.to_string(),
            json!([{"field": "a", "operator": "included", "type": "match", "value": number}]),
        )
    });
    let mut lines: Vec<Value> = [with_list(), list("tools")].into_iter().chain(items).collect();
    let (taken, _) = definition(&lines);
    let groups = taken["exceptions"].as_array().unwrap();
    let queries = groups
        .iter()
        .map(|group| group["query"]["bool"]["should"].as_array().unwrap().len());
    assert!(groups.len() <= LIST_MAX);
    assert_eq!(queries.sum::<usize>(), number);
    let long = "x".repeat(400_000);
    lines.extend((0..3).map(|number| {
        item(
            &format!("long{number}"),
            json!([{"field": "a", "type": "match", "operator": "included", "value": long}]),
        )
    }));
    refused(&lines, "exceptions of the rule have more than");
}

#[test]
fn lines_that_are_no_rules_are_distinguished() {
    let import = import(&[
        rule(json!({})),
        json!({"id": "own", "definition": {"type": "query", "name": "Own", "query": "a: 1"}}),
        json!({"id": "own", "definition": {"type": "query", "name": "Again", "query": "a: 1"}}),
        json!({"id": "odd", "definition": 1}),
        rule(json!({"rule_id": "a,b"})),
        rule(json!({"rule_id": "_a"})),
        rule(json!({"rule_id": ""})),
        rule(json!({"rule_id": "x".repeat(256)})),
        rule(json!({"rule_id": "bad", "severity": "awful"})),
        rule(json!({"rule_id": "odd-tags", "tags": [1]})),
        list("lonely"),
        json!({"id": "c1", "type": "action", "attributes": {"actionTypeId": ".slack", "name": "Chat"}, "references": []}),
        json!({"id": "d1", "type": "dashboard", "attributes": {}}),
        json!({"exported_count": 2, "exported_rules_count": 1, "missing_rules": []}),
        json!({"other": 1}),
        json!([1]),
    ]);
    let rules: Vec<(usize, &str)> = import.rules.iter().map(|rule| (rule.line, rule.id.as_str())).collect();
    assert_eq!(rules, [(1, "r"), (2, "own")]);
    let refused: Vec<(usize, &str)> = import
        .refused
        .iter()
        .map(|rule| (rule.line, rule.reason.as_str()))
        .collect();
    for (line, words) in [
        (3, "the rule of line 2 has the same id"),
        (4, "[definition] is no object"),
        (5, "must not contain [,]"),
        (6, "must not start with [_]"),
        (7, "must have [1] to [255] bytes"),
        (8, "must have [1] to [255] bytes"),
        (9, "[severity] is one of"),
        (10, "[tags] is no list of texts"),
        (13, "saved object [dashboard]"),
        (15, "neither of Kibana nor of firn"),
        (16, "no JSON object"),
    ] {
        let found = refused.iter().find(|(at, _)| *at == line);
        assert!(
            found.is_some_and(|(_, reason)| reason.contains(words)),
            "{line}: {found:?}"
        );
    }
    assert_eq!(refused.len(), 11);
    assert!(refused.is_sorted(), "{refused:?}");
    let unused: Vec<(usize, &str, &str)> = import
        .unused
        .iter()
        .map(|part| (part.line, part.id.as_str(), part.not_taken.member.as_str()))
        .collect();
    assert_eq!(unused, [(11, "lonely", "exception list"), (12, "c1", "connector")]);
    assert_eq!(import.unused[1].name, "Chat");
}

#[test]
fn lines_have_a_limit_and_a_number() {
    let long = format!(
        "{{\"id\": \"long\", \"definition\": {{\"name\": \"{}\"}}}}",
        "x".repeat(5 << 20)
    );
    let text = format!("\n\n{{\n{long}\r\n{}\n", rule(json!({})));
    let import = read(&text);
    let refused: Vec<(usize, bool)> = import
        .refused
        .iter()
        .map(|rule| (rule.line, rule.reason.contains("a line has at most")))
        .collect();
    assert_eq!(refused, [(3, false), (4, true)]);
    assert_eq!(import.rules[0].line, 5);
    let many = "{\"exported_count\":1}\n".repeat(200_001);
    let error = ndjson(&many, &ImportOptions::default()).unwrap_err();
    assert!(error.reason().contains("at most [200000] lines"), "{error:?}");
}

#[test]
fn parameters_are_set_in_each_rule() {
    let members = json!({"enabled": false, "tenant": "acme", "channels": ["mail"]});
    let options = ImportOptions {
        members: members.as_object().unwrap().clone(),
        now_ms: NOW_MS,
        ..ImportOptions::default()
    };
    let own = json!({"id": "own", "definition": {"type": "query", "name": "Own", "query": "a: 1", "enabled": true}});
    let import = ndjson(&format!("{}\n{own}", rule(json!({}))), &options).unwrap();
    assert_eq!(import.rules.len(), 2);
    for rule in import.rules {
        for (name, value) in members.as_object().unwrap() {
            assert_eq!(&rule.definition[name], value, "{}", rule.id);
        }
    }
}

#[test]
fn an_export_is_read_as_it_was() {
    let definitions = [
        json!({"type": "query", "query": "b: 1.10", "name": "Z", "risk_score": 5, "tags": [], "exceptions": [{"query": {"term": {"a": 0.1}}, "expires": "2026-12-31T00:00:00.000Z"}]}),
        json!({"type": "threshold", "name": "ü \u{2028} \"", "query": "*", "window": "1m", "threshold": {"sum": "n", "at_least": 1e9}}),
        json!({"type": "sigma", "sigma": SIGMA, "channels": ["mail"]}),
    ];
    let mut text = String::new();
    for (number, definition) in definitions.iter().enumerate() {
        text += &rule_line(&format!("rule {number}"), definition.as_object().unwrap());
    }
    text += &summary_line(3, &["gone".to_owned()]);
    assert_eq!(text.lines().count(), 4);
    let import = read(&text);
    assert!(
        import.refused.is_empty() && import.unused.is_empty(),
        "{:?}",
        import.refused
    );
    for (rule, definition) in import.rules.iter().zip(&definitions) {
        assert_eq!(
            Value::Object(rule.definition.clone()).to_string(),
            definition.to_string()
        );
    }
    assert_eq!(import.rules.len(), 3);
}

const SIGMA: &str = "title: Tool\nid: tool\nlogsource: {product: windows}\ndetection:\n  s: {a: 1}\n  condition: s\n";

#[test]
fn sigma_rules_have_their_lines() {
    let other = SIGMA.replace("tool", "other").replace("Tool", "Other");
    let text = format!(
        "# rules\n\n{SIGMA}---\n\n# another\n{other}---\ntitle: [\n---\n{SIGMA}---\ntitle: None\nid: none\n---\n{}",
        SIGMA.replace("id: tool", "id: a,b")
    );
    let import = sigma_yaml(&text, &ImportOptions::default()).unwrap();
    let rules: Vec<(usize, &str)> = import.rules.iter().map(|rule| (rule.line, rule.id.as_str())).collect();
    assert_eq!(rules, [(3, "tool"), (12, "other")]);
    let refused: Vec<usize> = import.refused.iter().map(|rule| rule.line).collect();
    assert_eq!(refused, [19, 21, 28, 31], "{:?}", import.refused);
    assert!(import.refused[1].reason.contains("line 3"), "{:?}", import.refused);
    assert!(
        import.refused[3].reason.contains("must not contain [,]"),
        "{:?}",
        import.refused
    );

    // Texts of an export are those that were stored, but for the end of their last line.
    let exported: String = import
        .rules
        .iter()
        .filter_map(|rule| sigma_text(&rule.definition))
        .collect();
    let again = sigma_yaml(&exported, &ImportOptions::default()).unwrap();
    let texts = |import: &Import| {
        import
            .rules
            .iter()
            .map(|rule| rule.definition.clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(texts(&again), texts(&import));
    let unended = json!({"type": "sigma", "sigma": "title: x"});
    assert_eq!(sigma_text(unended.as_object().unwrap()).unwrap(), "---\ntitle: x\n");
    assert_eq!(
        sigma_text(json!({"type": "query", "query": "*"}).as_object().unwrap()),
        None
    );
}

#[test]
fn a_sigma_rule_without_an_id_has_one_of_its_title() {
    let of_title = |title: &str| SIGMA.replace("id: tool\n", "").replace("Tool", title);
    let text = [
        of_title("Read of /etc/shadow"),
        of_title("'_a, b'"),
        of_title("Read of -etc-shadow"),
        of_title("'///'"),
        of_title("'__'"),
    ];
    let import = sigma_yaml(&text.join("---\n"), &ImportOptions::default()).unwrap();
    let ids: Vec<(&str, &str)> = import
        .rules
        .iter()
        .map(|rule| (rule.id.as_str(), rule.name.as_str()))
        .collect();
    assert_eq!(
        ids,
        [
            ("Read of -etc-shadow", "Read of /etc/shadow"),
            ("a- b", "_a, b"),
            ("---", "///")
        ]
    );
    let reasons: Vec<&str> = import.refused.iter().map(|rule| rule.reason.as_str()).collect();
    assert_eq!(reasons.len(), 2, "{reasons:?}");
    assert!(reasons[0].contains("the rule of line 1 has the same id"), "{reasons:?}");
    assert!(reasons[1].contains("must have [1] to [255] bytes"), "{reasons:?}");
    let correlation = "title: 5/min\ncorrelation: {type: event_count, rules: [tool], group-by: [a], timespan: 1m, condition: {gte: 5}}\n";
    let import = sigma_yaml(&format!("{SIGMA}---\n{correlation}"), &ImportOptions::default()).unwrap();
    assert_eq!(import.rules[0].id, "5-min", "{:?}", import.refused);
}

#[test]
fn wrong_types_of_a_sigma_rule_are_reported_once() {
    let with = |members: &str| {
        let import = sigma_yaml(
            &SIGMA.replace("id: tool\n", &format!("id: tool\n{members}\n")),
            &ImportOptions::default(),
        );
        let import = import.unwrap();
        let refused: Vec<String> = import.refused.iter().map(|rule| rule.reason.clone()).collect();
        let notes = import.rules.iter().flat_map(|rule| &rule.not_taken);
        let notes: Vec<String> = notes.map(|note| format!("{} {}", note.member, note.is_note)).collect();
        (refused, notes)
    };
    let refused = |reason: &str| (vec![reason.to_owned()], Vec::new());
    for (members, reason) in [
        ("level: [high]", "[level] must be a string, not a list"),
        ("level: 3", "[level] must be a string, not a number"),
        ("level: hihg", "invalid level: 'hihg'"),
        ("status: new", "invalid status: 'new'"),
        ("tags: {a: b}", "[tags] must be a list of strings, not a mapping"),
        ("tags: [a, 1]", "[tags] must be a list of strings, not of a number"),
    ] {
        assert_eq!(with(members), refused(reason), "{members}");
    }
    assert_eq!(with("tags: attack.t1078"), (Vec::new(), vec!["tags true".to_owned()]));
    assert_eq!(with("tags: [attack.t1078]\nlevel: high"), (Vec::new(), Vec::new()));
    assert_eq!(with("tags:\nlevel:"), (Vec::new(), Vec::new()));
    // The errors of a correlation, and what becomes of its rules.
    let correlation = "title: c\nlevel: hihg\ncorrelation: {type: event_count, rules: [tool], group-by: [a], timespan: 1m, condition: {gte: 5}}\n";
    let import = sigma_yaml(&format!("{SIGMA}---\n{correlation}"), &ImportOptions::default()).unwrap();
    let reasons: Vec<&str> = import.refused.iter().map(|rule| rule.reason.as_str()).collect();
    assert_eq!(
        reasons,
        ["the correlation that refers to it is refused", "invalid level: 'hihg'"]
    );
}
