use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use firn_testkit::Client;
use serde_json::{Value, json};

use crate::{eventually, fill, put_shared, start_secure};

/// Declares a tenant with an admin; returns a client of the admin.
fn declare(operator: &Client, tenant: &str) -> Client {
    operator.ok("PUT", &format!("/_firn/tenants/{tenant}"), &json!({}));
    let user = json!({"password": "staple battery", "roles": ["tenant_admin"], "metadata": {"tenant": tenant}});
    operator.ok("PUT", &format!("/_security/user/{tenant}-admin"), &user);
    operator.authorized(format!(
        "Basic {}",
        STANDARD.encode(format!("{tenant}-admin:staple battery"))
    ))
}

#[test]
fn a_tenant_that_is_declared_again_meets_nothing_of_the_old_one() {
    let folder = tempfile::tempdir().unwrap();
    let (node, operator) = start_secure(folder.path());
    put_shared(&operator, "shared", None);
    let (old, other) = (declare(&operator, "acme"), declare(&operator, "zeta"));
    for (client, tenant) in [(&old, "acme"), (&other, "zeta")] {
        fill(client, "shared", tenant, 300, 0);
    }
    let open = |client: &Client| {
        let point = client.ok("POST", "/shared/_pit?keep_alive=10m", &Value::Null)["id"].clone();
        let page = client.ok("POST", "/shared/_search?scroll=10m", &json!({"size": 10}));
        (point, page["_scroll_id"].clone())
    };
    let status = |client: &Client, (point, scroll): &(Value, Value)| {
        let search = json!({"pit": {"id": point}, "size": 1});
        let by_point = client.json("POST", "/_search", &search).unwrap().status;
        let scroll = json!({"scroll_id": scroll});
        (
            by_point,
            client.json("POST", "/_search/scroll", &scroll).unwrap().status,
        )
    };
    let (of_old, of_other) = (open(&old), open(&other));
    let nothing = json!({"query": {"match_none": {}}});
    let path = "/shared/_delete_by_query?wait_for_completion=false";
    let task = old.ok("POST", path, &nothing)["task"].as_str().unwrap().to_owned();
    let task = format!("/_tasks/{task}");
    eventually("the end of the task", || {
        operator.ok("GET", &task, &Value::Null)["completed"] == true
    });
    let usage = || operator.ok("GET", "/_firn/tenants/acme/usage", &Value::Null);
    assert_eq!(usage()["ingest"]["events_total"], json!(300));
    assert_eq!(status(&old, &of_old), (200, 200));

    operator.ok("DELETE", "/_firn/tenants/acme", &Value::Null);
    assert_eq!(
        status(&operator, &of_old),
        (404, 404),
        "its files are let go of at once"
    );
    eventually("the end of the deletion", || {
        operator.ok("GET", "/_firn/tenants/acme/deletion", &Value::Null)["status"] == "done"
    });
    let metrics = operator.get("/metrics").unwrap().text();
    let of_acme: Vec<&str> = metrics
        .lines()
        .filter(|line| line.contains("tenant=\"acme\""))
        .collect();
    assert!(of_acme.is_empty(), "{of_acme:?}");

    let new = declare(&operator, "acme");
    assert_eq!(status(&new, &of_old), (404, 404));
    assert_eq!(new.get(&task).unwrap().status, 404);
    let used = usage();
    for path in [
        "/ingest/events_total",
        "/ingest/bytes_total",
        "/search_cpu_ms",
        "/write_cpu_ms",
        "/events",
    ] {
        assert_eq!(used.pointer(path), Some(&json!(0)), "{path}: {used}");
    }
    // No data of other tenants was removed.
    assert_eq!(status(&other, &of_other), (200, 200));
    assert_eq!(
        operator.ok("GET", "/_firn/tenants/zeta/usage", &Value::Null)["ingest"]["events_total"],
        json!(300)
    );
    node.stop().unwrap();
}
