//! Import of rules from Kibana, and export of all rules (docs/operate/alerts.md).

use firn_testkit::{Answer, Client};
use rules::{send, start, wait_for, wait_for_rules};
use serde_json::{Value, json};

#[path = "support/rules.rs"]
mod rules;

const NDJSON: &str = "application/x-ndjson";

fn import(client: &Client, parameters: &str, content_type: &str, text: &str) -> Answer {
    let path = format!("/_firn/rules/_import?{parameters}");
    client.send("POST", &path, Some(content_type), text.as_bytes()).unwrap()
}

#[track_caller]
fn imported(client: &Client, parameters: &str, content_type: &str, text: &str) -> Value {
    let answer = import(client, parameters, content_type, text);
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()
}

/// Returns the members of the entries of a list, one of each.
fn each(list: &Value, member: &str) -> Value {
    let entries = list.as_array().unwrap().iter();
    entries.map(|entry| entry[member].clone()).collect()
}

/// An export of Kibana, with these members of its first rule.
fn of_kibana(members: &Value) -> String {
    let mut root = json!({
        "id": "so-1", "rule_id": "root-logon", "type": "query", "name": "Logon as root", "description": "Root logs on.",
        "severity": "high", "risk_score": 73, "enabled": true, "language": "kuery", "query": "user.name: root", "index": ["logs-*"],
        "interval": "5m", "from": "now-6m", "to": "now", "actions": [{"id": "c-1", "action_type_id": ".slack"}], "tags": ["Team"],
        "threat": [{"framework": "MITRE ATT&CK", "tactic": {"id": "TA0003", "name": "Persistence"}, "technique": [{"id": "T1078"}]}],
        "filters": [{"meta": {"negate": true}, "query": {"match_phrase": {"event.outcome": "failure"}}}],
        "exceptions_list": [{"id": "so-9", "list_id": "labs", "type": "detection", "namespace_type": "single"}],
    });
    root.as_object_mut()
        .unwrap()
        .extend(members.as_object().unwrap().clone());
    let scan = json!({
        "id": "so-2", "rule_id": "scan", "type": "threshold", "name": "Port scan", "severity": "medium", "risk_score": 47,
        "language": "lucene", "query": "event.action:denied", "from": "now-5m",
        "threshold": {"field": ["source.ip"], "value": 3, "cardinality": [{"field": "destination.port", "value": 3}]},
    });
    let eql = json!({"id": "so-3", "rule_id": "eql", "type": "eql", "name": "Sequence", "language": "eql", "query": "any where true"});
    let list =
        json!({"id": "so-9", "list_id": "labs", "type": "detection", "name": "Labs", "namespace_type": "single"});
    let item = json!({
        "id": "so-10", "item_id": "lab", "list_id": "labs", "type": "simple", "name": "Lab", "namespace_type": "single",
        "entries": [{"field": "host.name", "operator": "included", "type": "wildcard", "value": "lab*"}],
    });
    let connector = json!({"id": "c-1", "type": "action", "attributes": {"actionTypeId": ".slack", "name": "Chat"}});
    let summary = json!({"exported_count": 6, "exported_rules_count": 3, "exported_exception_list_count": 1});
    [root, scan, eql, list, item, connector, summary]
        .iter()
        .map(|line| format!("{line}\n"))
        .collect()
}

