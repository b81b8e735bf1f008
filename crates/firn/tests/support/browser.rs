//! A server that people sign in at, and a browser of one of them: it keeps the cookie and sends the token, as the console
//! does.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use firn_testkit::{Answer, Client, Node, NodeOptions};
use serde_json::{Value, json};

/// Of everybody.
pub const PASSWORD: &str = "correct horse";

/// Starts a server with this in its folder, where the operator `elastic` signs in with [`PASSWORD`].
pub fn start(folder: &Path, settings: &[(&str, &str)]) -> Node {
    Node::start(
        Path::new(env!("CARGO_BIN_EXE_firn")),
        folder,
        &options(folder, settings),
    )
    .unwrap()
}

/// The same with options that are not started yet.
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

/// A client of the operator's, with his password in each request.
pub fn operator(node: &Node) -> Client {
    let basic = STANDARD.encode(format!("elastic:{PASSWORD}"));
    node.client().authorized(format!("Basic {basic}"))
}

/// Makes or changes a user.
#[track_caller]
pub fn put_user(operator: &Client, name: &str, role: &str, tenant: Option<&str>) {
    let metadata = tenant.map_or_else(|| json!({}), |tenant| json!({"tenant": tenant}));
    let user = json!({"password": PASSWORD, "roles": [role], "metadata": metadata});
    operator.ok("PUT", &format!("/_security/user/{name}"), &user);
}

/// Two tenants, `acme` with the readers `ann` and `amy`, and `bolt` with its admin `bob`; three events of `acme` and
/// five of `bolt` in the stream `events`, whose messages name their tenant.
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

/// Where somebody is signed in.
#[derive(Clone)]
pub struct Browser {
    pub client: Client,
    /// `name=value`.
    pub cookie: String,
    pub csrf: String,
}

impl Browser {
    /// Signs in; fails if that does not work.
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

    /// The same browser at a server that was started again.
    pub fn at(&self, client: &Client) -> Self {
        Self {
            client: client.clone(),
            ..self.clone()
        }
    }

    /// The same browser with the token of a session that it has taken a view in, or given it back.
    pub fn with_view(&self, answer: &Answer) -> Self {
        Self {
            csrf: answer.json()["csrf"].as_str().expect("a token").to_owned(),
            ..self.clone()
        }
    }

    /// With the cookie and these headers.
    pub fn bare(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
        let cookie = format!("theirs=1; {}", self.cookie);
        let mut all = vec![("cookie", cookie.as_str())];
        all.extend(headers);
        self.client.with_headers(method, path, &all, body).unwrap()
    }

    /// As the console asks.
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

    /// The status of the question who is signed in.
    pub fn status(&self) -> u16 {
        self.get("/_firn/session").status
    }

    /// How many events it sees.
    #[track_caller]
    pub fn count(&self) -> u64 {
        let answer = self.get("/events/_count");
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.json()["count"].as_u64().unwrap()
    }
}
