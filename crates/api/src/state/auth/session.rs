//! Session cookie of a request, and protection against cross-site requests.
//!
//! The browser adds the cookie automatically, so the cookie alone does not prove which page sent a request. A request
//! that may change something must also carry the CSRF token of the session, which only pages of this server can read.
//! If the browser marks a request as cross-site, it is refused in any case.
//!
//! All windows of a browser share the cookie, but not what they show: one window may have signed in as another user or
//! taken a tenant view. A token belongs to one session with one view. So a request with a token runs with the view that
//! its page shows, or is refused.

use firn_auth::{Control, SessionToken, SignedIn, View};
use firn_engine::{Error, ErrorKind};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};

use super::refusals::unauthenticated;
use crate::wire::error::ApiError;
use crate::wire::form_urlencoded;
use crate::wire::media_type::is_form;

/// Path of the sessions API.
pub(crate) const SESSION_PATH: &str = "/_firn/session";
/// Header with the CSRF token of the session.
pub(crate) const CSRF_HEADER: &str = "x-firn-csrf";
/// The same in a form that a page sends.
const CSRF_FIELD: &str = "csrf";
/// Header in which browsers state the origin of a request.
const FETCH_SITE: &str = "sec-fetch-site";
const FETCH_MODE: &str = "sec-fetch-mode";
/// Type of the error after which a page must reload the session and its view.
const CHANGED: &str = "session_changed_exception";

/// Session of a request.
#[derive(Debug, Clone)]
pub(crate) struct OfSession {
    pub(crate) token: SessionToken,
    pub(crate) signed_in: SignedIn,
}

/// Session cookies as this server sets and reads them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cookies {
    /// Only over TLS: then the browser guarantees that no other host and no plain HTTP sets the cookie.
    pub(crate) is_secure: bool,
}

impl Cookies {
    fn name(self) -> &'static str {
        match self.is_secure {
            true => "__Host-firn_session",
            false => "firn_session",
        }
    }

    /// Creates the header that sets the cookie of a session with at most this lifetime.
    pub(crate) fn set(self, token: &SessionToken, seconds: u64) -> Option<HeaderValue> {
        self.print(token.as_str(), seconds)
    }

    /// Creates the header that deletes the cookie.
    pub(crate) fn clear(self) -> Option<HeaderValue> {
        self.print("", 0)
    }

    fn print(self, value: &str, seconds: u64) -> Option<HeaderValue> {
        let secure = if self.is_secure { "; Secure" } else { "" };
        let text = format!(
            "{}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}",
            self.name()
        );
        HeaderValue::from_str(&text).ok()
    }

    /// Returns the session cookie of a request. Several cookies are an error, because another party set one of them.
    fn of(self, headers: &HeaderMap) -> Result<Option<&str>, Error> {
        let mut found = None;
        let values = headers.get_all(header::COOKIE).iter();
        for pair in values
            .filter_map(|value| value.to_str().ok())
            .flat_map(|value| value.split(';'))
        {
            let Some((name, value)) = pair.split_once('=') else {
                continue;
            };
            if name.trim() == self.name() && found.replace(value.trim()).is_some() {
                return Err(unauthenticated(
                    "more than one session cookie in the request".to_owned(),
                    None,
                ));
            }
        }
        Ok(found)
    }

    /// Returns the session of a request without other credentials; `None` without a session cookie.
    pub(super) fn session(self, control: &Control, parts: &Parts) -> Result<Option<OfSession>, Error> {
        let Some(cookie) = self.of(&parts.headers)? else {
            return Ok(None);
        };
        let found = SessionToken::parse(cookie).and_then(|token| {
            let signed_in = control.session(&token)?;
            Some(OfSession { token, signed_in })
        });
        match found {
            Some(session) => Ok(Some(session)),
            None => Err(unauthenticated("the session has ended, sign in again".to_owned(), None)),
        }
    }

    /// Returns the session that a new sign-in replaces, if there is one.
    pub(super) fn replaced(self, control: &Control, parts: &Parts) -> Option<OfSession> {
        self.session(control, parts).ok().flatten()
    }
}

/// Returns whether a 401 may trigger the browser's own credentials dialog: for programs and typed addresses, never for
/// a page with a sign-in form.
pub(crate) fn takes_challenge(cookies: Cookies, parts: &Parts) -> bool {
    let mode = parts.headers.get(FETCH_MODE).map(HeaderValue::as_bytes);
    let is_of_page = mode.is_some_and(|mode| mode != b"navigate")
        || parts.headers.contains_key(CSRF_HEADER)
        || parts.uri.path().starts_with(SESSION_PATH)
        || !matches!(cookies.of(&parts.headers), Ok(None));
    !is_of_page
}

/// Refuses requests from pages of other sites.
pub(super) fn check_site(parts: &Parts) -> Result<(), Error> {
    match parts.headers.get(FETCH_SITE).map(HeaderValue::as_bytes) {
        None | Some(b"same-origin" | b"none") => Ok(()),
        Some(site) => Err(refused(format!(
            "cross-site request ([{FETCH_SITE}: {}]): sessions are for pages of this server only",
            String::from_utf8_lossy(site)
        ))),
    }
}

/// Where the CSRF token of a request is checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Csrf {
    /// Already checked, or not needed.
    Settled,
    /// In the form that is the body.
    InForm,
}

impl OfSession {
    /// Returns the tenant view of the session.
    pub(crate) fn view(&self) -> Option<&View> {
        self.signed_in.session.view.as_ref()
    }

    /// Returns the CSRF token for pages of this session and view.
    pub(crate) fn csrf(&self) -> String {
        self.token.csrf(self.view().map(|view| &view.tenant))
    }

