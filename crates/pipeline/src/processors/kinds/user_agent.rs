//! `user_agent`: reads browser, operating system and device from a user agent.
//!
//! The output fields and names are Elasticsearch's, but the rules are a small set of firn's own, not the regular
//! expressions of `uap-core` (hundreds of kilobytes, which no Rust crate ships): common browsers, systems, crawlers and
//! tools are known, everything else is `Other`. `regex_file` is refused.

use super::prelude::*;

const PROPERTIES: [&str; 5] = ["name", "os", "device", "original", "version"];

/// Browsers and tools: the text in front of the version, and the name. The first that occurs counts, so special ones
/// come first.
const AGENTS: &[(&str, &str)] = &[
    ("Googlebot/", "Googlebot"),
    ("bingbot/", "bingbot"),
    ("YandexBot/", "YandexBot"),
    ("Baiduspider/", "Baiduspider"),
    ("DuckDuckBot/", "DuckDuckBot"),
    ("AhrefsBot/", "AhrefsBot"),
    ("SemrushBot/", "SemrushBot"),
    ("Applebot/", "Applebot"),
    ("GPTBot/", "GPTBot"),
    ("facebookexternalhit/", "FacebookBot"),
    ("EdgiOS/", "Edge Mobile"),
    ("EdgA/", "Edge Mobile"),
    ("Edg/", "Edge"),
    ("Edge/", "Edge"),
    ("OPR/", "Opera"),
    ("OPiOS/", "Opera Mini"),
    ("SamsungBrowser/", "Samsung Internet"),
    ("YaBrowser/", "Yandex Browser"),
    ("Vivaldi/", "Vivaldi"),
    ("UCBrowser/", "UC Browser"),
    ("FxiOS/", "Firefox iOS"),
    ("Firefox/", "Firefox"),
    ("CriOS/", "Chrome Mobile iOS"),
    ("HeadlessChrome/", "HeadlessChrome"),
    ("Electron/", "Electron"),
    ("Chrome/", "Chrome"),
    ("MSIE ", "IE"),
    ("Trident/7.0; rv:", "IE"),
    ("PhantomJS/", "PhantomJS"),
    ("curl/", "curl"),
    ("Wget/", "Wget"),
    ("python-requests/", "Python Requests"),
    ("Python-urllib/", "Python-urllib"),
    ("aiohttp/", "Python aiohttp"),
    ("Go-http-client/", "Go-http-client"),
    ("okhttp/", "okhttp"),
    ("Apache-HttpClient/", "Apache-HttpClient"),
    ("axios/", "axios"),
    ("node-fetch/", "node-fetch"),
    ("PostmanRuntime/", "PostmanRuntime"),
    ("Java/", "Java"),
    ("Ruby/", "Ruby"),
];

/// Versions of Windows by the number of its kernel.
const WINDOWS: &[(&str, &str)] = &[
    ("10.0", "10"),
    ("6.3", "8.1"),
    ("6.2", "8"),
    ("6.1", "7"),
    ("6.0", "Vista"),
    ("5.2", "XP"),
    ("5.1", "XP"),
];

/// Models of Apple's devices.
const APPLE: [&str; 3] = ["iPhone", "iPad", "iPod"];

#[derive(Debug)]
struct UserAgent {
    field: Path,
    target: Path,
    properties: Vec<&'static str>,
    ignore_missing: bool,
    extract_device_type: bool,
}

pub(crate) fn parse(options: &mut Options) -> Result<Box<dyn Processor>> {
    let field = options.path("field")?;
    if options
        .optional_text("regex_file")?
        .is_some_and(|file| file != "_default_")
    {
        return Err(options.error(Some("regex_file"), "is not implemented by firn"));
    }
    // Deprecated and without effect in Elasticsearch.
    options.boolean("ecs", true)?;
    let properties = match options.optional_texts("properties")? {
        None => PROPERTIES.to_vec(),
        Some(names) => {
            let known = |name: &String| PROPERTIES.iter().copied().find(|known| *known == name.to_lowercase());
            let properties = names.iter().map(|name| {
                known(name).ok_or_else(|| {
                    let reason = format!(
                        "illegal property value [{name}]. valid values are [NAME, OS, DEVICE, ORIGINAL, VERSION]"
                    );
                    options.error(Some("properties"), reason)
                })
            });
            properties.collect::<Result<_>>()?
        }
    };
    boxed(UserAgent {
        field,
        target: options.path_or("target_field", "user_agent")?,
        properties,
        ignore_missing: options.boolean("ignore_missing", false)?,
        extract_device_type: options.boolean("extract_device_type", false)?,
    })
}

