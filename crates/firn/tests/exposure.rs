//! Network exposure: HTTPS for clients and tools, replacement of the certificate, and warnings or refusals about
//! addresses.

mod support;

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use firn_testkit::{Client, Node, NodeOptions};

struct Folder {
    folder: tempfile::TempDir,
}

impl Folder {
    fn new() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes another certificate and its key, and returns the certificate.
    fn write_pair(&self) -> Vec<u8> {
        let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap();
        let certificate = made.cert.pem().into_bytes();
        std::fs::write(self.path("key.pem"), made.signing_key.serialize_pem()).unwrap();
        std::fs::write(self.path("cert.pem"), &certificate).unwrap();
        certificate
    }

    fn start(&self, settings: &[(&str, &str)], certificate: Option<Vec<u8>>) -> Node {
        let mut settings: Vec<(String, String)> = settings
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        if certificate.is_some() {
            let file = |name: &str| self.path(name).display().to_string();
            settings.extend([
                ("xpack.security.http.ssl.enabled".to_owned(), "true".to_owned()),
                ("xpack.security.http.ssl.certificate".to_owned(), file("cert.pem")),
                ("xpack.security.http.ssl.key".to_owned(), file("key.pem")),
            ]);
        }
        let options = NodeOptions { settings };
        let binary = Path::new(env!("CARGO_BIN_EXE_firn"));
        match certificate {
            Some(certificate) => {
                Node::start_with_certificate(binary, self.folder.path(), &options, &certificate).unwrap()
            }
            None => Node::start(binary, self.folder.path(), &options).unwrap(),
        }
    }
}