#[test]
fn rules_of_kibana_raise_alerts_and_what_is_not_taken_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let node = start(folder.path());
    let client = node.client();
    let report = imported(client, "tenant=alpha", NDJSON, &of_kibana(&json!({})));
    assert_eq!(report["imported"], json!(["root-logon", "scan"]), "{report}");
    assert_eq!(each(&report["refused"], "line"), json!([3]), "{report}");
    assert_eq!(each(&report["refused"], "id"), json!(["eql"]));
    assert!(
        report["refused"][0]["reason"].as_str().unwrap().contains("[eql]"),
        "{report}"
    );
    assert_eq!(each(&report["not_taken"], "line"), json!([1, 6]), "{report}");
    let members = each(&report["not_taken"][0]["members"], "member");
    assert_eq!(members, json!(["actions", "index"]), "{report}");
    assert_eq!(each(&report["notes"], "id"), json!(["root-logon"]), "{report}");
    let members = each(&report["notes"][0]["members"], "member");
    assert_eq!(members, json!(["interval", "from"]), "{report}");
    assert_eq!(report["not_taken"][1]["name"], "Chat");

    client.ok(
        "PUT",
        "/_firn/pipelines/web",
        &json!({"source": {"type": "http"}, "index": "web", "tenant": "alpha"}),
    );
    wait_for_rules(client, "web", 2);
    let logon = |host: &str, outcome: &str| json!({"@timestamp": "2026-01-01T00:00:00Z", "user": {"name": "root"}, "host": {"name": host}, "event": {"outcome": outcome}});
    let denied = |port: u64| {
        json!({
            "@timestamp": "2026-01-01T00:00:00Z", "event": {"action": "denied"}, "source": {"ip": "10.0.0.1"},
            "destination": {"port": port},
        })
    };
    let events = [
        logon("web-1", "success"),
        logon("web-2", "failure"),
        logon("lab-1", "success"),
        denied(1),
        denied(2),
        denied(3),
    ];
    send(client, "web", &events);
    let found = || {
        client.ok("POST", "/.alerts-alpha/_refresh", &Value::Null);
        client.ok("POST", "/.alerts-alpha/_search", &json!({"sort": [{"rule.id": "asc"}]}))
    };
    wait_for("the alert of the threshold", || {
        found()["hits"]["total"]["value"] == json!(2)
    });
    let found = found();
    let alerts: Vec<&Value> = found["hits"]["hits"]
        .as_array()
        .unwrap()
        .iter()
        .map(|hit| &hit["_source"])
        .collect();
    let ids: Vec<&Value> = alerts.iter().map(|alert| &alert["rule"]["id"]).collect();
    assert_eq!(ids, ["root-logon", "scan"], "{found}");
    assert_eq!(alerts[0]["host"]["name"], "web-1");
    assert_eq!(alerts[0]["threat"]["technique"]["id"], json!(["T1078"]));
    assert_eq!(
        alerts[1]["firn"]["alert"]["group_by"],
        json!({"source.ip": ["10.0.0.1"]})
    );

    // A rule that exists is replaced on demand alone, as in Kibana; Sigma rules are replaced unless the request says otherwise.
    let changed = of_kibana(&json!({"name": "Changed"}));
    let report = imported(client, "", NDJSON, &changed);
    assert_eq!(report["imported"], json!([]), "{report}");
    assert_eq!(each(&report["refused"], "line"), json!([1, 2, 3]), "{report}");
    assert!(
        report["refused"][0]["reason"]
            .as_str()
            .unwrap()
            .contains("overwrite=true"),
        "{report}"
    );
    let name = || client.get("/_firn/rules/root-logon").unwrap().json()["root-logon"]["name"].clone();
    assert_eq!(name(), "Logon as root");
    let report = imported(client, "overwrite=true&enabled=false", NDJSON, &changed);
    assert_eq!(report["imported"], json!(["root-logon", "scan"]), "{report}");
    assert_eq!(name(), "Changed");
    let sigma = "title: Log cleared\nid: root-logon\nlogsource: {product: windows}\ndetection:\n  s: {EventID: 1102}\n  condition: s\n";
    let report = imported(client, "overwrite=false", "application/yaml", sigma);
    assert_eq!(
        (&report["imported"], each(&report["refused"], "line")),
        (&json!([]), json!([1])),
        "{report}"
    );
    let report = imported(client, "", "application/yaml", sigma);
    assert_eq!(report["imported"], json!(["root-logon"]), "{report}");

    let bad = import(client, "overwrite=perhaps", NDJSON, &changed);
    assert_eq!(bad.status, 400, "{}", bad.text());
    assert_eq!(import(client, "", NDJSON, "").status, 400);
    let long = import(client, "", NDJSON, &"\n".repeat((32 << 20) + 1));
    assert_eq!(long.status, 413, "{}", long.text());
    node.stop().unwrap();
}

