use std::time::Duration;

use firn_testkit::{Client, seed};
use serde_json::{Value, json};

use crate::{ask, count, eventually, fill, put_shared, put_template, start, try_to, write};

/// Weeks with events.
const WEEKS: u64 = 6;
/// Events of each tenant and week.
const EVENTS: u64 = 50;

fn events() -> impl Iterator<Item = (&'static str, u64)> {
    (0..WEEKS * EVENTS).flat_map(|number| [("acme", number % WEEKS * 7), ("zeta", number % WEEKS * 7)])
}

#[test]
fn a_deleted_tenant_is_gone_although_the_process_is_killed_meanwhile() {
    let mut random = fastrand::Rng::with_seed(seed("tenant deletion"));
    let folder = tempfile::tempdir().unwrap();
    let mut node = start(folder.path());
    let client = node.client();
    put_template(client, "week", 2);
    assert_eq!(write(client, events())["errors"], json!(false));
    let own = json!({"settings": {"index.tenant.field": "tenant", "index.tenant.owner": "acme"}});
    ask(client, "PUT", "/own", own);
    ask(client, "POST", "/own/_flush", Value::Null);
    let total = WEEKS * EVENTS;
    assert_eq!(
        (count(client, "events-app", "acme"), count(client, "events-app", "zeta")),
        (total, total)
    );

    let begun = ask(client, "DELETE", "/_firn/tenants/acme", Value::Null);
    assert_eq!(begun["deletion"], json!("/_firn/tenants/acme/deletion"));
    let again = ask(client, "DELETE", "/_firn/tenants/acme", Value::Null);
    assert_eq!(again, begun, "while it runs it is the same");
    let refused = write(client, [("acme", 0), ("zeta", 0)]);
    assert_eq!(refused["items"][0]["create"]["status"], json!(403), "{refused}");
    assert_eq!(refused["items"][1]["create"]["status"], json!(201), "{refused}");

    let mut done = Value::Null;
    for _ in 0..8 {
        std::thread::sleep(Duration::from_millis(random.u64(0..1500)));
        node.kill9().unwrap();
        node = start(folder.path());
        done = ask(node.client(), "GET", "/_firn/tenants/acme/deletion", Value::Null);
        if done["status"] == "done" {
            break;
        }
    }
    let client = node.client();
    eventually("the end of the deletion", || {
        done = ask(client, "GET", "/_firn/tenants/acme/deletion", Value::Null);
        done["status"] == "done"
    });
    assert_eq!(done["documents_removed"], json!(total), "{done}");
    assert_eq!(done["error"], Value::Null, "{done}");
    let indices = done["indices"].as_array().unwrap();
    assert_eq!(indices.len() as u64, WEEKS + 1, "{done}");
    let removed: Vec<&Value> = indices
        .iter()
        .filter(|index| index["state"] == "index removed")
        .collect();
    assert_eq!(removed.len(), 1, "{done}");
    assert_eq!(removed[0]["index"], json!("own"));
    assert!(done["finished"].as_u64() > done["started"].as_u64(), "{done}");

    assert_eq!(count(client, "events-app", "acme"), 0);
    assert_eq!(count(client, "events-app", "zeta"), total + 1);
    // A repeated request, as after a lost answer, does not start another deletion.
    assert_eq!(try_to(client, "DELETE", "/_firn/tenants/acme", Value::Null).status, 404);
    assert_eq!(ask(client, "GET", "/_firn/tenants/acme/deletion", Value::Null), done);
    assert_eq!(client.get("/own").unwrap().status, 404);
    // Writes for the tenant are refused until it is declared again.
    assert_eq!(write(client, [("acme", 0)])["items"][0]["create"]["status"], json!(403));

    ask(client, "PUT", "/_firn/tenants/acme", json!({}));
    let taken = write(client, [("acme", 0)]);
    assert_eq!(taken["errors"], json!(false), "{taken}");

    // The report stays.
    node.stop().unwrap();
    let node = start(folder.path());
    assert_eq!(
        ask(node.client(), "GET", "/_firn/tenants/acme/deletion", Value::Null),
        done
    );
    // Until there is something to delete again.
    let again = ask(node.client(), "DELETE", "/_firn/tenants/acme", Value::Null);
    assert_eq!(again, begun);
    let anew = ask(node.client(), "GET", "/_firn/tenants/acme/deletion", Value::Null);
    assert!(anew["requested"].as_u64() > done["finished"].as_u64(), "{anew}");
}

