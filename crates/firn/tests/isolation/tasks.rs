//! Visibility of tasks: for the caller who started them, for the admin of the caller's tenant, and for operators.

use std::path::Path;
use std::time::{Duration, Instant};

use firn_testkit::{Answer, Client, Node};
use serde_json::{Value, json};

use crate::support::browser::{Browser, PASSWORD, put_user, settle, start};

/// Slow enough to be observed: a document, and then a pause of minutes.
const SLOW: &str = "/events/_delete_by_query?wait_for_completion=false&scroll_size=1&requests_per_second=0.001";

struct People {
    node: Node,
    operator: Client,
    /// Of `acme`: its admin, and two users who may read and write.
    admin: Client,
    wendy: Client,
    will: Client,
    /// The admin of `bolt`.
    bob: Client,
}

fn people(folder: &Path) -> People {
    let node = start(folder, &[]);
    let operator = settle(&node);
    let role = json!({"indices": [{"names": ["*"], "privileges": ["read", "write"]}]});
    operator.ok("PUT", "/_security/role/worker", &role);
    put_user(&operator, "ada", "tenant_admin", Some("acme"));
    put_user(&operator, "wendy", "worker", Some("acme"));
    put_user(&operator, "will", "worker", Some("acme"));
    let client_of = |name: &str| {
        use base64::Engine as _;
        let basic = base64::engine::general_purpose::STANDARD.encode(format!("{name}:{PASSWORD}"));
        node.client().authorized(format!("Basic {basic}"))
    };
    People {
        operator,
        admin: client_of("ada"),
        wendy: client_of("wendy"),
        will: client_of("will"),
        bob: client_of("bob"),
        node,
    }
}

/// Starts a background delete; returns its path below `_tasks`.
#[track_caller]
fn begin(client: &Client, path: &str) -> String {
    let begun = client.ok("POST", path, &json!({"query": {"match_all": {}}}));
    format!("/_tasks/{}", begun["task"].as_str().unwrap())
}

fn post(client: &Client, path: &str) -> Answer {
    client.send("POST", path, None, b"").unwrap()
}

/// Checks that a client gets the same answers as for a task that never existed.
#[track_caller]
fn is_absent(task: &str, client: &Client) {
    let (prefix, number) = task.rsplit_once(':').unwrap();
    // With as many digits, so that only the number differs; numbers start at 1.
    let never = format!("{prefix}:{}", "0".repeat(number.len()));
    let answers = |path: &str| {
        let got = client.get(path).unwrap();
        let waited = client
            .get(&format!("{path}?wait_for_completion=true&timeout=30s"))
            .unwrap();
        let cancelled = post(client, &format!("{path}/_cancel"));
        let name = path.strip_prefix("/_tasks/").unwrap();
        [got, waited, cancelled].map(|answer| (answer.status, answer.text().replace(name, "TASK")))
    };
    let started = Instant::now();
    let responses = answers(task);
    assert_eq!(responses, answers(&never));
    assert!(responses.iter().all(|(status, _)| *status == 404), "{responses:?}");
    assert!(
        started.elapsed() < Duration::from_secs(20),
        "the request waited for the task"
    );
}

#[track_caller]
fn get(client: &Client, task: &str) -> Value {
    client.ok("GET", task, &Value::Null)
}

