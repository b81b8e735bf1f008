//! Conversion of the text of a setting to its value.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use firn_model::dates::parse_duration_ms;
use firn_model::settings::parse_bytes;

use super::definitions::{Definition, Kind};

/// A validated value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    /// Text, host or choice.
    Text(String),
    /// Port or count.
    Number(u64),
    /// A size.
    Bytes(u64),
    /// A part of something, 0 to 1.
    Share(f64),
    /// `None`: never.
    Duration(Option<Duration>),
    /// Path or paths.
    Paths(Vec<PathBuf>),
}

/// Parses `text` as the definition requires. The error says what is wrong with the value, without the setting's name.
pub(crate) fn check(definition: &Definition, text: &str) -> Result<Value, String> {
    let text = text.trim();
    match definition.kind {
        Kind::Text => nonempty(text).map(Value::Text),
        Kind::Host => host(text).map(Value::Text),
        Kind::Port => number(first_port(text), 0, u64::from(u16::MAX)).map(Value::Number),
        Kind::Path => Ok(Value::Paths(vec![PathBuf::from(nonempty(text)?)])),
        Kind::Paths => Ok(Value::Paths(paths(text))),
        Kind::Bytes(min, max) => {
            let bytes = bytes(text)?;
            if bytes < min || bytes > max {
                return Err(format!("[{text}] is out of bounds: {}", definition.kind.unit()));
            }
            Ok(Value::Bytes(bytes))
        }
        Kind::MemoryShare(min) => memory_share(text, min),
        Kind::BytesOrShare => bytes_or_share(text),
        Kind::Watermark => watermark(text),
        Kind::DurationOrNever if text == "-1" => Ok(Value::Duration(None)),
        Kind::Duration | Kind::DurationOrNever => parse_duration_ms(text)
            .map(|ms| Value::Duration(Some(Duration::from_millis(ms))))
            .map_err(|error| error.reason().to_owned()),
        Kind::Count(min, max) => number(text, min, max).map(Value::Number),
        Kind::Secret => nonempty(text).map(Value::Text),
        Kind::Choice(words) => {
            let lower = text.to_lowercase();
            if words.contains(&lower.as_str()) {
                Ok(Value::Text(lower))
            } else {
                Err(format!("[{text}] is not one of {}", words.join(", ")))
            }
        }
    }
}

fn nonempty(text: &str) -> Result<String, String> {
    if text.is_empty() {
        return Err("the value is empty".to_owned());
    }
    Ok(text.to_owned())
}

fn host(text: &str) -> Result<String, String> {
    let text = nonempty(text)?;
    let bare = text.trim_start_matches('[').trim_end_matches(']');
    if bare.parse::<IpAddr>().is_ok() || bare == "_local_" {
        return Ok(bare.to_owned());
    }
    let plain = bare
        .chars()
        .all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_'));
    if !plain {
        return Err(format!(
            "[{text}] is neither a host name nor an address (the port has its own setting, http.port)"
        ));
    }
    Ok(text)
}

/// Elasticsearch uses the first free port of a range such as `9200-9300`; firn uses the first.
fn first_port(text: &str) -> &str {
    match text.split_once('-') {
        Some((first, last)) if last.parse::<u16>().is_ok() => first,
        _ => text,
    }
}

fn number(text: &str, min: u64, max: u64) -> Result<u64, String> {
    let number: u64 = text
        .parse()
        .map_err(|_| format!("failed to parse value [{text}]: not a whole number from {min} to {max}"))?;
    if number < min {
        return Err(format!("failed to parse value [{text}]: must be >= {min}"));
    }
    if number > max {
        return Err(format!("failed to parse value [{text}]: must be <= {max}"));
    }
    Ok(number)
}

fn bytes(text: &str) -> Result<u64, String> {
    parse_bytes(text).map_err(|error| error.reason().to_owned())
}

fn percent(text: &str) -> Option<Result<f64, String>> {
    let number = text.strip_suffix('%')?;
    Some(match number.trim().parse::<f64>() {
        Ok(percent) if (0.0..=100.0).contains(&percent) => Ok(percent / 100.0),
        _ => Err(format!("[{text}] is not a percentage from 0% to 100%")),
    })
}

