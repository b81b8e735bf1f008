//! The files of the console, and the form of each that a client takes.

use http::{HeaderMap, header};

/// A file, and what it is compressed.
#[derive(Debug, Clone, Copy)]
pub struct Asset {
    /// Below `/app/`, with `/` between its parts.
    pub path: &'static str,
    /// Changes when the file does.
    pub tag: &'static str,
    /// As it is.
    pub plain: &'static [u8],
    /// The same in gzip, if that is smaller.
    pub gzip: Option<&'static [u8]>,
    /// The same in brotli, if that is smaller.
    pub brotli: Option<&'static [u8]>,
}

/// The files of the console by their paths. Whoever was built without it has none.
#[derive(Debug, Clone, Copy, Default)]
pub struct Assets(&'static [Asset]);

/// A form of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Form {
    pub(super) bytes: &'static [u8],
    /// For `Content-Encoding`; `None`: as it is.
    pub(super) encoding: Option<&'static str>,
}

impl Assets {
    /// Of files sorted by their paths.
    pub const fn new(files: &'static [Asset]) -> Self {
        Self(files)
    }

    /// Whether there is none.
    pub fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    /// The file of a path. Nothing but such a path leads to a file.
    pub(super) fn get(self, path: &str) -> Option<&'static Asset> {
        let at = self.0.binary_search_by(|asset| asset.path.cmp(path)).ok()?;
        self.0.get(at)
    }
}

impl Asset {
    /// The smallest form that the client takes.
    pub(super) fn form(&self, headers: &HeaderMap) -> Form {
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

    /// `ETag` of a form: two forms are not the same bytes, and so have not the same tag.
    pub(super) fn etag(&self, form: Form) -> String {
        match form.encoding {
            None => format!("\"{}\"", self.tag),
            Some(encoding) => format!("\"{}-{encoding}\"", self.tag),
        }
    }

    /// For `Content-Type`.
    pub(super) fn content_type(&self) -> &'static str {
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

/// Whether `Accept-Encoding` names a coding and does not refuse it.
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
    fn each_form_has_a_tag_of_its_own() {
        let of = |encoding| ASSET.etag(Form { bytes: b"", encoding });
        assert_eq!((of(None), of(Some("br"))), ("\"1\"".to_owned(), "\"1-br\"".to_owned()));
    }
}
