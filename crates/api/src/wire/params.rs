//! URL parameters: decoded once, checked against the parameters of the endpoint, read with their types.

use std::time::Duration;

use firn_engine::{Error, Result};
use firn_model::names::IndicesOptions;
use firn_query::search::IndexTarget;

/// Maximum number of parameters, more than any request needs.
const MAX_PARAMETERS: usize = 256;

/// Parameters of every endpoint.
pub(crate) const COMMON: &[&str] = &[
    "pretty",
    "human",
    "error_trace",
    "filter_path",
    "format",
    "source",
    "source_content_type",
];

/// Parameters that control how an index expression is resolved.
pub(crate) const INDICES: &[&str] = &[
    "ignore_unavailable",
    "allow_no_indices",
    "expand_wildcards",
    "ignore_throttled",
];

/// Parameters of every change of metadata. One node decides alone, so there is nothing to wait for.
pub(crate) const MASTER: &[&str] = &["timeout", "master_timeout", "cluster_manager_timeout", "local"];

/// Decoded parameters in the order of the URL. If a name occurs twice, the last value counts.
#[derive(Debug, Clone, Default)]
pub(crate) struct Params(Vec<(String, String)>);

impl Params {
    /// Parses the part after the `?`.
    pub(crate) fn parse(query: Option<&str>) -> Result<Self> {
        let mut params = Vec::new();
        for part in query.unwrap_or("").split('&').filter(|part| !part.is_empty()) {
            if params.len() == MAX_PARAMETERS {
                return Err(Error::illegal_argument(format!(
                    "too many url parameters, at most [{MAX_PARAMETERS}] are allowed"
                )));
            }
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            params.push((decode(name, true)?, decode(value, true)?));
        }
        Ok(Self(params))
    }

    /// Refuses every name that is not in one of the lists.
    pub(crate) fn check(&self, path: &str, lists: &[&[&str]]) -> Result<()> {
        let known = || lists.iter().copied().flatten().chain(COMMON).copied();
        let unknown: Vec<&str> = self
            .0
            .iter()
            .map(|(name, _)| name.as_str())
            .filter(|name| !known().any(|candidate| candidate == *name))
            .collect();
        if unknown.is_empty() {
            return Ok(());
        }
        let mut reason = format!(
            "request [{path}] contains unrecognized parameter{}: ",
            if unknown.len() == 1 { "" } else { "s" }
        );
        for (number, name) in unknown.iter().enumerate() {
            if number > 0 {
                reason.push_str(", ");
            }
            reason.push_str(&format!("[{name}]{}", did_you_mean(name, known())));
        }
        Err(Error::illegal_argument(reason))
    }

    /// Returns the last value of a name.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0
            .iter()
            .rev()
            .find(|(candidate, _)| candidate == name)
            .map(|(_, value)| value.as_str())
    }

    /// Returns a flag; present without a value means true.
    pub(crate) fn flag(&self, name: &str) -> Result<Option<bool>> {
        match self.get(name) {
            None => Ok(None),
            Some("true" | "") => Ok(Some(true)),
            Some("false") => Ok(Some(false)),
            Some(other) => Err(Error::illegal_argument(format!(
                "Failed to parse value [{other}] as only [true] or [false] are allowed."
            ))),
        }
    }

    /// Returns a flag with a default.
    pub(crate) fn bool(&self, name: &str, default: bool) -> Result<bool> {
        Ok(self.flag(name)?.unwrap_or(default))
    }

    /// Returns a number.
    pub(crate) fn number<T: std::str::FromStr>(&self, name: &str) -> Result<Option<T>> {
        self.get(name)
            .map(|text| {
                text.parse().map_err(|_| {
                    Error::illegal_argument(format!("Failed to parse int parameter [{name}] with value [{text}]"))
                })
            })
            .transpose()
    }

    /// Returns a time value (`30s`); `-1` means none.
    pub(crate) fn duration(&self, name: &str) -> Result<Option<Duration>> {
        match self.get(name) {
            None | Some("-1") => Ok(None),
            Some("0") => Ok(Some(Duration::ZERO)),
            Some(text) => firn_model::dates::parse_duration_ms(text)
                .map(|ms| Some(Duration::from_millis(ms)))
                .map_err(|error| {
                    Error::illegal_argument(format!(
                        "failed to parse setting [{name}] with value [{text}] as a time value"
                    ))
                    .caused_by(error)
                }),
        }
    }

    /// Returns a comma-separated list without empty parts.
    pub(crate) fn list(&self, name: &str) -> Option<Vec<String>> {
        self.get(name).map(split_list)
    }

    /// Applies `ignore_unavailable`, `allow_no_indices` and `expand_wildcards` over the defaults of an endpoint.
    pub(crate) fn indices_options(&self, mut options: IndicesOptions) -> Result<IndicesOptions> {
        if let Some(value) = self.flag("ignore_unavailable")? {
            options.ignore_unavailable = value;
        }
        if let Some(value) = self.flag("allow_no_indices")? {
            options.allow_no_indices = value;
        }
        self.flag("ignore_throttled")?;
        if let Some(states) = self.get("expand_wildcards") {
            set_expand_wildcards(&mut options, states.split(','))?;
        }
        Ok(options)
    }

    /// Builds a target from the index expression of the path and the parameters.
    pub(crate) fn target(&self, expression: Option<&str>, defaults: IndicesOptions) -> Result<IndexTarget> {
        Ok(IndexTarget {
            expression: expression.map(split_list).unwrap_or_default(),
            options: self.indices_options(defaults)?,
        })
    }
}

