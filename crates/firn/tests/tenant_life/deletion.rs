use std::time::Duration;

use firn_testkit::seed;
use serde_json::{Value, json};

use crate::{ask, count, eventually, put_template, start, try_to, write};

/// Weeks that have events.
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
    // Who asks again, as after an answer that was lost, does not begin another one.
    assert_eq!(try_to(client, "DELETE", "/_firn/tenants/acme", Value::Null).status, 404);
    assert_eq!(ask(client, "GET", "/_firn/tenants/acme/deletion", Value::Null), done);
    assert_eq!(client.get("/own").unwrap().status, 404);
    // Nothing is written for it until somebody declares it again.
    assert_eq!(write(client, [("acme", 0)])["items"][0]["create"]["status"], json!(403));

    ask(client, "PUT", "/_firn/tenants/acme", json!({}));
    let taken = write(client, [("acme", 0)]);
    assert_eq!(taken["errors"], json!(false), "{taken}");

    // The statement stays.
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
    assert_eq!(delete("nobody").status, 404);
    assert_eq!(delete("no%20name").status, 400);
    assert_eq!(node.client().get("/_firn/tenants/nobody/deletion").unwrap().status, 404);
}
