//! `uri_parts`: takes a URI apart.
//!
//! As in Elasticsearch, a text with characters that no URI may have is read a second time as a URL; then nothing is
//! decoded.

use super::prelude::*;

/// Protocols that Java's `URL` knows.
const PROTOCOLS: [&str; 5] = ["http", "https", "ftp", "file", "jar"];

#[derive(Debug)]
struct UriParts {
    field: Path,
    target: Path,
    remove_if_successful: bool,
    keep_original: bool,
    ignore_missing: bool,
}

pub(crate) fn parse(options: &mut Options) -> Result<Box<dyn Processor>> {
    boxed(UriParts {
        field: options.path("field")?,
        target: options.path_or("target_field", "url")?,
        remove_if_successful: options.boolean("remove_if_successful", false)?,
        keep_original: options.boolean("keep_original", true)?,
        ignore_missing: options.boolean("ignore_missing", false)?,
    })
}

impl Processor for UriParts {
    fn run(&self, document: &mut Document, run: &mut Run<'_>) -> Result<Flow, Failure> {
        let Some(text) = document.text_or_missing(&self.field, self.ignore_missing)? else {
            return Ok(Flow::Continue);
        };
        run.budget.write(2 * text.len())?;
        let text = text.to_owned();
        let mut parts = uri_parts(&text)?;
        if self.keep_original {
            parts.insert("original".to_owned(), text.into());
        }
        if self.remove_if_successful && self.target.text() != self.field.text() {
            document.remove(&self.field)?;
        }
        document.set(&self.target, Value::Object(parts))?;
        Ok(Flow::Continue)
    }
}

fn uri_parts(text: &str) -> Result<Map<String, Value>, Failure> {
    let fail = || Failure::illegal(format!("unable to parse URI [{text}]"));
    let (rest, fragment) = cut(text, '#');
    let (rest, query) = cut(rest, '?');
    let scheme = rest.split_once(':').filter(|(scheme, _)| is_scheme(scheme));
    let (scheme, rest) = match scheme {
        Some((scheme, rest)) => (Some(scheme), rest),
        None => (None, rest),
    };
    let is_uri = is_legal(text) && !(scheme.is_some() && rest.is_empty() && query.is_none());
    if !is_uri && !scheme.is_some_and(|scheme| PROTOCOLS.contains(&scheme.to_lowercase().as_str())) {
        return Err(fail());
    }
    let decoded = |text: &str| if is_uri { decode(text) } else { text.to_owned() };
    let (authority, path) = match rest.strip_prefix("//") {
        Some(rest) => {
            let end = rest.find('/').unwrap_or(rest.len());
            (Some(&rest[..end]), Some(&rest[end..]))
        }
        // `mailto:a@b` has neither.
        None if scheme.is_some() && !rest.starts_with('/') => (None, None),
        None => (None, Some(rest)),
    };
    let (user_info, host, port) = authority.map_or((None, None, None), |authority| server(authority, is_uri));
    let mut parts = Map::new();
    let mut put = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            parts.insert(name.to_owned(), value);
        }
    };
    put("domain", Some(host.map_or(Value::Null, Value::from)));
    put("fragment", fragment.map(|fragment| decoded(fragment).into()));
    if let Some(path) = path.map(decoded) {
        let extension = path.rsplit_once('/').and_then(|(_, last)| last.rsplit_once('.'));
        put("extension", extension.map(|(_, extension)| extension.into()));
        put("path", Some(path.into()));
    }
    put("port", port.map(Value::from));
    put(
        "query",
        query.filter(|_| path.is_some()).map(|query| decoded(query).into()),
    );
    put("scheme", Some(scheme.map_or(Value::Null, Value::from)));
    if let Some(user_info) = user_info.map(decoded) {
        if let Some((username, password)) = user_info.split_once(':') {
            put("username", Some(username.into()));
            put("password", Some(password.into()));
        }
        put("user_info", Some(user_info.into()));
    }
    Ok(parts)
}

fn cut(text: &str, at: char) -> (&str, Option<&str>) {
    match text.split_once(at) {
        Some((before, after)) => (before, Some(after)),
        None => (text, None),
    }
}

fn is_scheme(text: &str) -> bool {
    let is_rest = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.');
    text.as_bytes().first().is_some_and(u8::is_ascii_alphabetic) && text.bytes().all(is_rest)
}