/// Applies `expand_wildcards`: later names add states, `none` removes all.
pub(crate) fn set_expand_wildcards<'a>(
    options: &mut IndicesOptions,
    states: impl IntoIterator<Item = &'a str>,
) -> Result<()> {
    options.expand_open = false;
    options.expand_closed = false;
    options.expand_hidden = false;
    for state in states {
        match state.trim() {
            "open" => options.expand_open = true,
            "closed" => options.expand_closed = true,
            "hidden" => options.expand_hidden = true,
            "all" => {
                options.expand_open = true;
                options.expand_closed = true;
                options.expand_hidden = true;
            }
            "none" => {
                options.expand_open = false;
                options.expand_closed = false;
                options.expand_hidden = false;
            }
            other => {
                return Err(Error::illegal_argument(format!(
                    "No valid expand wildcard value [{other}]"
                )));
            }
        }
    }
    Ok(())
}

/// Options for open and closed indices, the default of most administrative endpoints.
pub(crate) fn open_and_closed() -> IndicesOptions {
    IndicesOptions {
        expand_closed: true,
        ..IndicesOptions::default()
    }
}

/// Options for all indices.
pub(crate) fn all_indices() -> IndicesOptions {
    IndicesOptions {
        expand_closed: true,
        expand_hidden: true,
        ..IndicesOptions::default()
    }
}

/// Splits at commas and drops empty parts.
pub(crate) fn split_list(text: &str) -> Vec<String> {
    text.split(',')
        .map(str::trim)
        .filter(|part| !part.is_empty())
        .map(str::to_owned)
        .collect()
}

/// Returns ` -> did you mean [x]?`, or an empty text.
pub(crate) fn did_you_mean<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> String {
    let mut scored: Vec<(f64, &str)> = known
        .map(|candidate| (strsim::normalized_damerau_levenshtein(name, candidate), candidate))
        .filter(|(score, _)| *score > 0.5)
        .collect();
    scored.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(b.1)));
    scored.dedup_by_key(|(_, candidate)| *candidate);
    let names: Vec<&str> = scored.into_iter().map(|(_, candidate)| candidate).collect();
    match names.as_slice() {
        [] => String::new(),
        [one] => format!(" -> did you mean [{one}]?"),
        several => format!(" -> did you mean any of [{}]?", several.join(", ")),
    }
}

/// Decodes percent encoding. `plus_is_space` only for queries.
pub(crate) fn decode(text: &str, plus_is_space: bool) -> Result<String> {
    let bytes = text.as_bytes();
    if !bytes.iter().any(|byte| matches!(byte, b'%' | b'+')) {
        return Ok(text.to_owned());
    }
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b'+' if plus_is_space => decoded.push(b' '),
            b'%' => {
                let digits = bytes.get(at + 1..at + 3).and_then(|digits| {
                    let high = char::from(digits[0]).to_digit(16)?;
                    let low = char::from(digits[1]).to_digit(16)?;
                    Some((high * 16 + low) as u8)
                });
                let Some(byte) = digits else {
                    return Err(Error::illegal_argument(format!(
                        "invalid escape sequence at index [{at}] in [{text}]"
                    )));
                };
                decoded.push(byte);
                at += 2;
            }
            byte => decoded.push(byte),
        }
        at += 1;
    }
    String::from_utf8(decoded).map_err(|_| Error::illegal_argument(format!("[{text}] does not decode to valid UTF-8")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decodes_and_refuses() {
        assert_eq!(decode("a%20b+c", true).unwrap(), "a b c");
        assert_eq!(decode("a+b", false).unwrap(), "a+b");
        assert_eq!(decode("%3Clogs-%7Bnow%2Fd%7D%3E", false).unwrap(), "<logs-{now/d}>");
        assert!(decode("%4", false).is_err());
        assert!(decode("%ff", false).is_err());
    }

    #[test]
    fn names_unknown_parameters() {
        let params = Params::parse(Some("siez=1&q=a")).unwrap();
        let error = params.check("/_search", &[&["size", "q"]]).unwrap_err();
        assert_eq!(
            error.reason(),
            "request [/_search] contains unrecognized parameter: [siez] -> did you mean [size]?"
        );
    }
}
