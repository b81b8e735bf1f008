//! Parser of the `Authorization` header.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use firn_auth::Credentials;
use http::{HeaderMap, header};

/// Maximum length: longer than any password or key that firn accepts, encoded.
const BYTES_MAX: usize = 8 << 10;

/// Returns the credentials of a request; `None` if there is no header, or one of an unsupported scheme.
pub(super) fn credentials(headers: &HeaderMap) -> Result<Option<Credentials>, &'static str> {
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    let Some(value) = values.next() else {
        return Ok(None);
    };
    // A proxy in front of firn may have checked the other header.
    if values.next().is_some() {
        return Err("more than one [Authorization] header in the request");
    }
    if value.len() > BYTES_MAX {
        return Err("the [Authorization] header is too long");
    }
    let Ok(value) = value.to_str() else {
        return Ok(None);
    };
    let (scheme, rest) = value.split_once(' ').unwrap_or((value, ""));
    if scheme.eq_ignore_ascii_case("basic") {
        let text = decode(rest).ok_or("invalid basic authentication header encoding")?;
        let (name, password) = text
            .split_once(':')
            .ok_or("invalid basic authentication header value")?;
        return Ok(Some(Credentials::Password {
            name: name.to_owned(),
            password: password.to_owned(),
        }));
    }
    // Shippers that speak Splunk's HTTP Event Collector send the key as their token.
    if scheme.eq_ignore_ascii_case("apikey") || scheme.eq_ignore_ascii_case("splunk") {
        let text = decode(rest).ok_or("invalid ApiKey value")?;
        let (id, secret) = text.split_once(':').ok_or("invalid ApiKey value")?;
        return Ok(Some(Credentials::ApiKey {
            id: id.to_owned(),
            secret: secret.to_owned(),
        }));
    }
    Ok(None)
}

fn decode(text: &str) -> Option<String> {
    let bytes = STANDARD.decode(text.trim()).ok()?;
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(value: &str) -> Result<Option<Credentials>, &'static str> {
        let mut headers = HeaderMap::new();
        headers.append(header::AUTHORIZATION, value.parse().unwrap());
        credentials(&headers)
    }

    #[test]
    fn reads_both_schemes_in_any_case() {
        let password = Credentials::Password {
            name: "me".to_owned(),
            password: "a:b".to_owned(),
        };
        let encoded = STANDARD.encode("me:a:b");
        assert_eq!(check(&format!("Basic {encoded}")), Ok(Some(password.clone())));
        assert_eq!(check(&format!("bASIC  {encoded} ")), Ok(Some(password)));
        let key = Credentials::ApiKey {
            id: "id".to_owned(),
            secret: "secret".to_owned(),
        };
        assert_eq!(
            check(&format!("Splunk {}", STANDARD.encode("id:secret"))),
            Ok(Some(key.clone()))
        );
        assert_eq!(
            check(&format!("ApiKey {}", STANDARD.encode("id:secret"))),
            Ok(Some(key))
        );
    }

    #[test]
    fn malformed_headers_are_refused_with_a_reason() {
        assert_eq!(check("Bearer abc"), Ok(None));
        assert_eq!(check("Basic"), Err("invalid basic authentication header value"));
        assert_eq!(check("Basic ###"), Err("invalid basic authentication header encoding"));
        assert_eq!(check("ApiKey bm9jb2xvbg=="), Err("invalid ApiKey value"));
        assert_eq!(check("ApiKey /w=="), Err("invalid ApiKey value"));
        let long = format!("Basic {}", "a".repeat(BYTES_MAX));
        assert_eq!(check(&long), Err("the [Authorization] header is too long"));
        let mut headers = HeaderMap::new();
        headers.append(header::AUTHORIZATION, "Basic YTpi".parse().unwrap());
        headers.append(header::AUTHORIZATION, "Basic YTpi".parse().unwrap());
        assert!(credentials(&headers).is_err());
    }
}
