//! Conformance tests of Google, Azure and plain web servers, against in-memory servers that implement the documented
//! protocol as far as firn uses it. They check no signatures.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;

use firn_model::settings::SettingsMap;
use parking_lot::Mutex;
use serde_json::json;

use super::tests::{conforms, kind};
use super::*;

#[derive(Debug, Clone, Copy, PartialEq)]
enum Speaks {
    Google,
    Azure,
    /// Supports only GET and HEAD.
    Web,
}

#[derive(Default)]
struct Bucket {
    objects: BTreeMap<String, (u64, Vec<u8>)>,
    parts: BTreeMap<String, Vec<u8>>,
    written: u64,
}

struct Request {
    method: String,
    path: String,
    query: BTreeMap<String, String>,
    headers: BTreeMap<String, String>,
    body: Vec<u8>,
}

impl Request {
    fn read(stream: &mut BufReader<TcpStream>) -> Option<Self> {
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            stream.read_line(&mut line).ok().filter(|len| *len > 0)?;
            match line.trim_end() {
                "" => break,
                line => lines.push(line.to_owned()),
            }
        }
        let mut start = lines[0].split(' ');
        let (method, target) = (start.next()?.to_owned(), start.next()?);
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let pair = |pair: &str| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (
                name.to_owned(),
                value.replace("%2F", "/").replace("%3D", "=").replace("%2B", "+"),
            )
        };
        let headers: BTreeMap<String, String> = lines[1..]
            .iter()
            .filter_map(|line| line.split_once(':'))
            .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
            .collect();
        let len = headers
            .get("content-length")
            .and_then(|len| len.parse().ok())
            .unwrap_or(0);
        let mut body = vec![0; len];
        stream.read_exact(&mut body).ok()?;
        Some(Self {
            method,
            path: path.replace("%2F", "/"),
            query: query.split('&').map(pair).collect(),
            headers,
            body,
        })
    }
}

struct Response {
    status: u16,
    headers: Vec<(&'static str, String)>,
    body: Vec<u8>,
}

impl Response {
    fn new(status: u16, body: impl Into<Vec<u8>>) -> Self {
        Self {
            status,
            headers: Vec::new(),
            body: body.into(),
        }
    }

    fn written(status: u16, version: u64) -> Self {
        let headers = vec![
            ("ETag", format!("\"e{version}\"")),
            ("x-goog-generation", version.to_string()),
        ];
        Self {
            headers,
            ..Self::new(status, "")
        }
    }
}

const DATE: &str = "Wed, 01 Jul 2026 00:00:00 GMT";

impl Bucket {
    fn answer(&mut self, speaks: Speaks, request: &Request) -> Response {
        let key = request
            .path
            .trim_start_matches('/')
            .split_once('/')
            .map_or("", |(_, key)| key)
            .to_owned();
        let has = |name: &str| request.query.contains_key(name);
        match (request.method.as_str(), speaks) {
            ("GET" | "HEAD", _) if !has("list-type") && !has("comp") => self.get(&key, request),
            ("GET", Speaks::Google | Speaks::Azure) => self.list(speaks, request),
            ("PUT", Speaks::Google) if has("partNumber") => {
                let number: usize = request.query["partNumber"].parse().expect("a number");
                self.parts.insert(format!("{number:05}"), request.body.clone());
                Response::written(200, 0)
            }
            ("PUT", Speaks::Azure) if request.query.get("comp").is_some_and(|comp| comp == "block") => {
                self.parts
                    .insert(request.query["blockid"].clone(), request.body.clone());
                Response::written(201, 0)
            }
            ("PUT", Speaks::Azure) if has("comp") => {
                let list = String::from_utf8_lossy(&request.body);
                let ids = list
                    .split("<Uncommitted>")
                    .skip(1)
                    .filter_map(|rest| rest.split('<').next());
                let ids: Vec<String> = ids.map(str::to_owned).collect();
                self.assemble(&key, &ids)
            }
            ("POST", Speaks::Google) if has("uploads") => Response::new(
                200,
                "<InitiateMultipartUploadResult><UploadId>u</UploadId></InitiateMultipartUploadResult>",
            ),
            ("POST", Speaks::Azure) if request.query.get("comp").is_some_and(|comp| comp == "batch") => {
                self.delete_one_of_a_batch(request)
            }
            ("POST", Speaks::Google) => {
                let ids: Vec<String> = self.parts.keys().cloned().collect();
                let mut response = self.assemble(&key, &ids);
                response.status = 200;
                response.body =
                    b"<CompleteMultipartUploadResult><ETag>\"e\"</ETag></CompleteMultipartUploadResult>".to_vec();
                response
            }
            ("PUT", Speaks::Google | Speaks::Azure) => self.put(speaks, &key, request),
            ("DELETE", Speaks::Google | Speaks::Azure) => match self.objects.remove(&key) {
                Some(_) => Response::new(if speaks == Speaks::Azure { 202 } else { 204 }, ""),
                None => Response::new(404, "<Error><Code>NoSuchKey</Code></Error>"),
            },
            _ => Response::new(405, ""),
        }
    }