fn memory_share(text: &str, min: u64) -> Result<Value, String> {
    let bytes = match percent(text) {
        Some(share) => (share? * firn_tools::process::total_memory_bytes() as f64) as u64,
        None => bytes(text)?,
    };
    if bytes < min {
        return Err(format!("[{text}] is {bytes} bytes, and at least {min} are needed"));
    }
    Ok(Value::Bytes(bytes))
}

fn bytes_or_share(text: &str) -> Result<Value, String> {
    match percent(text) {
        Some(share) => share.map(Value::Share),
        None => bytes(text).map(Value::Bytes),
    }
}

fn watermark(text: &str) -> Result<Value, String> {
    if let Some(share) = percent(text) {
        return share.map(Value::Share);
    }
    match text.parse::<f64>() {
        Ok(ratio) if (0.0..=1.0).contains(&ratio) => Ok(Value::Share(ratio)),
        Ok(_) => Err(format!(
            "[{text}] is neither a ratio from 0 to 1, a percentage, nor a size with its unit"
        )),
        Err(_) => bytes(text).map(Value::Bytes),
    }
}

fn paths(text: &str) -> Vec<PathBuf> {
    text.split(',')
        .map(str::trim)
        .filter(|path| !path.is_empty())
        .map(PathBuf::from)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::definitions::find;

    fn check_setting(name: &str, text: &str) -> Result<Value, String> {
        check(find(name).expect("a defined setting"), text)
    }

    #[test]
    fn reads_values() {
        let check = |name: &str, text: &str, expect: Value| assert_eq!(check_setting(name, text), Ok(expect), "{name}");
        check("http.port", " 9201 ", Value::Number(9201));
        check("http.port", "9200-9300", Value::Number(9200));
        check("http.host", "[::1]", Value::Text("::1".to_owned()));
        check("http.max_content_length", "10mb", Value::Bytes(10 << 20));
        check(
            "cluster.routing.allocation.disk.watermark.flood_stage",
            "97%",
            Value::Share(0.97),
        );
        check(
            "cluster.routing.allocation.disk.watermark.flood_stage",
            "0.9",
            Value::Share(0.9),
        );
        check(
            "cluster.routing.allocation.disk.watermark.flood_stage",
            "5gb",
            Value::Bytes(5 << 30),
        );
        check(
            "xpack.searchable.snapshot.shared_cache.size",
            "2.5%",
            Value::Share(0.025),
        );
        check(
            "xpack.searchable.snapshot.shared_cache.size",
            "8gb",
            Value::Bytes(8 << 30),
        );
        check("index.search.slowlog.threshold.query.warn", "-1", Value::Duration(None));
        check(
            "index.search.slowlog.threshold.query.warn",
            "30s",
            Value::Duration(Some(Duration::from_secs(30))),
        );
        check("logger.level", "WARN", Value::Text("warn".to_owned()));
        check(
            "path.repo",
            "/a, /b",
            Value::Paths(vec![PathBuf::from("/a"), PathBuf::from("/b")]),
        );
    }

    #[test]
    fn refuses_values() {
        let check = |name: &str, text: &str, part: &str| {
            let error = check_setting(name, text).expect_err("a refused value");
            assert!(error.contains(part), "{name}={text}: {error}");
        };
        check("http.port", "65536", "must be <= 65535");
        check("http.port", "http", "not a whole number");
        check("http.host", "127.0.0.1:9200", "http.port");
        check("http.max_content_length", "1b", "out of bounds");
        check("http.max_content_length", "ten", "ten");
        check("search.max_buckets", "0", "must be >= 1");
        check("xpack.searchable.snapshot.shared_cache.size", "101%", "percentage");
        check("xpack.searchable.snapshot.shared_cache.size", "many", "many");
        check("logger.level", "loud", "not one of error, warn");
        check("cluster.name", "", "empty");
        check(
            "cluster.routing.allocation.disk.watermark.flood_stage",
            "120%",
            "percentage",
        );
        check("cluster.routing.allocation.disk.watermark.flood_stage", "95", "ratio");
        check("indices.memory.index_buffer_size", "1mb", "at least");
    }
}
