//! Queries that run on every damaged copy, and the comparison of their answers.

use firn_testkit::{Answer, Client, Node};
use serde_json::{Value, json};

use crate::world::{Keys, basic};

/// Members that differ from run to run independently of the data: durations, and skipped shards.
const LEFT_OUT: &[&str] = &[
    "took",
    "_shards",
    "last_used",
    "status_code",
    "health",
    "expires_at",
    "timed_out",
    "pri.store.size",
    "store.size",
];

/// Query.
pub struct Question {
    pub method: &'static str,
    pub path: String,
    pub body: Value,
    who: Who,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Who {
    Operator,
    Alpha,
    Bravo,
    Ann,
    /// Without credentials: it must stay refused.
    Anonymous,
}

/// Response to a query.
pub struct Response {
    pub status: u16,
    /// Body without the members that differ from run to run.
    pub json: Value,
    pub text: String,
    /// Whether the answer reports a failure.
    pub is_failure: bool,
}

impl Response {
    fn of(answer: &Answer) -> Self {
        let whole = answer.json();
        let is_partial = whole["_shards"]["failed"].as_u64().is_some_and(|failed| failed > 0)
            || whole["_shards"]["failures"].is_array()
            || whole["snapshot"]["shards"]["failed"]
                .as_u64()
                .is_some_and(|failed| failed > 0);
        // A missing document is a valid answer.
        let is_missing = answer.status == 404 && whole["found"] == false;
        let mut json = whole;
        leave_out(&mut json);
        Self {
            status: answer.status,
            json,
            text: answer.text(),
            is_failure: answer.status >= 400 && !is_missing || is_partial,
        }
    }

    /// Returns whether two answers are equal.
    pub fn is_same(&self, other: &Self) -> bool {
        self.status == other.status && self.is_failure == other.is_failure && self.json == other.json
    }
}

/// Returns whether a value is health, which changes after a loss like the answers.
fn is_health(value: &Value) -> bool {
    matches!(value.as_str(), Some("GREEN" | "YELLOW" | "RED"))
}

fn leave_out(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.retain(|name, value| !LEFT_OUT.contains(&name.as_str()) && !is_health(value));
            members.values_mut().for_each(leave_out);
        }
        Value::Array(items) => items.iter_mut().for_each(leave_out),
        _ => {}
    }
}

/// Runs a query; an error means that there was no answer.
pub fn ask(node: &Node, keys: &Keys, question: &Question) -> anyhow::Result<Response> {
    let client: Client = match question.who {
        Who::Operator => node.client().authorized(&keys.operator),
        Who::Alpha => node.client().authorized(&keys.alpha),
        Who::Bravo => node.client().authorized(&keys.bravo),
        Who::Ann => node.client().authorized(basic("ann")),
        Who::Anonymous => node.client().clone(),
    };
    let answer = client.ask(question.method, &question.path, &question.body)?;
    Ok(Response::of(&answer))
}

fn question(who: Who, method: &'static str, path: &str, body: Value) -> Question {
    Question {
        method,
        path: path.to_owned(),
        body,
        who,
    }
}

/// Returns all queries in their order.
pub fn questions() -> Vec<Question> {
    let mut all = vec![
        question(Who::Anonymous, "GET", "/_cat/indices?format=json", Value::Null),
        question(Who::Anonymous, "POST", "/plain/_search", json!({"size": 1})),
        question(Who::Ann, "GET", "/_security/_authenticate", Value::Null),
    ];
    for path in [
        "/_cat/indices?format=json&h=index,uuid,status,pri,docs.count&s=index&expand_wildcards=all",
        "/_mapping",
        "/_alias",
        "/_all/_settings",
        "/_index_template",
        "/_component_template",
        "/_data_stream",
        "/_ilm/policy",
        "/_firn/tenants",
        "/_firn/saved",
        "/_firn/saved/dashboard/all",
    ] {
        all.push(question(Who::Operator, "GET", path, Value::Null));
    }
    for path in ["/_security/user", "/_security/role", "/_security/api_key"] {
        all.push(question(Who::Operator, "GET", path, Value::Null));
    }
    for path in [
        "/_firn/saved",
        "/_firn/saved/search/s0",
        "/_firn/saved/search/s1",
        "/_firn/saved/search/s2",
    ] {
        all.push(question(Who::Alpha, "GET", path, Value::Null));
    }
    for who in [Who::Alpha, Who::Bravo] {
        all.extend(of_tenant(who));
    }
    for index in ["plain*", "cold", "frozen"] {
        all.extend(of_plain(index));
    }
    all.push(question(
        Who::Operator,
        "POST",
        "/both/_count",
        json!({"query": {"range": {"n": {"lt": 50}}}}),
    ));
    for query in [json!({"match_all": {}}), json!({"range": {"n": {"lt": 4000}}})] {
        let aggs = json!({"keys": {"cardinality": {"field": "key"}}});
        let body = json!({"size": 0, "track_total_hits": true, "query": query, "aggs": aggs});
        all.push(question(Who::Operator, "POST", "/many/_search", body));
    }
    all.extend(of_snapshots());
    all
}