#[test]
fn rules_of_kibana_are_for_the_pipelines_of_their_indices_and_their_exceptions_end() {
    let folder = tempfile::tempdir().unwrap();
    let node = start(folder.path());
    let client = node.client();
    for (pipeline, index) in [("web", "logs-web"), ("flow", "flows")] {
        let definition = json!({"source": {"type": "http"}, "index": index, "tenant": "alpha"});
        client.ok("PUT", &format!("/_firn/pipelines/{pipeline}"), &definition);
    }
    let list =
        json!({"id": "so-9", "list_id": "labs", "type": "detection", "name": "Labs", "namespace_type": "single"});
    let item = |id: &str, expires: &str| {
        json!({
            "item_id": id, "list_id": "labs", "type": "simple", "name": id, "namespace_type": "single", "expire_time": expires,
            "entries": [{"field": "host.name", "operator": "included", "type": "match", "value": id}],
        })
    };
    let rule = json!({
        "rule_id": "root-logon", "type": "query", "name": "Logon as root", "language": "kuery", "query": "user.name: root", "index": ["logs-*"],
        "exceptions_list": [{"id": "so-9", "list_id": "labs", "type": "detection", "namespace_type": "single"}],
    });
    let text: String = [
        rule,
        list,
        item("lab", "2999-01-01T00:00:00.000Z"),
        item("old", "2001-01-01T00:00:00.000Z"),
    ]
    .iter()
    .map(|line| format!("{line}\n"))
    .collect();
    let report = imported(client, "", NDJSON, &text);
    assert_eq!(
        each(&report["not_taken"][0]["members"], "member"),
        json!(["exceptions_list"]),
        "{report}"
    );
    let stored = client.get("/_firn/rules/root-logon").unwrap().json()["root-logon"].clone();
    assert_eq!(stored["pipelines"], json!(["web"]), "{stored}");
    assert_eq!(
        each(&stored["exceptions"], "expires"),
        json!(["2999-01-01T00:00:00.000Z"])
    );
    let exported = client.get("/_firn/rules/_export").unwrap().text();
    assert!(
        exported.contains(r#""expires":"2999-01-01T00:00:00.000Z""#),
        "{exported}"
    );

    // The end of an exception that the node has passed.
    let mut over = stored.clone();
    over["exceptions"] = json!([{"query": "host.name: gone", "expires": 1000}, stored["exceptions"][0]]);
    client.ok("PUT", "/_firn/rules/root-logon", &over);
    wait_for_rules(client, "web", 1);
    wait_for_rules(client, "flow", 0);
    let logon =
        |host: &str| json!({"@timestamp": "2026-01-01T00:00:00Z", "user": {"name": "root"}, "host": {"name": host}});
    send(client, "web", &[logon("gone"), logon("lab")]);
    let found = || {
        client.ok("POST", "/.alerts-alpha/_refresh", &Value::Null);
        client.ok("POST", "/.alerts-alpha/_search", &json!({}))["hits"]["hits"].clone()
    };
    wait_for("the alert", || found().as_array().is_some_and(|hits| !hits.is_empty()));
    let hosts = found()
        .as_array()
        .unwrap()
        .iter()
        .map(|hit| hit["_source"]["host"]["name"].clone())
        .collect::<Vec<_>>();
    assert_eq!(hosts, ["gone"]);
    node.stop().unwrap();
}

#[test]
fn exported_rules_are_restored_byte_for_byte() {
    let folder = tempfile::tempdir().unwrap();
    let node = start(folder.path());
    let client = node.client();
    let sigma = |id: &str, level: &str| {
        format!(
            "title: Rule {id}\nid: {id}\nlevel: {level}\ntags: [attack.t1078]\nlogsource: {{product: windows}}   # all of them\n\
             detection:\n    s: {{EventID: 1102}}\n    condition: s\n"
        )
    };
    let text = format!("# two rules\n---\n{}---\n{}", sigma("one", "low"), sigma("two", "high"));
    imported(client, "", "application/yaml", &text);
    let broken = format!("{}---\ntitle: [\n---\n{}", sigma("three", "low"), sigma("a,b", "low"));
    let report = imported(client, "", "application/yaml", &broken);
    assert_eq!(report["imported"], json!(["three"]), "{report}");
    assert_eq!(each(&report["refused"], "line"), json!([10, 12]), "{report}");
    client.ok("DELETE", "/_firn/rules/three", &Value::Null);
    for (id, body) in [
        (
            "z ü",
            json!({"type": "query", "query": {"term": {"a": 0.1}}, "name": "Z", "severity": "low", "tags": ["b", "a"], "note": "Look."}),
        ),
        (
            "scan",
            json!({"type": "threshold", "name": "Scan \u{2028}", "query": "*", "window": "1m", "threshold": {"sum": "n", "at_least": 1e9}, "channels": ["c"]}),
        ),
    ] {
        let id = id.replace(' ', "%20").replace('ü', "%C3%BC");
        client.ok("PUT", &format!("/_firn/rules/{id}"), &body);
    }
    let all = client.get("/_firn/rules").unwrap();
    assert_eq!(all.json().as_object().unwrap().len(), 4);

    let export = client.get("/_firn/rules/_export").unwrap();
    assert_eq!((export.status, export.header("content-type")), (200, Some(NDJSON)));
    let disposition = export.header("content-disposition").unwrap_or_default();
    assert!(disposition.ends_with(".ndjson\""), "{disposition}");
    let export = export.text();
    let last: Value = serde_json::from_str(export.lines().last().unwrap()).unwrap();
    assert_eq!(
        (export.lines().count(), &last["exported_count"], &last["missing_rules"]),
        (5, &json!(4), &json!([]))
    );
    let yaml = client.get("/_firn/rules/_export?format=sigma").unwrap();
    assert_eq!(
        (yaml.status, yaml.header("content-type")),
        (200, Some("application/yaml"))
    );
    let yaml = yaml.text();
    assert!(
        yaml.contains(&format!("---\n{}---\n{}", sigma("one", "low"), sigma("two", "high"))),
        "{yaml}"
    );
    let some = client
        .json("POST", "/_firn/rules/_export", &json!({"ids": ["two", "gone", "two"]}))
        .unwrap();
    let some = some.text();
    let lines: Vec<Value> = some.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((lines.len(), &lines[0]["id"]), (2, &json!("two")), "{some}");
    assert_eq!(
        (&lines[1]["exported_count"], &lines[1]["missing_rules"]),
        (&json!(1), &json!(["gone"]))
    );

    client.ok("DELETE", "/_firn/rules/one,two,scan,z%20%C3%BC", &Value::Null);
    let report = imported(client, "", NDJSON, &export);
    assert_eq!(
        (&report["refused"], &report["not_taken"]),
        (&json!([]), &json!([])),
        "{report}"
    );
    assert_eq!(client.get("/_firn/rules").unwrap().text(), all.text());
    // Sigma rules alone, from their text.
    client.ok("DELETE", "/_firn/rules/one,two", &Value::Null);
    imported(client, "", "application/yaml", &yaml);
    assert_eq!(client.get("/_firn/rules").unwrap().json(), all.json());

    let short = client.get("/_firn/rules?short=true").unwrap().json();
    let two =
        json!({"type": "sigma", "enabled": true, "name": "Rule two", "severity": "high", "tags": ["attack.t1078"]});
    assert_eq!((&short["two"], short.as_object().unwrap().len()), (&two, 4), "{short}");
    assert_eq!(short["scan"]["channels"], json!(["c"]));
    assert_eq!(
        client.get("/_firn/rules/two?short=true").unwrap().json(),
        json!({"two": two})
    );

    for (path, status) in [
        ("/_firn/rules/_export?format=csv", 400),
        ("/_firn/rules?format=csv", 406),
        ("/_firn/rules/_export?short=true", 400),
    ] {
        let answer = client.get(path).unwrap();
        assert_eq!(answer.status, status, "{path}: {}", answer.text());
    }
    for body in [json!({"id": ["two"]}), json!({"ids": "two"}), json!([])] {
        let answer = client.json("POST", "/_firn/rules/_export", &body).unwrap();
        assert_eq!(answer.status, 400, "{body}: {}", answer.text());
    }
    node.stop().unwrap();
}
