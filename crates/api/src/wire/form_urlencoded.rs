//! Parser of bodies that browsers send natively: `application/x-www-form-urlencoded` as in WHATWG's URL standard.

use firn_engine::Result;

use crate::wire::params;

/// Returns the decoded value of a field; of several the first.
pub(crate) fn field(body: &str, name: &str) -> Result<Option<String>> {
    for pair in body.split('&') {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        if params::decode(key, true)? == name {
            return params::decode(value, true).map(Some);
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_by_name() {
        let body = "csrf=a%2Bb&request=%7B%22q%22%3A%22a+b%26%C3%A9%22%7D&csrf=c&empty";
        assert_eq!(field(body, "request").unwrap().as_deref(), Some("{\"q\":\"a b&é\"}"));
        assert_eq!(field(body, "csrf").unwrap().as_deref(), Some("a+b"));
        assert_eq!(field(body, "empty").unwrap().as_deref(), Some(""));
        assert_eq!(field(body, "missing").unwrap(), None);
        assert!(field("a=%f", "a").is_err());
    }
}
