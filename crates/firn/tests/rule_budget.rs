//! Budget of detection rules at the REST edge: a rule with a slow regular expression pauses, and its hole is filled
//! (docs/operate/alerts.md).

use std::collections::BTreeSet;

use firn_testkit::Client;
use rules::{send, start_with, wait_for, wait_for_rules};
use serde_json::{Value, json};

#[path = "support/rules.rs"]
mod rules;

/// Length of a text in which the expression below finds nothing. There is no literal that rules it out, and the states of an automaton
/// would be too many (2^40), so each byte is compared with about 20 places of the expression.
const PAD_BYTES: usize = 150_000;
const SLOW: &str = "a[ab]{40}[c-y]";

/// Returns a text of the letters a and b, without a period.
fn long_text() -> String {
    let mut random = fastrand::Rng::with_seed(20);
    (0..PAD_BYTES).map(|_| if random.bool() { 'a' } else { 'b' }).collect()
}

/// Returns the ids of the events that have an alert of a rule; fails if one has two.
#[track_caller]
fn alerted(client: &Client, rule: &str) -> BTreeSet<String> {
    client.ok("POST", "/.alerts-*/_refresh?expand_wildcards=all", &Value::Null);
    let body = json!({"size": 10_000, "query": {"term": {"rule.id": rule}}, "_source": ["firn.alert.event"]});
    let found = client.ok("POST", "/.alerts-*/_search?expand_wildcards=all", &body);
    let hits = found["hits"]["hits"].as_array().unwrap();
    let id = |hit: &Value| {
        hit["_source"]["firn"]["alert"]["event"]["id"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    let ids: BTreeSet<String> = hits.iter().map(id).collect();
    assert_eq!(ids.len(), hits.len(), "an event has two alerts of the rule {rule}");
    ids
}

/// Returns the ids of the events that the rules match.
fn matching(client: &Client) -> BTreeSet<String> {
    client.ok("POST", "/logs/_refresh", &Value::Null);
    let body = json!({"size": 10_000, "query": {"term": {"kind": "odd"}}, "_source": false});
    let found = client.ok("POST", "/logs/_search", &body);
    let hits = found["hits"]["hits"].as_array().unwrap();
    hits.iter().map(|hit| hit["_id"].as_str().unwrap().to_owned()).collect()
}

/// Creates an index whose events have a text that is stored and not indexed: a search finds no document that it rules out.
fn create_index(client: &Client) {
    let mappings =
        json!({"dynamic": false, "properties": {"@timestamp": {"type": "date"}, "kind": {"type": "keyword"}}});
    client.ok("PUT", "/logs", &json!({"mappings": mappings}));
}

/// Returns the definition of a rule that is slow on long texts and finds the odd events.
fn slow_rule() -> Value {
    json!({"type": "query", "name": "Slow", "query": {"bool": {
        "filter": [{"term": {"kind": "odd"}}], "must_not": [{"regexp": {"pad": format!(".*{SLOW}.*")}}],
    }}})
}

/// Starts the pipeline that stores events in this index, and waits until it evaluates so many rules.
#[track_caller]
fn start_pipeline(client: &Client, rules: u64) {
    let body = json!({"source": {"type": "http"}, "index": "logs"});
    client.ok("PUT", "/_firn/pipelines/web", &body);
    wait_for_rules(client, "web", rules);
}

fn rule_stats(client: &Client, rule: &str) -> Value {
    client.get("/_firn/rules/_stats").unwrap().json()[rule].clone()
}

#[test]
fn a_slow_rule_pauses_is_named_and_its_hole_is_filled() {
    let folder = tempfile::tempdir().unwrap();
    let settings = [
        ("rules.budget.operator.core_percent", "1"),
        ("rules.budget.window", "1s"),
        ("rules.budget.pause", "2s"),
    ];
    let node = start_with(folder.path(), &settings);
    let client = node.client();
    create_index(client);
    client.ok("PUT", "/_firn/rules/slow", &slow_rule());
    let cheap = json!({"type": "query", "name": "Cheap", "query": "kind: odd"});
    client.ok("PUT", "/_firn/rules/cheap", &cheap);
    start_pipeline(client, 2);

    let long = long_text();
    wait_for("the throttle", || {
        let events = ["odd", "even", "odd"].map(|kind| json!({"kind": kind, "pad": long}));
        send(client, "web", &events);
        rule_stats(client, "slow")["throttled"] != Value::Null
    });
    let stats = rule_stats(client, "slow");
    let throttled = &stats["throttled"];
    assert_eq!(
        (&throttled["reason"], &throttled["evaluated"]),
        (&json!("budget exhausted"), &json!(false))
    );
    assert!(
        throttled["core_percent"].as_f64() > throttled["core_percent_max"].as_f64(),
        "{stats}"
    );
    assert_eq!(throttled["core_percent_max"], 1.0);
    let cost = &stats["cpu"]["pipelines"]["web"];
    assert!(
        cost["micros_per_event"].as_f64() > Some(0.0) && cost["events"].as_u64() > Some(0),
        "{stats}"
    );
    let of_cheap = rule_stats(client, "cheap");
    assert_eq!(
        (&of_cheap["throttled"], &of_cheap["evaluated_by"]),
        (&Value::Null, &json!(["web"]))
    );
    let metrics = client.get("/metrics").unwrap().text();
    assert!(
        metrics.contains("firn_rule_throttled{rule=\"slow\",tenant=\"\",evaluated=\"false\"} 1"),
        "{metrics}"
    );
    assert!(metrics.contains("firn_rules_throttled_total 1"), "{metrics}");

    // Short events, which exhaust nothing.
    let send_short = || {
        send(
            client,
            "web",
            &["odd", "even"].map(|kind| json!({"kind": kind, "pad": "ab"})),
        )
    };
    send_short();
    assert_eq!(rule_stats(client, "slow")["throttled_in"], json!(["web"]));
    assert_eq!(alerted(client, "cheap"), matching(client));
    let missing = matching(client).difference(&alerted(client, "slow")).count();
    assert!(missing >= 1, "the rule was evaluated while it pauses");
    wait_for("the alert of the operator", || {
        client.ok("POST", "/.alerts-default/_refresh", &Value::Null);
        let query = json!({"query": {"term": {"rule.id": "firn-rule-budget-exhausted"}}});
        let found = client.ok("POST", "/.alerts-default/_search", &query);
        let alert = &found["hits"]["hits"][0]["_source"];
        alert["message"]
            .as_str()
            .is_some_and(|message| message.starts_with("the rule [slow] uses "))
            && alert["firn"]["alert"]["status"] == "open"
    });
    let holes = || client.get("/_firn/rules/slow/_coverage").unwrap().json()["holes"].clone();
    let found = holes();
    assert_eq!(found[0]["reason"], "budget exhausted", "{found}");
    assert_eq!(
        client.get("/_firn/rules/cheap/_coverage").unwrap().json()["holes"],
        json!([])
    );

    wait_for("the end of all holes, filled", || {
        send_short();
        let found = holes();
        found.as_array().unwrap().iter().all(|hole| hole["filled"] == true)
    });
    assert_eq!(rule_stats(client, "slow")["throttled"], Value::Null);
    assert_eq!(alerted(client, "cheap"), matching(client));
    assert_eq!(alerted(client, "slow"), matching(client));
    node.stop().unwrap();
}

#[test]
fn a_hole_of_a_rule_that_was_disabled_is_filled_when_it_is_enabled_again() {
    let folder = tempfile::tempdir().unwrap();
    let settings = [
        ("rules.budget.operator.core_percent", "1"),
        ("rules.budget.window", "1s"),
        ("rules.budget.pause", "1m"),
    ];
    let node = start_with(folder.path(), &settings);
    let client = node.client();
    create_index(client);
    client.ok("PUT", "/_firn/rules/slow", &slow_rule());
    start_pipeline(client, 1);
    let long = long_text();
    wait_for("the throttle", || {
        send(client, "web", &[json!({"kind": "odd", "pad": long})]);
        rule_stats(client, "slow")["throttled"] != Value::Null
    });
    let send_short = || send(client, "web", &[json!({"kind": "odd", "pad": "ab"})]);
    send_short();
    let put = |members: Value| {
        let mut rule = slow_rule();
        rule.as_object_mut()
            .unwrap()
            .extend(members.as_object().unwrap().clone());
        client.ok("PUT", "/_firn/rules/slow", &rule);
    };
    put(json!({"enabled": false}));
    let holes = || client.get("/_firn/rules/slow/_coverage").unwrap().json()["holes"].clone();
    wait_for("the reason", || {
        let found = holes();
        let mut found = found.as_array().unwrap().iter();
        found.any(|hole| {
            hole["not_filled"]
                .as_str()
                .is_some_and(|reason| reason.contains("is disabled"))
        })
    });
    // Enabled again, and changed once more: each version is evaluated on no event or some.
    put(json!({"description": "one"}));
    wait_for_rules(client, "web", 1);
    send_short();
    put(json!({"description": "two"}));
    wait_for("the end of all holes of the budget, filled", || {
        let found = holes();
        let mut found = found.as_array().unwrap().iter();
        found.all(|hole| hole["reason"] != "budget exhausted" || hole["filled"] == true)
    });
    assert_eq!(alerted(client, "slow"), matching(client));
    node.stop().unwrap();
}

#[test]
fn a_hole_of_a_sigma_rule_is_filled_from_records_or_says_how_many_it_lacks() {
    let folder = tempfile::tempdir().unwrap();
    let settings = [
        ("rules.budget.tenant.core_percent", "1"),
        ("rules.budget.window", "1s"),
        ("rules.budget.pause", "1s"),
    ];
    let node = start_with(folder.path(), &settings);
    let client = node.client();
    let sigma = format!(
        "title: Slow\nid: slow\nlogsource: {{product: windows, service: security}}\ndetection:\n  selection: {{EventID: 4624}}\n  \
         filter:\n    SubjectUserName|re: '{SLOW}'\n  condition: selection and not filter\n"
    );
    client.ok(
        "PUT",
        "/_firn/rules/slow",
        &json!({"type": "sigma", "sigma": sigma, "tenant": "alpha"}),
    );
    let put_pipeline = |keep: bool| {
        let body = json!({
            "source": {"type": "http"}, "pack": "windows", "index": "windows", "tenant": "alpha", "keep_original": keep,
        });
        client.ok("PUT", "/_firn/pipelines/win", &body);
        wait_for("the pipeline", || {
            let stats = rules::stats(client, "win");
            stats["running"] == json!(true) && stats["since_start"]["indexed"] == json!(0)
        });
    };
    put_pipeline(true);
    wait_for_rules(client, "win", 1);
    let record = |user: &str, number: u32| json!({"Channel": "Security", "EventID": number, "Computer": "a", "SubjectUserName": user});
    let long = long_text();
    let throttle = || {
        wait_for("the throttle", || {
            send(client, "win", &[record(&long, 4624)]);
            rule_stats(client, "slow")["throttled"] != Value::Null
        });
        send(client, "win", &[record("ann", 4624), record("ann", 4625)]);
        assert_ne!(
            rule_stats(client, "slow")["throttled"],
            Value::Null,
            "the pause was too short"
        );
    };
    let send_short = || send(client, "win", &[record("bob", 4624), record("bob", 4625)]);
    let holes = || client.get("/_firn/rules/slow/_coverage").unwrap().json()["holes"].clone();
    let events_of = |query: &Value| {
        // The tenant's own index.
        client.ok("POST", "/alpha~windows/_refresh", &Value::Null);
        let body = json!({"size": 10_000, "query": query, "_source": false});
        let found = client.ok("POST", "/alpha~windows/_search", &body);
        let hits = found["hits"]["hits"].as_array().unwrap().clone();
        let ids = hits.iter().map(|hit| hit["_id"].as_str().unwrap().to_owned());
        ids.collect::<BTreeSet<String>>()
    };
    let logons = json!({"term": {"event.code": "4624"}});
    throttle();
    wait_for("the end of all holes, filled", || {
        send_short();
        let found = holes();
        let found = found.as_array().unwrap();
        !found.is_empty() && found.iter().all(|hole| hole["filled"] == true)
    });
    assert_eq!(alerted(client, "slow"), events_of(&logons));

    // Events without their records, in a further hole.
    put_pipeline(false);
    throttle();
    wait_for("the reason", || {
        send_short();
        let found = holes();
        let last = found.as_array().unwrap().last().unwrap();
        let reason = last["not_filled"].as_str().unwrap_or_default();
        last["filled"] == false && reason.contains("not evaluated: no record in [event.original]")
    });
    let missing: BTreeSet<String> = events_of(&logons)
        .difference(&alerted(client, "slow"))
        .cloned()
        .collect();
    assert!(!missing.is_empty(), "{}", holes());
    node.stop().unwrap();
}

#[test]
fn holes_from_before_a_kill_are_filled_or_say_why_not() {
    let folder = tempfile::tempdir().unwrap();
    let settings = [
        ("rules.budget.operator.core_percent", "1"),
        ("rules.budget.tenant.core_percent", "1"),
        ("rules.budget.window", "1s"),
        ("rules.budget.pause", "1s"),
    ];
    let node = start_with(folder.path(), &settings);
    let client = node.client();
    create_index(client);
    client.ok("PUT", "/_firn/rules/slow", &slow_rule());
    let mut of_tenant = slow_rule();
    of_tenant["tenant"] = "alpha".into();
    client.ok("PUT", "/_firn/rules/of-tenant", &of_tenant);
    start_pipeline(client, 2);
    let long = long_text();
    let rules = ["slow", "of-tenant"];
    wait_for("the throttles", || {
        send(client, "web", &[json!({"kind": "odd", "tenant": "alpha", "pad": long})]);
        rules
            .iter()
            .all(|rule| rule_stats(client, rule)["throttled"] != Value::Null)
    });
    let short = json!({"kind": "odd", "tenant": "alpha", "pad": "ab"});
    send(client, "web", std::slice::from_ref(&short));
    assert!(alerted(client, "slow").len() < matching(client).len());
    node.kill9().unwrap();

    // The rules are not throttled by this process.
    let node = start_with(folder.path(), &settings);
    let client = node.client();
    wait_for_rules(client, "web", 2);
    let holes = |rule: &str| client.get(&format!("/_firn/rules/{rule}/_coverage")).unwrap().json()["holes"].clone();
    wait_for("the end of all holes, filled", || {
        send(client, "web", std::slice::from_ref(&short));
        let found = holes("slow");
        let found = found.as_array().unwrap();
        !found.is_empty() && found.iter().all(|hole| hole["filled"] == true)
    });
    assert_eq!(alerted(client, "slow"), matching(client));
    // The index does not say which of its events are of the tenant.
    wait_for("the reason", || {
        let found = holes("of-tenant");
        let reason = found[0]["not_filled"].as_str().unwrap_or_default();
        assert_ne!(found[0]["filled"], json!(true), "{found}");
        reason.contains("[logs] does not hold events by tenant")
    });
    let run = json!({"index": "logs", "from": "now-1h"});
    let answer = client.json("POST", "/_firn/rules/of-tenant/_run", &run).unwrap();
    assert_eq!(answer.status, 400, "{}", answer.text());
    // A wildcard does not stand for firn's own indices.
    let run = json!({"index": "*", "from": "now-1h"});
    let of_all = client.json("POST", "/_firn/rules/of-tenant/_run", &run).unwrap();
    assert!(
        of_all.text().contains("[logs] does not hold events by tenant"),
        "{}",
        of_all.text()
    );
    assert!(
        answer.text().contains("does not hold events by tenant"),
        "{}",
        answer.text()
    );
    node.stop().unwrap();
}