    fn put(&mut self, speaks: Speaks, key: &str, request: &Request) -> Response {
        let stored = self.objects.get(key).map(|(version, _)| *version);
        let header = |name: &str| request.headers.get(name).map(String::as_str);
        let (create, replace) = match speaks {
            Speaks::Google => {
                let wanted = header("x-goog-if-generation-match");
                (
                    wanted == Some("0"),
                    wanted.filter(|wanted| *wanted != "0").map(str::to_owned),
                )
            }
            _ => {
                let wanted = header("if-match").map(|etag| etag.trim_matches(['"', 'e']).to_owned());
                (header("if-none-match") == Some("*"), wanted)
            }
        };
        if create && stored.is_some() {
            return Response::new(if speaks == Speaks::Azure { 409 } else { 412 }, "");
        }
        if replace.is_some_and(|wanted| stored.map(|version| version.to_string()) != Some(wanted)) {
            return Response::new(412, "");
        }
        self.written += 1;
        self.objects
            .insert(key.to_owned(), (self.written, request.body.clone()));
        Response::written(if speaks == Speaks::Azure { 201 } else { 200 }, self.written)
    }

    /// firn sends batches of one deletion.
    fn delete_one_of_a_batch(&mut self, request: &Request) -> Response {
        let body = String::from_utf8_lossy(&request.body);
        let line = body
            .lines()
            .find(|line| line.starts_with("DELETE "))
            .expect("a deletion");
        let path = line.split(' ').nth(1).expect("a path").replace("%2F", "/");
        let key = path.trim_start_matches('/').split_once('/').map_or("", |(_, key)| key);
        let status = match self.objects.remove(key) {
            Some(_) => "202 Accepted",
            None => "404 The specified blob does not exist.",
        };
        let part = format!("Content-Type: application/http\r\nContent-ID: 0\r\n\r\nHTTP/1.1 {status}\r\n\r\n");
        let mut response = Response::new(202, format!("--b\r\n{part}\r\n--b--\r\n"));
        response
            .headers
            .push(("Content-Type", "multipart/mixed; boundary=b".to_owned()));
        response
    }

    fn assemble(&mut self, key: &str, ids: &[String]) -> Response {
        let mut parts = std::mem::take(&mut self.parts);
        let whole = ids.iter().flat_map(|id| parts.remove(id).expect("a part")).collect();
        self.written += 1;
        self.objects.insert(key.to_owned(), (self.written, whole));
        Response::written(201, self.written)
    }

    fn get(&self, key: &str, request: &Request) -> Response {
        let Some((version, bytes)) = self.objects.get(key) else {
            return Response::new(404, "<Error><Code>NoSuchKey</Code></Error>");
        };
        let mut response = Response::written(200, *version);
        response.headers.push(("Last-Modified", DATE.to_owned()));
        let range = request
            .headers
            .get("range")
            .and_then(|range| range.strip_prefix("bytes="));
        let Some(range) = range else {
            response.body = bytes.clone();
            return response;
        };
        let (from, to) = range.split_once('-').expect("a range");
        let len = bytes.len();
        let range = match from {
            "" => len.saturating_sub(to.parse().expect("a number"))..len,
            from => {
                let last: usize = to.parse().expect("a number");
                from.parse().expect("a number")..len.min(last + 1)
            }
        };
        response.status = 206;
        response.headers.push((
            "Content-Range",
            format!("bytes {}-{}/{len}", range.start, range.end - 1),
        ));
        response.body = bytes[range].to_vec();
        response
    }

