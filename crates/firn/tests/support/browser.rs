//! Server with users, and a browser with the session of one of them: it stores the cookie and sends the token, as the
//! console does.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use firn_testkit::{Answer, Client, Node, NodeOptions};
use serde_json::{Value, json};

/// Password of all users.
pub const PASSWORD: &str = "correct horse";

/// Starts a server with its data in `folder`; the operator `elastic` signs in with [`PASSWORD`].
pub fn start(folder: &Path, settings: &[(&str, &str)]) -> Node {
    Node::start(
        Path::new(env!("CARGO_BIN_EXE_firn")),
        folder,
        &options(folder, settings),
    )
    .unwrap()
}

/// Returns the same options without a start.
pub fn options(folder: &Path, settings: &[(&str, &str)]) -> NodeOptions {
    let file = folder.join("password");
    std::fs::write(&file, format!("{PASSWORD}\n")).unwrap();
    let own = [
        ("xpack.security.enabled", "true"),
        ("operator.password_file", file.to_str().unwrap()),
    ];
    let settings = own.iter().chain(settings);
    NodeOptions {
        settings: settings
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect(),
    }
}

/// Returns a client of the operator with the password in each request.
pub fn operator(node: &Node) -> Client {
    let basic = STANDARD.encode(format!("elastic:{PASSWORD}"));
    node.client().authorized(format!("Basic {basic}"))
}

/// Creates or changes a user.
#[track_caller]
pub fn put_user(operator: &Client, name: &str, role: &str, tenant: Option<&str>) {
    let metadata = tenant.map_or_else(|| json!({}), |tenant| json!({"tenant": tenant}));
    let user = json!({"password": PASSWORD, "roles": [role], "metadata": metadata});
    operator.ok("PUT", &format!("/_security/user/{name}"), &user);
}

/// Creates two tenants, `acme` with the readers `ann` and `amy`, and `bolt` with its admin `bob`; three events of
/// `acme` and five of `bolt` in the stream `events`, whose messages name their tenant.
pub fn settle(node: &Node) -> Client {
    let operator = operator(node);
    let template = json!({
        "index_patterns": ["events"],
        "data_stream": {},
        "template": {"settings": {"index.tenant.field": "tenant"}},
    });
    operator.ok("PUT", "/_index_template/events", &template);
    operator.ok("PUT", "/_data_stream/events", &Value::Null);
    for (tenant, count) in [("acme", 3), ("bolt", 5)] {
        operator.ok("PUT", &format!("/_firn/tenants/{tenant}"), &json!({}));
        let key = json!({"name": tenant, "metadata": {"tenant": tenant}});
        let key = operator.ok("POST", "/_security/api_key", &key);
        let shipper = node
            .client()
            .authorized(format!("ApiKey {}", key["encoded"].as_str().unwrap()));
        let event = json!({"@timestamp": "2026-01-01T00:00:00Z", "message": format!("of {tenant}")});
        let line = format!("{{\"create\":{{}}}}\n{event}\n");
        let answer = shipper
            .bulk("/events/_bulk?refresh=true", line.repeat(count).as_bytes())
            .unwrap();
        assert_eq!(answer.json()["errors"], false, "{}", answer.text());
    }
    put_user(&operator, "ann", "tenant_reader", Some("acme"));
    put_user(&operator, "amy", "tenant_reader", Some("acme"));
    put_user(&operator, "bob", "tenant_admin", Some("bolt"));
    operator
}

/// Browser of a signed-in user.
#[derive(Clone)]
pub struct Browser {
    pub client: Client,
    /// `name=value`.
    pub cookie: String,
    pub csrf: String,
}

impl Browser {
    /// Signs in and panics on failure.
    #[track_caller]
    pub fn sign_in(client: &Client, name: &str) -> Self {
        let body = json!({"username": name, "password": PASSWORD});
        let answer = client.json("POST", "/_firn/session", &body).unwrap();
        assert_eq!(answer.status, 200, "{}", answer.text());
        let cookie = answer.header("set-cookie").expect("a cookie");
        Self {
            client: client.clone(),
            cookie: cookie.split(';').next().unwrap().to_owned(),
            csrf: answer.json()["csrf"].as_str().expect("a token").to_owned(),
        }
    }

    /// Returns the same browser for a restarted server.
    pub fn at(&self, client: &Client) -> Self {
        Self {
            client: client.clone(),
            ..self.clone()
        }
    }

    /// Returns the same browser with the token of the session after its view changed.
    pub fn with_view(&self, answer: &Answer) -> Self {
        Self {
            csrf: answer.json()["csrf"].as_str().expect("a token").to_owned(),
            ..self.clone()
        }
    }

    /// Sends a request with the cookie and these headers.
    pub fn bare(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
        let cookie = format!("theirs=1; {}", self.cookie);
        let mut all = vec![("cookie", cookie.as_str())];
        all.extend(headers);
        self.client.with_headers(method, path, &all, body).unwrap()
    }

    /// Sends a request as the console does.
    pub fn send(&self, method: &str, path: &str, body: &Value) -> Answer {
        let token = ("x-firn-csrf", self.csrf.as_str());
        match body {
            Value::Null => self.bare(method, path, &[token], b""),
            body => {
                let json = ("content-type", "application/json");
                self.bare(method, path, &[token, json], body.to_string().as_bytes())
            }
        }
    }

    pub fn get(&self, path: &str) -> Answer {
        self.send("GET", path, &Value::Null)
    }

    /// Returns the status of a request for the session.
    pub fn status(&self) -> u16 {
        self.get("/_firn/session").status
    }

    /// Returns the number of visible events.
    #[track_caller]
    pub fn count(&self) -> u64 {
        let answer = self.get("/events/_count");
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.json()["count"].as_u64().unwrap()
    }
}