/// Returns whether Java's `URI` takes all characters; it takes all letters beyond ASCII.
fn is_legal(text: &str) -> bool {
    let mut fragments = 0;
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        let is_legal = match byte {
            b'%' => {
                let digits = (bytes.next(), bytes.next());
                matches!(digits, (Some(a), Some(b)) if a.is_ascii_hexdigit() && b.is_ascii_hexdigit())
            }
            b'#' => {
                fragments += 1;
                fragments == 1
            }
            b' ' | b'"' | b'<' | b'>' | b'\\' | b'^' | b'`' | b'{' | b'|' | b'}' => false,
            other => !other.is_ascii_control(),
        };
        if !is_legal {
            return false;
        }
    }
    true
}

/// Takes user, host and port apart. Without a valid host, a URI has none of them.
fn server(authority: &str, is_uri: bool) -> (Option<&str>, Option<&str>, Option<u32>) {
    let (user_info, host) = match authority.rsplit_once('@') {
        Some((user_info, host)) => (Some(user_info), host),
        None => (None, authority),
    };
    let is_port = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit());
    let (host, port) = match host.rsplit_once(':') {
        Some((host, port)) if is_port(port) && !host.is_empty() => (host, port.parse().ok()),
        _ => (host, None),
    };
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.');
    let is_host = (host.starts_with('[') && host.ends_with(']')) || (!host.is_empty() && host.bytes().all(is_name));
    match is_host || !is_uri {
        true => (user_info, Some(host), port),
        false => (None, None, None),
    }
}

fn decode(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let hex = text
            .get(at + 1..at + 3)
            .and_then(|digits| u8::from_str_radix(digits, 16).ok());
        match (bytes[at], hex) {
            (b'%', Some(byte)) => {
                out.push(byte);
                at += 3;
            }
            (byte, _) => {
                out.push(byte);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::processors::tests::{check, fails, refused};

    #[test]
    fn refuses_to_parse() {
        refused(json!({"uri_parts": {}}), "[field] required property is missing");
    }

    fn parts(uri: &str, expected: Value) {
        let parts = json!({"uri_parts": {"field": "f", "keep_original": false}});
        check(parts, json!({"f": uri}), json!({"f": uri, "url": expected}));
    }

    #[test]
    fn results() {
        parts(
            "http://myusername:mypassword@www.example.com:80/foo.gif?key1=val1&key2=val2#fragment",
            json!({
                "domain": "www.example.com", "fragment": "fragment", "extension": "gif", "path": "/foo.gif", "port": 80,
                "query": "key1=val1&key2=val2", "scheme": "http", "username": "myusername", "password": "mypassword",
                "user_info": "myusername:mypassword"
            }),
        );
        parts(
            "https://h/a.b/c%20d",
            json!({"domain": "h", "path": "/a.b/c d", "scheme": "https"}),
        );
        parts(
            "http://h/a?x={y}",
            json!({"domain": "h", "path": "/a", "query": "x={y}", "scheme": "http"}),
        );
        parts(
            "http://user@h",
            json!({"domain": "h", "path": "", "scheme": "http", "user_info": "user"}),
        );
        parts(
            "http://u:@h/",
            json!({"domain": "h", "path": "/", "scheme": "http", "user_info": "u:", "username": "u", "password": ""}),
        );
        parts(
            "ftp://[::1]:21/x",
            json!({"domain": "[::1]", "path": "/x", "port": 21, "scheme": "ftp"}),
        );
        parts(
            "/only/path.txt",
            json!({"domain": null, "path": "/only/path.txt", "extension": "txt", "scheme": null}),
        );
        parts("mailto:a@b", json!({"domain": null, "scheme": "mailto"}));
    }

    #[test]
    fn options() {
        let original = json!({"uri_parts": {"field": "f", "target_field": "u", "remove_if_successful": true}});
        let expected = json!({"u": {"domain": "h", "path": "", "scheme": "http", "original": "http://h"}});
        check(original, json!({"f": "http://h"}), expected);
        check(
            json!({"uri_parts": {"field": "f", "ignore_missing": true}}),
            json!({}),
            json!({}),
        );
    }

    #[test]
    fn failures() {
        let parts = json!({"uri_parts": {"field": "f"}});
        fails(parts.clone(), json!({}), "field [f] not present as part of path [f]");
        fails(
            parts.clone(),
            json!({"f": "not:\\/_a_valid_uri"}),
            "unable to parse URI [not:\\/_a_valid_uri]",
        );
        fails(parts, json!({"f": "a b"}), "unable to parse URI [a b]");
    }
}