    fn list(&self, speaks: Speaks, request: &Request) -> Response {
        let prefix = request.query.get("prefix").cloned().unwrap_or_default();
        let mut xml = String::new();
        for (key, (version, bytes)) in self.objects.iter().filter(|(key, _)| key.starts_with(&prefix)) {
            let len = bytes.len();
            xml += &match speaks {
                Speaks::Azure => format!(
                    "<Blob><Name>{key}</Name><Properties><Last-Modified>{DATE}</Last-Modified>\
                     <Etag>e{version}</Etag><Content-Length>{len}</Content-Length>\
                     <Content-Type>x</Content-Type></Properties></Blob>"
                ),
                _ => format!(
                    "<Contents><Key>{key}</Key><Size>{len}</Size><ETag>\"e{version}\"</ETag>\
                     <LastModified>2026-07-01T00:00:00.000Z</LastModified></Contents>"
                ),
            };
        }
        Response::new(
            200,
            match speaks {
                Speaks::Azure => format!("<EnumerationResults><Blobs>{xml}</Blobs><NextMarker/></EnumerationResults>"),
                _ => format!("<ListBucketResult>{xml}</ListBucketResult>"),
            },
        )
    }
}

/// Starts a server and returns its address and its bucket.
fn serve(speaks: Speaks) -> (String, Arc<Mutex<Bucket>>) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    let address = format!("http://{}", listener.local_addr().expect("an address"));
    let bucket = Arc::new(Mutex::new(Bucket::default()));
    let served = Arc::clone(&bucket);
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let served = Arc::clone(&served);
            std::thread::spawn(move || {
                let mut stream = BufReader::new(client);
                while let Some(request) = Request::read(&mut stream) {
                    let response = served.lock().answer(speaks, &request);
                    let mut head = format!(
                        "HTTP/1.1 {} X\r\nContent-Length: {}\r\n",
                        response.status,
                        response.body.len()
                    );
                    for (name, value) in response.headers {
                        head += &format!("{name}: {value}\r\n");
                    }
                    head += "\r\n";
                    let body = if request.method == "HEAD" {
                        &[][..]
                    } else {
                        &response.body
                    };
                    let sent = stream.get_mut().write_all(&[head.as_bytes(), body].concat());
                    if sent.is_err() {
                        return;
                    }
                }
            });
        }
    });
    (address, bucket)
}

fn open(kind: &str, settings: serde_json::Value) -> Guarded {
    let mut config = StoresConfig::new(1);
    config.allowed_urls = vec!["http://127.0.0.1:*".to_owned()];
    config.clients = [
        ("azure.client.default.account", "account"),
        ("azure.client.default.key", "a2V5"),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .into();
    let settings: SettingsMap = settings.as_object().cloned().unwrap_or_default().into_iter().collect();
    let stores = ObjectStores::new(config);
    stores.open("r", kind, &settings).expect("a repository")
}

#[tokio::test]
async fn google_conforms() {
    let (endpoint, bucket) = serve(Speaks::Google);
    let settings = json!({"bucket": "b", "base_path": "a", "endpoint": endpoint, "max_snapshot_bytes_per_sec": "0"});
    conforms(&open("gcs", settings).with_part_len(5 << 20)).await;
    assert!(bucket.lock().objects.keys().all(|key| key.starts_with("a/")));
}

#[tokio::test]
async fn azure_conforms() {
    let (endpoint, bucket) = serve(Speaks::Azure);
    let settings = json!({
        "container": "c", "base_path": "a", "endpoint": endpoint, "max_snapshot_bytes_per_sec": "0",
    });
    conforms(&open("azure", settings).with_part_len(5 << 20)).await;
    assert!(bucket.lock().objects.keys().all(|key| key.starts_with("a/")));
}

#[tokio::test]
async fn a_web_server_is_read_and_nothing_else() {
    let (address, bucket) = serve(Speaks::Web);
    bucket
        .lock()
        .objects
        .insert("log/1".to_owned(), (1, b"0123456789".to_vec()));
    let objects = open("url", json!({"url": format!("{address}/x")}));
    assert!(objects.is_readonly());
    assert_eq!(objects.read("log/1", 2..5).await.expect("range"), "234");
    assert_eq!(objects.read_all("log/1", 10).await.expect("all").0, "0123456789");
    let (bytes, info) = objects.read_end("log/1", 3).await.expect("end");
    assert_eq!((bytes.as_ref(), info.len), (&b"789"[..], 10));
    assert_eq!(objects.info("log/1").await.expect("info").len, 10);
    assert_eq!(kind(objects.read_all("log/2", 10).await), ObjectErrorKind::NotFound);
    assert_eq!(kind(objects.list("log/").await), ObjectErrorKind::Unsupported);
    let write = objects.write("log/2", "x".into(), PutMode::Create);
    assert_eq!(kind(write.await), ObjectErrorKind::Unsupported);
    assert_eq!(kind(objects.delete("log/1").await), ObjectErrorKind::Unsupported);
}