fn of_tenant(who: Who) -> Vec<Question> {
    vec![
        question(
            who,
            "POST",
            "/events/_search",
            json!({
                "size": 0,
                "track_total_hits": true,
                "aggs": {
                    "classes": {"terms": {"field": "class", "size": 50}, "aggs": {"n": {"stats": {"field": "n"}}}},
                    "hours": {"date_histogram": {"field": "@timestamp", "fixed_interval": "1h"}},
                    "ips": {"cardinality": {"field": "client.ip.keyword"}},
                },
            }),
        ),
        question(
            who,
            "POST",
            "/events/_search",
            json!({"size": 700, "query": {"match": {"message": "oak"}}, "sort": [{"n": "desc"}]}),
        ),
        question(who, "GET", "/events/_source/e17", Value::Null),
        question(
            who,
            "POST",
            "/events/_count",
            json!({"query": {"term": {"class": "c3"}}}),
        ),
    ]
}

fn of_plain(index: &str) -> Vec<Question> {
    let search = |body: Value| question(Who::Operator, "POST", &format!("/{index}/_search"), body);
    let mut all = vec![
        search(
            json!({"size": 2000, "query": {"match_all": {}}, "sort": [{"n": "asc"}, {"_index": "asc"}], "track_total_hits": true}),
        ),
        search(json!({
            "size": 0,
            "track_total_hits": true,
            "aggs": {
                "words": {"terms": {"field": "word", "size": 1000}},
                "n": {"extended_stats": {"field": "n"}},
                "share": {"percentiles": {"field": "share"}},
                "days": {"date_histogram": {"field": "at", "calendar_interval": "day"}},
                "ips": {"terms": {"field": "ip", "size": 300}},
                "ok": {"terms": {"field": "ok"}},
                "missing": {"missing": {"field": "word"}},
            },
        })),
        search(
            json!({"size": 50, "query": {"match": {"text": "oak pine"}}, "sort": ["_score", {"n": "asc"}, {"_index": "asc"}]}),
        ),
        search(
            json!({"size": 50, "query": {"match_phrase": {"text": "oak birch"}}, "sort": [{"n": "desc"}, {"_index": "asc"}]}),
        ),
        search(json!({"query": {"term": {"word": "elm-3"}}, "sort": [{"n": "asc"}, {"_index": "asc"}]})),
        search(
            json!({"size": 100, "query": {"range": {"at": {"gte": 1_767_300_000_000_i64, "lt": 1_767_400_000_000_i64}}}, "sort": [{"word": "asc"}, {"n": "asc"}, {"_index": "asc"}]}),
        ),
        search(
            json!({"size": 100, "query": {"prefix": {"word": "ma"}}, "sort": [{"share": "desc"}, {"_index": "asc"}], "_source": ["n"]}),
        ),
        search(
            json!({"query": {"ids": {"values": ["3", "30", "33", "77"]}}, "sort": [{"n": "asc"}, {"_index": "asc"}]}),
        ),
        question(
            Who::Operator,
            "POST",
            &format!("/{index}/_count"),
            json!({"query": {"exists": {"field": "ip"}}}),
        ),
    ];
    if !index.contains('*') && index != "both" {
        for id in ["8", "77", "301"] {
            all.push(question(
                Who::Operator,
                "GET",
                &format!("/{index}/_doc/{id}"),
                Value::Null,
            ));
        }
    }
    all
}

fn of_snapshots() -> Vec<Question> {
    let restore = json!({
        "indices": "source,plain", "rename_pattern": "(.+)", "rename_replacement": "again-$1", "include_aliases": false,
    });
    vec![
        question(Who::Operator, "GET", "/_snapshot", Value::Null),
        question(Who::Operator, "GET", "/_snapshot/objects/_all", Value::Null),
        question(
            Who::Operator,
            "GET",
            "/_snapshot/objects/first,second/_status",
            Value::Null,
        ),
        question(
            Who::Operator,
            "POST",
            "/_snapshot/objects/second/_restore?wait_for_completion=true",
            restore,
        ),
        question(
            Who::Operator,
            "POST",
            "/again-source,again-plain/_search",
            json!({"size": 2000, "sort": [{"n": "asc"}, {"_index": "asc"}], "track_total_hits": true}),
        ),
    ]
}