impl Processor for UserAgent {
    fn run(&self, document: &mut Document, run: &mut Run<'_>) -> Result<Flow, Failure> {
        let value = document.value_or_missing(&self.field, self.ignore_missing, "parse user-agent")?;
        let text = match value {
            None => return Ok(Flow::Continue),
            Some(Value::String(text)) => text,
            Some(other) => return Err(cannot_cast(self.field.text(), other, "java.lang.String")),
        };
        run.budget.take_text(text.len() * AGENTS.len())?;
        run.budget.write(text.len())?;
        let (name, version) = agent(text);
        let mut out = Map::new();
        for property in &self.properties {
            let value = match *property {
                "name" => Some(name.as_str().into()),
                "version" => version.map(Value::from),
                "original" => Some(text.as_str().into()),
                "os" => system(text),
                _ => {
                    let mut map = Map::new();
                    map.insert("name".to_owned(), device(text).into());
                    if self.extract_device_type {
                        map.insert("type".to_owned(), device_type(text, &name).into());
                    }
                    Some(Value::Object(map))
                }
            };
            if let Some(value) = value {
                out.insert((*property).to_owned(), value);
            }
        }
        document.set(&self.target, Value::Object(out))?;
        Ok(Flow::Continue)
    }
}

/// Returns name and version.
fn agent(text: &str) -> (String, Option<&str>) {
    for (token, name) in AGENTS {
        let Some(version) = after(text, token) else {
            continue;
        };
        let is_mobile = text.contains("Mobile");
        let name = match *name {
            "Chrome" if text.contains("; wv)") => "Chrome Mobile WebView",
            "Chrome" if is_mobile => "Chrome Mobile",
            "Firefox" if is_mobile => "Firefox Mobile",
            "Opera" if is_mobile => "Opera Mobile",
            name => name,
        };
        return (name.to_owned(), version);
    }
    if text.contains("Safari/")
        && let Some(version) = after(text, "Version/")
    {
        let name = match is_apple_device(text) {
            true => "Mobile Safari",
            false if text.contains("Android") => "Android",
            false => "Safari",
        };
        return (name.to_owned(), version);
    }
    ("Other".to_owned(), None)
}

/// Returns the version behind a token, if the token occurs.
fn after<'a>(text: &'a str, token: &str) -> Option<Option<&'a str>> {
    let rest = &text[text.find(token)? + token.len()..];
    let end = rest
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(rest.len());
    Some(Some(rest[..end].trim_end_matches('.')).filter(|version| !version.is_empty()))
}

fn is_apple_device(text: &str) -> bool {
    APPLE.iter().any(|device| text.contains(device))
}

/// Returns the operating system: name, version, and both.
fn system(text: &str) -> Option<Value> {
    let version_after = |token: &str| after(text, token).flatten().map(str::to_owned);
    let (name, version) = if let Some(kernel) = version_after("Windows NT ") {
        let version = WINDOWS
            .iter()
            .find(|(known, _)| *known == kernel)
            .map(|(_, name)| *name);
        ("Windows", version.map(str::to_owned))
    } else if is_apple_device(text) {
        let version = text.find(" OS ").map(|at| &text[at + 4..]);
        let version = version.and_then(|rest| rest.split([' ', ';', ')']).next());
        ("iOS", version.map(|version| version.replace('_', ".")))
    } else if text.contains("Android") {
        ("Android", version_after("Android "))
    } else if text.contains("CrOS") {
        ("Chrome OS", None)
    } else if let Some(at) = text.find("Mac OS X") {
        let rest = text[at + 8..].trim_start();
        let end = rest
            .find(|c: char| !c.is_ascii_digit() && c != '_' && c != '.')
            .unwrap_or(rest.len());
        let version = rest[..end].replace('_', ".");
        ("Mac OS X", Some(version).filter(|version| !version.is_empty()))
    } else if text.contains("Ubuntu") {
        ("Ubuntu", version_after("Ubuntu/"))
    } else if text.contains("Fedora") {
        ("Fedora", None)
    } else if text.contains("FreeBSD") {
        ("FreeBSD", None)
    } else if text.contains("Linux") {
        ("Linux", None)
    } else {
        return None;
    };
    let mut out = Map::new();
    out.insert("name".to_owned(), name.into());
    if let Some(version) = version {
        out.insert("full".to_owned(), format!("{name} {version}").into());
        out.insert("version".to_owned(), version.into());
    }
    Some(Value::Object(out))
}

fn device(text: &str) -> String {
    if let Some(device) = APPLE.iter().find(|device| text.contains(**device)) {
        return (*device).to_owned();
    }
    if is_robot(text) {
        return "Spider".to_owned();
    }
    if let Some(at) = text.find("Android") {
        // `Android 14; Pixel 8 Build/…)`: the model stands behind the version.
        let inside = text[at..].split(')').next().unwrap_or_default();
        let model = inside.split(';').skip(1).map(str::trim).find(|part| part.len() > 2);
        let model = model.map(|model| model.split(" Build/").next().unwrap_or_default());
        return model.unwrap_or("Generic Smartphone").to_owned();
    }
    if text.contains("Macintosh") {
        return "Mac".to_owned();
    }
    "Other".to_owned()
}