    /// Checks the head of a request against the session. `only_reads`: GET and HEAD change nothing at its endpoint.
    pub(crate) fn check_head(&self, parts: &Parts, only_reads: bool) -> Result<Csrf, ApiError> {
        check_site(parts)?;
        let looks = matches!(parts.method, Method::GET | Method::HEAD) && only_reads;
        match parts.headers.get(CSRF_HEADER) {
            Some(token) => self.check_token(token.to_str().ok()).map(|()| Csrf::Settled),
            None if looks => Ok(Csrf::Settled),
            None if is_form(&parts.headers) => Ok(Csrf::InForm),
            None => Err(self.no_token().into()),
        }
    }

    /// Checks a form against the session.
    pub(crate) fn check_form(&self, form: &[u8]) -> Result<(), ApiError> {
        let text = std::str::from_utf8(form).unwrap_or("");
        match form_urlencoded::field(text, CSRF_FIELD)? {
            Some(token) => self.check_token(Some(&token)),
            None => Err(self.no_token().into()),
        }
    }

    fn check_token(&self, token: Option<&str>) -> Result<(), ApiError> {
        let view = self.view().map(|view| &view.tenant);
        match token.is_some_and(|token| self.token.is_csrf(view, token)) {
            true => Ok(()),
            false => Err(ApiError::Rest {
                status: StatusCode::FORBIDDEN,
                error_type: CHANGED,
                reason: format!(
                    "the [{CSRF_HEADER}] does not match the session: another window signed in or changed the \
                     view; GET {} shows the current session",
                    SESSION_PATH
                ),
            }),
        }
    }

    fn no_token(&self) -> Error {
        refused(format!(
            "a request that may change something needs the header [{CSRF_HEADER}] with the session's [csrf]"
        ))
    }
}

fn refused(reason: String) -> Error {
    Error::new(ErrorKind::Forbidden, reason)
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    fn parts(headers: &[(&str, &str)]) -> Parts {
        let mut request = Request::builder().uri("/_search");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(()).unwrap().into_parts().0
    }

    #[test]
    fn the_cookie_is_found_among_others_and_once() {
        let check = |is_secure: bool, cookies: &[&str]| {
            let headers: Vec<_> = cookies.iter().map(|cookie| ("cookie", *cookie)).collect();
            let parts = parts(&headers);
            let found = Cookies { is_secure }.of(&parts.headers);
            found
                .map(|found| found.map(str::to_owned))
                .map_err(|error| error.kind())
        };
        assert_eq!(check(false, &[]), Ok(None));
        assert_eq!(check(false, &["a=b; firn_session=x; c"]), Ok(Some("x".to_owned())));
        assert_eq!(check(false, &["a=b", "firn_session=x=y"]), Ok(Some("x=y".to_owned())));
        assert_eq!(check(false, &["not_firn_session=x; firn_session2=y"]), Ok(None));
        assert_eq!(
            check(false, &["firn_session=x; firn_session=x"]),
            Err(ErrorKind::Unauthenticated)
        );
        assert_eq!(check(true, &["firn_session=x"]), Ok(None), "set without TLS");
        assert_eq!(
            check(true, &["firn_session=y; __Host-firn_session=x"]),
            Ok(Some("x".to_owned()))
        );
    }

    #[test]
    fn cookies_are_hidden_from_pages_and_other_sites() {
        let token = SessionToken::parse(&"a".repeat(43)).unwrap();
        let set = |is_secure| Cookies { is_secure }.set(&token, 60).unwrap();
        let value = "a".repeat(43);
        assert_eq!(
            set(false),
            format!("firn_session={value}; Path=/; Max-Age=60; HttpOnly; SameSite=Strict").as_str()
        );
        assert_eq!(
            set(true),
            format!("__Host-firn_session={value}; Path=/; Max-Age=60; HttpOnly; SameSite=Strict; Secure").as_str()
        );
        let clear = Cookies { is_secure: false }.clear().unwrap();
        assert_eq!(clear, "firn_session=; Path=/; Max-Age=0; HttpOnly; SameSite=Strict");
    }

    #[test]
    fn only_pages_without_a_form_trigger_the_browser_dialog() {
        let cookies = Cookies { is_secure: false };
        let check = |headers: &[(&str, &str)]| takes_challenge(cookies, &parts(headers));
        assert!(check(&[]));
        assert!(check(&[("authorization", "Basic x")]));
        assert!(check(&[("sec-fetch-mode", "navigate")]));
        assert!(!check(&[("sec-fetch-mode", "cors")]));
        assert!(!check(&[("x-firn-csrf", "x")]));
        assert!(!check(&[("cookie", "firn_session=x"), ("sec-fetch-mode", "navigate")]));
        assert!(check(&[("cookie", "theirs=x")]));
        let mut of_sessions = parts(&[]);
        of_sessions.uri = "/_firn/session".parse().unwrap();
        assert!(!takes_challenge(cookies, &of_sessions));
    }

    #[test]
    fn other_sites_are_refused() {
        let check = |site: &str| check_site(&parts(&[("sec-fetch-site", site)])).is_ok();
        assert!(check("same-origin") && check("none") && check_site(&parts(&[])).is_ok());
        assert!(!check("cross-site") && !check("same-site") && !check(""));
    }

    #[test]
    fn forms_are_distinguished_from_other_bodies() {
        let check = |kind: &str| is_form(&parts(&[("content-type", kind)]).headers);
        assert!(check("Application/X-WWW-Form-Urlencoded; charset=UTF-8"));
        assert!(!check("application/json") && !check("") && !is_form(&parts(&[]).headers));
    }
}