#[test]
fn a_task_is_visible_to_its_caller_and_the_admin_of_the_tenant() {
    let folder = tempfile::tempdir().unwrap();
    let people = people(folder.path());
    let task = begin(&people.wendy, SLOW);
    let strangers = [&people.will, &people.bob];
    for stranger in strangers {
        is_absent(&task, stranger);
    }
    for client in [&people.wendy, &people.admin, &people.operator] {
        let info = get(client, &task);
        assert_eq!(
            (&info["completed"], &info["task"]["cancelled"]),
            (&json!(false), &json!(false)),
            "{info}"
        );
        assert_eq!(info["task"]["action"], "indices:data/write/delete/byquery", "{info}");
    }
    // Only operators may list tasks, or cancel by action.
    for (method, path) in [
        ("GET", "/_tasks"),
        ("POST", "/_tasks/_cancel"),
        ("POST", "/_tasks/_cancel?actions=*"),
    ] {
        assert_eq!(
            people.admin.send(method, path, None, b"").unwrap().status,
            403,
            "{method} {path}"
        );
    }
    assert_eq!(get(&people.wendy, &task)["task"]["cancelled"], false);

    let cancelled = post(&people.wendy, &format!("{task}/_cancel"));
    assert_eq!(cancelled.status, 200, "{}", cancelled.text());
    let nodes = cancelled.json()["nodes"].clone();
    let node = nodes.as_object().unwrap().values().next().unwrap();
    assert!(
        node["tasks"].is_object() && node["ip"].is_null() && node["host"].is_null(),
        "{node}"
    );
    let done = get(&people.wendy, &format!("{task}?wait_for_completion=true"));
    assert_eq!(done["completed"], true, "{done}");
    assert_eq!(done["response"]["canceled"], "by user request", "{done}");
    assert!(done["response"]["deleted"].as_u64() < Some(3), "{done}");
    // Its stored result has the same visibility.
    for stranger in strangers {
        is_absent(&task, stranger);
    }
    for client in [&people.admin, &people.operator] {
        assert_eq!(get(client, &task)["response"], done["response"]);
    }

    // The admin may cancel tasks of any user of the tenant, and operators all tasks.
    for (of, ends) in [(&people.will, &people.admin), (&people.bob, &people.operator)] {
        // The previous deletes must not be visible to searches: a repeated delete would be a conflict, which ends a
        // task.
        people.operator.ok("POST", "/events/_refresh", &Value::Null);
        let task = begin(of, SLOW);
        let cancelled = post(ends, &format!("{task}/_cancel"));
        assert_eq!(cancelled.status, 200, "{}", cancelled.text());
        let done = get(of, &format!("{task}?wait_for_completion=true"));
        assert_eq!(done["response"]["canceled"], "by user request", "{done}");
    }
    people.node.stop().unwrap();
}

#[test]
fn what_operators_do_is_no_tenant_s() {
    let folder = tempfile::tempdir().unwrap();
    let people = people(folder.path());
    let task = begin(&people.operator, SLOW);
    is_absent(&task, &people.admin);
    is_absent(&task, &people.bob);
    assert_eq!(get(&people.operator, &task)["task"]["cancelled"], false);
    people.operator.ok("POST", &format!("{task}/_cancel"), &Value::Null);

    // Nor tasks that an operator starts in the view of the tenant.
    let viewer = Browser::sign_in(people.node.client(), "elastic");
    let view = json!({"tenant": "acme", "reason": "ticket 1"});
    let viewer = viewer.with_view(&viewer.send("POST", "/_firn/session/view", &view));
    let tail = std::thread::spawn({
        let viewer = viewer.clone();
        move || {
            let question = json!({"index": "events", "timeout": "20s"});
            viewer.send("POST", "/_firn/discover/tail", &question).status
        }
    });
    let started = Instant::now();
    let (name, info) = loop {
        let tasks = get(&people.operator, "/_tasks?actions=*tail*");
        let nodes = tasks["nodes"].as_object().unwrap().values().next().cloned();
        let found = nodes.and_then(|node| node["tasks"].as_object()?.clone().into_iter().next());
        if let Some(found) = found {
            break found;
        }
        assert!(started.elapsed() < Duration::from_secs(15), "there is no tail");
        std::thread::sleep(Duration::from_millis(20));
    };
    assert_eq!(info["cancelled"], false, "{info}");
    is_absent(&format!("/_tasks/{name}"), &people.admin);
    people
        .operator
        .ok("POST", &format!("/_tasks/{name}/_cancel"), &Value::Null);
    tail.join().unwrap();
    people.node.stop().unwrap();
}

#[test]
fn a_tenant_that_deletes_much_leaves_others_their_results() {
    let folder = tempfile::tempdir().unwrap();
    let people = people(folder.path());
    let quick = "/events/_delete_by_query?wait_for_completion=false";
    let done = |client: &Client, task: &str| get(client, &format!("{task}?wait_for_completion=true"));
    let first = begin(&people.bob, quick);
    assert_eq!(done(&people.bob, &first)["response"]["deleted"], 5);
    let of_acme: Vec<String> = (0..210)
        .map(|_| {
            let task = begin(&people.wendy, quick);
            done(&people.wendy, &task);
            task
        })
        .collect();
    assert_eq!(get(&people.bob, &first)["response"]["deleted"], 5);
    let retained = of_acme
        .iter()
        .filter(|task| people.wendy.get(task).unwrap().status == 200);
    assert_eq!(retained.count(), 199);
    is_absent(&of_acme[0], &people.wendy);
    people.node.stop().unwrap();
}