fn is_robot(text: &str) -> bool {
    let lower = text.to_lowercase();
    ["bot/", "bot;", "spider", "crawler", "slurp", "facebookexternalhit"]
        .iter()
        .any(|token| lower.contains(token))
}

/// Returns Elasticsearch's type of a device.
fn device_type(text: &str, name: &str) -> &'static str {
    if is_robot(text) {
        return "Robot";
    }
    if text.contains("iPad") || text.contains("Tablet") || (text.contains("Android") && !text.contains("Mobile")) {
        return "Tablet";
    }
    if text.contains("Mobile") || is_apple_device(text) {
        return "Phone";
    }
    let is_desktop = ["Windows NT", "Macintosh", "X11", "CrOS"]
        .iter()
        .any(|token| text.contains(token));
    match is_desktop && name != "Other" {
        true => "Desktop",
        false => "Other",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::processors::tests::{check, fails, refused};

    #[test]
    fn refuses_to_parse() {
        refused(json!({"user_agent": {}}), "[field] required property is missing");
        let reason = "[properties] illegal property value [x]. valid values are [NAME, OS, DEVICE, ORIGINAL, VERSION]";
        refused(json!({"user_agent": {"field": "f", "properties": ["x"]}}), reason);
        let reason = "[regex_file] is not implemented by firn";
        refused(json!({"user_agent": {"field": "f", "regex_file": "my.yml"}}), reason);
    }

    fn reads(text: &str, mut expected: Value) {
        expected["original"] = json!(text);
        let options = json!({"user_agent": {"field": "f", "extract_device_type": true}});
        check(options, json!({"f": text}), json!({"f": text, "user_agent": expected}));
    }

    #[test]
    fn results() {
        reads(
            "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_9_2) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/33.0.1750.149 Safari/537.36",
            json!({
                "name": "Chrome", "version": "33.0.1750.149",
                "os": {"name": "Mac OS X", "version": "10.9.2", "full": "Mac OS X 10.9.2"},
                "device": {"name": "Mac", "type": "Desktop"}
            }),
        );
        reads(
            "Mozilla/5.0 (iPhone; CPU iPhone OS 17_1 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.1 Mobile/15E148 Safari/604.1",
            json!({
                "name": "Mobile Safari", "version": "17.1", "os": {"name": "iOS", "version": "17.1", "full": "iOS 17.1"},
                "device": {"name": "iPhone", "type": "Phone"}
            }),
        );
        reads(
            "Mozilla/5.0 (Windows NT 10.0; Win64; x64; rv:120.0) Gecko/20100101 Firefox/120.0",
            json!({
                "name": "Firefox", "version": "120.0", "os": {"name": "Windows", "version": "10", "full": "Windows 10"},
                "device": {"name": "Other", "type": "Desktop"}
            }),
        );
        reads(
            "Mozilla/5.0 (Linux; Android 14; Pixel 8 Build/UD1A) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/119.0.0.0 Mobile Safari/537.36",
            json!({
                "name": "Chrome Mobile", "version": "119.0.0.0",
                "os": {"name": "Android", "version": "14", "full": "Android 14"},
                "device": {"name": "Pixel 8", "type": "Phone"}
            }),
        );
        reads(
            "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)",
            json!({"name": "Googlebot", "version": "2.1", "device": {"name": "Spider", "type": "Robot"}}),
        );
        reads(
            "curl/8.4.0",
            json!({"name": "curl", "version": "8.4.0", "device": {"name": "Other", "type": "Other"}}),
        );
        reads(
            "something ä",
            json!({"name": "Other", "device": {"name": "Other", "type": "Other"}}),
        );
    }

    #[test]
    fn options() {
        let options = json!({"user_agent": {"field": "f", "target_field": "u", "properties": ["NAME"]}});
        check(
            options,
            json!({"f": "Wget/1.0"}),
            json!({"f": "Wget/1.0", "u": {"name": "Wget"}}),
        );
        check(
            json!({"user_agent": {"field": "f", "ignore_missing": true}}),
            json!({}),
            json!({}),
        );
    }

    #[test]
    fn failures() {
        let options = json!({"user_agent": {"field": "f"}});
        fails(options.clone(), json!({}), "field [f] not present as part of path [f]");
        fails(
            options,
            json!({"f": null}),
            "field [f] is null, cannot parse user-agent.",
        );
    }
}