/// Waits for a change that takes at most two polls of the files.
fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let started = Instant::now();
    while !is_so() {
        assert!(started.elapsed() < Duration::from_secs(30), "{what} did not come");
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn https_serves_only_trusting_clients_and_tools() {
    let folder = Folder::new();
    let certificate = folder.write_pair();
    let node = folder.start(&[], Some(certificate));
    let log = node.log();
    assert!(log.contains(&format!("https://127.0.0.1:{}", node.port())), "{log}");

    let bulk = b"{\"create\":{}}\n{\"@timestamp\":\"2026-01-01T00:00:00Z\",\"message\":\"under tls\"}\n";
    assert_eq!(
        node.client().bulk("/events/_bulk?refresh=true", bulk).unwrap().status,
        200
    );
    let events = folder.path("events.ndjson");
    std::fs::write(
        &events,
        "{\"@timestamp\":\"2026-01-01T00:00:00Z\",\"message\":\"from a file\"}\n",
    )
    .unwrap();
    let ingest = |more: &[&str]| {
        let url = format!("https://127.0.0.1:{}", node.port());
        let mut arguments = vec!["ingest", events.to_str().unwrap(), "--url", &url, "--index", "events"];
        arguments.extend(more);
        support::firn(&arguments)
    };
    let output = ingest(&["--ca-cert", folder.path("cert.pem").to_str().unwrap()]);
    assert!(output.status.success(), "{}", support::stderr(&output));
    node.client().get("/events/_refresh").unwrap();
    assert_eq!(node.client().get("/events/_count").unwrap().json()["count"], 2);

    // A client that does not trust the certificate sends nothing, and a client without TLS gets no answer.
    assert!(!ingest(&[]).status.success());
    let mut plain = TcpStream::connect(("127.0.0.1", node.port())).unwrap();
    plain.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    plain.read_to_end(&mut answer).unwrap();
    assert!(!answer.starts_with(b"HTTP/"), "{answer:?}");
    node.stop().unwrap();
}

#[test]
fn a_certificate_that_changes_is_shown_and_a_broken_one_is_not() {
    let folder = Folder::new();
    let old = folder.write_pair();
    let node = folder.start(&[], Some(old.clone()));
    let answers = |certificate: &[u8]| {
        // A new client per call, and so a new connection.
        let client = Client::trusting(node.client().base(), certificate).unwrap();
        client.get("/").is_ok_and(|answer| answer.status == 200)
    };
    assert!(answers(&old));

    let new = folder.write_pair();
    eventually("the new certificate", || answers(&new));
    assert!(!answers(&old));

    std::fs::write(folder.path("cert.pem"), "half a certif").unwrap();
    eventually("the complaint", || {
        node.log()
            .contains("cannot use the changed certificate, the old one stays")
    });
    assert!(answers(&new));
    let newest = folder.write_pair();
    eventually("the newest certificate", || answers(&newest));
}

#[test]
fn an_open_server_says_so() {
    let folder = Folder::new();
    let node = folder.start(&[], None);
    let sentence = "every user and program on this machine can reach 127.0.0.1:";
    eventually("the sentence about loopback", || node.log().contains(sentence));
    node.stop().unwrap();

    let folder = Folder::new();
    let node = folder.start(
        &[
            ("http.host", "0.0.0.0"),
            ("http.insecure_open_to_network", "true"),
            ("xpack.security.http.ssl.enabled", "false"),
        ],
        None,
    );
    let sentence = "because http.insecure_open_to_network allows it";
    eventually("the sentence about the override", || node.log().contains(sentence));
    node.stop().unwrap();
}

#[test]
fn certificates_that_cannot_be_read_stop_the_start() {
    let folder = Folder::new();
    folder.write_pair();
    let serve = |certificate: &str, key: &str| {
        let setting =
            |name: &str, file: &str| format!("xpack.security.http.ssl.{name}={}", folder.path(file).display());
        let data = format!("path.data={}", folder.path("data").display());
        support::firn(&[
            "serve",
            "-E",
            "http.port=0",
            "-E",
            &data,
            "-E",
            "xpack.security.http.ssl.enabled=true",
            "-E",
            &setting("certificate", certificate),
            "-E",
            &setting("key", key),
        ])
    };
    for (certificate, key, words) in [
        ("missing.pem", "key.pem", "missing.pem"),
        ("cert.pem", "missing.pem", "[xpack.security.http.ssl.key]"),
        ("key.pem", "key.pem", "holds no PEM certificate"),
    ] {
        let output = serve(certificate, key);
        let error = support::stderr(&output);
        assert_eq!(output.status.code(), Some(78), "{error}");
        assert!(error.contains(words), "{error}");
        assert!(!folder.path("data").exists(), "nothing was opened");
    }
}

/// Settings of an elasticsearch.yml apply after the start.
#[test]
fn a_node_is_what_its_elasticsearch_yml_says() {
    let folder = Folder::new();
    let node = folder.start(
        &[
            ("network.host", "127.0.0.1"),
            ("node.roles", "data_hot,data_frozen"),
            ("node.attr.rack", "r1"),
            ("action.auto_create_index", "-secret*,+*"),
            ("discovery.type", "single-node"),
            ("thread_pool.snapshot.max", "4"),
            ("indices.recovery.max_bytes_per_sec", "100mb"),
        ],
        None,
    );
    let client = node.client();
    let attributes = client.get("/_cat/nodeattrs?h=attr,value").unwrap();
    assert_eq!(attributes.text().trim(), "rack r1");
    assert_eq!(client.get("/_cat/nodes?h=node.role").unwrap().text().trim(), "fh");
    let info = client.get("/_nodes").unwrap().json();
    let info = info["nodes"].as_object().unwrap().values().next().unwrap().clone();
    assert_eq!(info["roles"], serde_json::json!(["data_hot", "data_frozen"]));
    assert_eq!(info["attributes"]["rack"], "r1");
    let write = |index: &str| {
        let path = format!("/{index}/_doc");
        client.json("POST", &path, &serde_json::json!({"a": 1})).unwrap().status
    };
    assert_eq!((write("secret-1"), write("open-1")), (404, 201));
    // Dynamic settings have precedence.
    let set = serde_json::json!({"persistent": {"action.auto_create_index": "true"}});
    assert_eq!(client.json("PUT", "/_cluster/settings", &set).unwrap().status, 200);
    assert_eq!(write("secret-1"), 201);
}
