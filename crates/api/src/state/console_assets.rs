//! Files of the console, and the selection of an encoding that a client accepts.

use http::{HeaderMap, header};

/// File with its compressed forms.
#[derive(Debug, Clone, Copy)]
pub struct Asset {
    /// Path below `/app/`, with `/` between its parts.
    pub path: &'static str,
    /// Tag that changes with the content.
    pub tag: &'static str,
    /// Uncompressed content.
    pub plain: &'static [u8],
    /// Gzip form, if it is smaller.
    pub gzip: Option<&'static [u8]>,
    /// Brotli form, if it is smaller.
    pub brotli: Option<&'static [u8]>,
}

/// Files of the console by path; empty in a binary that was built without the console.
#[derive(Debug, Clone, Copy, Default)]
pub struct Assets(&'static [Asset]);

/// Form of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Form {
    pub(crate) bytes: &'static [u8],
    /// Value of `Content-Encoding`; `None`: uncompressed.
    pub(crate) encoding: Option<&'static str>,
}

impl Assets {
    /// Creates the set from files sorted by path.
    pub const fn new(files: &'static [Asset]) -> Self {
        Self(files)
    }

    /// Returns whether the set is empty.
    pub fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    /// Returns the file with exactly this path.
    pub(crate) fn get(self, path: &str) -> Option<&'static Asset> {
        let at = self.0.binary_search_by(|asset| asset.path.cmp(path)).ok()?;
        self.0.get(at)
    }
}

impl Asset {
    /// Returns the smallest form that the client accepts.
    pub(crate) fn form(&self, headers: &HeaderMap) -> Form {
        let forms = [("br", self.brotli), ("gzip", self.gzip)];
        let taken = forms
            .into_iter()
            .find_map(|(coding, bytes)| Some((coding, bytes?)).filter(|_| accepts(headers, coding)));
        match taken {
            Some((coding, bytes)) => Form {
                bytes,
                encoding: Some(coding),
            },
            None => Form {
                bytes: self.plain,
                encoding: None,
            },
        }
    }

    /// Returns the `ETag` of a form: two forms have different bytes, and so different tags.
    pub(crate) fn etag(&self, form: Form) -> String {
        match form.encoding {
            None => format!("\"{}\"", self.tag),
            Some(encoding) => format!("\"{}-{encoding}\"", self.tag),
        }
    }

    /// Returns the `Content-Type`.
    pub(crate) fn content_type(&self) -> &'static str {
        match self.path.rsplit('.').next().unwrap_or("") {
            "html" => "text/html; charset=utf-8",
            "js" | "mjs" => "text/javascript; charset=utf-8",
            "css" => "text/css; charset=utf-8",
            "json" => "application/json",
            "webmanifest" => "application/manifest+json",
            "svg" => "image/svg+xml",
            "png" => "image/png",
            "ico" => "image/x-icon",
            "woff2" => "font/woff2",
            "wasm" => "application/wasm",
            "txt" => "text/plain; charset=utf-8",
            _ => "application/octet-stream",
        }
    }
}

/// Returns whether `Accept-Encoding` names a coding and does not refuse it.
fn accepts(headers: &HeaderMap, coding: &str) -> bool {
    let quality = |text: &str, name: &str| {
        let mut parts = text.split(';').map(str::trim);
        let is_it = parts.next().is_some_and(|first| first.eq_ignore_ascii_case(name));
        let quality = parts.find_map(|part| part.strip_prefix("q=")?.parse::<f32>().ok());
        is_it.then(|| quality.unwrap_or(1.0))
    };
    let values = headers.get_all(header::ACCEPT_ENCODING).iter();
    let codings: Vec<&str> = values
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(str::trim)
        .collect();
    let of = |name: &str| codings.iter().find_map(|text| quality(text, name));
    of(coding).or_else(|| of("*")).is_some_and(|quality| quality > 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ASSET: Asset = Asset {
        path: "assets/a.js",
        tag: "1",
        plain: b"plain",
        gzip: Some(b"gzip"),
        brotli: Some(b"br"),
    };

    #[test]
    fn the_smallest_form_that_is_taken() {
        let check = |accept: &str, expect: Option<&str>| {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT_ENCODING, accept.parse().unwrap());
            let form = ASSET.form(&headers);
            assert_eq!(form.encoding, expect, "{accept}");
        };
        check("gzip, deflate, br, zstd", Some("br"));
        check("gzip", Some("gzip"));
        check("GZIP;q=0.5", Some("gzip"));
        check("br;q=0, gzip", Some("gzip"));
        check("*", Some("br"));
        check("*;q=0", None);
        check("br;q=0.0, *", Some("gzip"));
        check("identity", None);
        check("", None);
        assert_eq!(ASSET.form(&HeaderMap::new()).bytes, b"plain");
        let only_plain = Asset {
            gzip: None,
            brotli: None,
            ..ASSET
        };
        let mut headers = HeaderMap::new();
        headers.insert(header::ACCEPT_ENCODING, "gzip, br".parse().unwrap());
        assert_eq!(only_plain.form(&headers).encoding, None);
    }

    #[test]
    fn each_form_has_a_different_tag() {
        let of = |encoding| ASSET.etag(Form { bytes: b"", encoding });
        assert_eq!((of(None), of(Some("br"))), ("\"1\"".to_owned(), "\"1-br\"".to_owned()));
    }
}