#[test]
fn what_is_not_there_cannot_be_deleted() {
    let folder = tempfile::tempdir().unwrap();
    let node = start(folder.path());
    let delete = |tenant: &str| {
        try_to(
            node.client(),
            "DELETE",
            &format!("/_firn/tenants/{tenant}"),
            Value::Null,
        )
    };
    assert_eq!(delete("noname").status, 404);
    assert_eq!(delete("no%20name").status, 400);
    assert_eq!(node.client().get("/_firn/tenants/noname/deletion").unwrap().status, 404);
}

/// Closed indices that do not block the deletion, one that does, and their entries in the report.
#[test]
fn a_closed_index_holds_up_only_itself() {
    let folder = tempfile::tempdir().unwrap();
    let mut node = start(folder.path());
    let client = node.client();
    // `a` sorts before and `z` after the closed index, so both orders of processing are covered.
    for index in ["a-shared", "m-closed", "n-empty", "z-shared"] {
        put_shared(client, index, None);
    }
    for (index, owner) in [("m-own", "acme"), ("m-own-closed", "acme"), ("m-other", "zeta")] {
        put_shared(client, index, Some(owner));
    }
    for (index, events) in [("a-shared", 70), ("m-closed", 20), ("z-shared", 30)] {
        fill(client, index, "acme", events, 0);
        fill(client, index, "zeta", 10, 0);
    }
    fill(client, "m-own", "acme", 50, 0);
    fill(client, "m-own-closed", "acme", 40, 0);
    fill(client, "m-other", "zeta", 5, 0);
    for index in ["m-closed", "n-empty", "m-own-closed", "m-other"] {
        ask(client, "POST", &format!("/{index}/_close"), Value::Null);
    }

    ask(client, "DELETE", "/_firn/tenants/acme", Value::Null);
    let look = |client: &Client| ask(client, "GET", "/_firn/tenants/acme/deletion", Value::Null);
    let is_gone = |client: &Client, index: &str| count(client, index, "acme") == 0;
    eventually("removal from what is open", || {
        is_gone(client, "a-shared") && is_gone(client, "z-shared") && client.get("/m-own").unwrap().status == 404
    });
    assert_eq!(client.get("/m-own-closed").unwrap().status, 404);
    let mut running = Value::Null;
    eventually("a statement of what holds it up", || {
        running = look(client);
        running["error"]
            .as_str()
            .is_some_and(|error| error.contains("[m-closed, n-empty]"))
    });
    assert!(running["started"].is_u64(), "{running}");
    let mut killed = false;
    for _ in 0..2 {
        // Longer than the time in which writes in flight end.
        std::thread::sleep(Duration::from_secs(6));
        let now = look(node.client());
        assert_eq!(now, running, "killed: {killed}");
        node.kill9().unwrap();
        node = start(folder.path());
        killed = true;
    }
    let client = node.client();
    assert_eq!(running["documents_removed"], json!(70 + 30 + 50), "{running}");

    ask(client, "POST", "/m-closed/_open", Value::Null);
    eventually("removal from what was opened", || {
        running = look(client);
        running["error"]
            .as_str()
            .is_some_and(|error| error.contains("[n-empty]"))
    });
    assert_eq!(count(client, "m-closed", "acme"), 0);
    ask(client, "DELETE", "/n-empty", Value::Null);
    let mut done = Value::Null;
    eventually("the end of the deletion", || {
        done = look(client);
        done["status"] == "done"
    });
    assert_eq!(done["documents_removed"], json!(70 + 20 + 30 + 50), "{done}");
    let mut said: Vec<(&str, u64, &str)> = (done["indices"].as_array().unwrap().iter())
        .map(|index| {
            let text = |key: &str| index[key].as_str().unwrap();
            (text("index"), index["documents"].as_u64().unwrap(), text("state"))
        })
        .collect();
    said.sort_unstable();
    let uncounted = "closed index removed, its events were not counted";
    assert_eq!(
        said,
        [
            ("a-shared", 70, "events removed"),
            ("m-closed", 20, "events removed"),
            ("m-own", 50, "index removed"),
            ("m-own-closed", 0, uncounted),
            ("z-shared", 30, "events removed"),
        ]
    );
    ask(client, "POST", "/m-other/_open", Value::Null);
    eventually("opening", || count(client, "m-other", "zeta") == 5);
}
