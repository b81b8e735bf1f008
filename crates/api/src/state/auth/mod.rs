//! Authentication of requests: from `Authorization` or a session cookie to an identity, or to a 401.
//!
//! API keys and recently verified passwords are checked at once. A password that must be hashed moves to a blocking
//! thread, few at a time. After wrong attempts for the same name, the check waits in a queue.

mod header;
mod password_queue;
mod refusals;
mod revocation;
mod session;

use std::sync::Arc;
use std::time::Instant;

use firn_auth::{Attempt, Authentication, Control, Credentials, Identity, PasswordCheck};
use firn_engine::Error;
use http::header::AUTHORIZATION;
use http::request::Parts;
use tokio::sync::Semaphore;

pub(crate) use self::password_queue::Origin;
use self::password_queue::{PasswordQueue, QueuePlace};
use self::refusals::{too_many, unauthenticated};
use crate::wire::peer::Peer;

pub(crate) use revocation::Revocation;
pub(crate) use session::{Cookies, Csrf, OfSession, SESSION_PATH, takes_challenge};

/// Maximum concurrent password hashes: each takes a core and 19 MiB.
const CHECKS_AT_A_TIME: usize = 2;
/// Queues and limits between the credentials of a request and their check.
#[derive(Debug)]
pub(crate) struct Gate {
    pub(crate) cookies: Cookies,
    checks: Semaphore,
    passwords: PasswordQueue,
    /// Separate queues for API keys: attackers can invent key ids faster than they learn user names, and must not block
    /// users.
    keys: PasswordQueue,
}

/// Authenticated caller.
#[derive(Debug)]
pub(crate) struct Known {
    pub(crate) identity: Arc<Identity>,
    /// Session of the request.
    pub(crate) session: Option<OfSession>,
}

impl From<Arc<Identity>> for Known {
    fn from(identity: Arc<Identity>) -> Self {
        Self {
            identity,
            session: None,
        }
    }
}

impl Gate {
    /// Creates the gate of a server with or without TLS.
    pub(crate) fn new(is_secure: bool) -> Self {
        Self {
            cookies: Cookies { is_secure },
            checks: Semaphore::new(CHECKS_AT_A_TIME),
            passwords: PasswordQueue::default(),
            keys: PasswordQueue::default(),
        }
    }
}

/// Returns the claimed name of a caller before authentication.
pub(crate) fn claimed(parts: &Parts) -> Option<String> {
    let credentials = header::credentials(&parts.headers).ok().flatten()?;
    Some(credentials.principal().to_owned())
}

impl Gate {
    /// Authenticates a request. Fails with a 401 if the caller is unknown, with a 429 if too many attempts wait. A
    /// session cookie counts only without `Authorization`.
    pub(crate) async fn identify(&self, control: &Arc<Control>, parts: &Parts) -> Result<Known, Error> {
        let uri = uri(parts);
        if !parts.headers.contains_key(AUTHORIZATION)
            && let Some(session) = self.cookies.session(control, parts)?
        {
            return Ok(Known {
                identity: Arc::clone(&session.signed_in.identity),
                session: Some(session),
            });
        }
        let credentials = match header::credentials(&parts.headers) {
            Ok(Some(credentials)) => credentials,
            Ok(None) => {
                return Err(unauthenticated(
                    format!("missing authentication credentials for REST request [{uri}]"),
                    None,
                ));
            }
            Err(reason) => return Err(unauthenticated(reason.to_owned(), None)),
        };
        self.check(control, parts, &credentials).await.map(Known::from)
    }

    /// Authenticates a sign-in. The new session replaces the session of the caller, if there is one. Wrong credentials
    /// get the same errors after the same time as in every other request.
    pub(crate) async fn sign_in(
        &self,
        control: &Arc<Control>,
        parts: &Parts,
        credentials: &Credentials,
    ) -> Result<Known, Error> {
        session::check_site(parts)?;
        let identity = self.check(control, parts, credentials).await?;
        let session = self.cookies.replaced(control, parts);
        Ok(Known { identity, session })
    }

    async fn check(
        &self,
        control: &Arc<Control>,
        parts: &Parts,
        credentials: &Credentials,
    ) -> Result<Arc<Identity>, Error> {
        let uri = uri(parts);
        match control.authenticate(credentials, Instant::now()) {
            Authentication::Known(identity) => Ok(identity),
            Authentication::Unknown(detail) => {
                self.slow_down(control, credentials, from(parts)).await?;
                Err(unknown(credentials, detail, uri))
            }
            Authentication::Check(check) => {
                let place = self.join(credentials, from(parts))?;
                self.check_in_line(control, credentials, check, &place, uri).await
            }
        }
    }

    /// Delays the refusal of a wrong key, one at a time per key.
    async fn slow_down(&self, control: &Control, credentials: &Credentials, from: Origin) -> Result<(), Error> {
        let principal = credentials.principal();
        // A refused request learned nothing, so it does not count as a guess.
        let place = self.join(credentials, from)?;
        let _turn = place.turn().await;
        if let Attempt::After(wait) = control.attempt(principal, Instant::now()) {
            tokio::time::sleep(wait).await;
        }
        control.attempt_failed(principal, Instant::now());
        Ok(())
    }

    fn join(&self, credentials: &Credentials, from: Origin) -> Result<QueuePlace, Error> {
        let line = match credentials {
            Credentials::Password { .. } => &self.passwords,
            Credentials::ApiKey { .. } => &self.keys,
        };
        line.join(credentials.principal(), from).ok_or_else(too_many)
    }

    /// Checks a password, one at a time per name.
    async fn check_in_line(
        &self,
        control: &Arc<Control>,
        credentials: &Credentials,
        check: PasswordCheck,
        place: &QueuePlace,
        uri: &str,
    ) -> Result<Arc<Identity>, Error> {
        let principal = credentials.principal();
        let _turn = place.turn().await;
        // A client may open ten connections at once: the result for the first one holds for all.
        if let Authentication::Known(identity) = control.authenticate(credentials, Instant::now()) {
            return Ok(identity);
        }
        if let Attempt::After(wait) = control.attempt(principal, Instant::now()) {
            tokio::time::sleep(wait).await;
        }
        let _permit = self
            .checks
            .acquire()
            .await
            .map_err(|_| Error::internal("the server stops"))?;
        let checking = Arc::clone(control);
        let checked = tokio::task::spawn_blocking(move || checking.check_password(&check, Instant::now()))
            .await
            .map_err(|error| Error::internal(format!("cannot check a password: {error}")))?;
        match checked {
            Authentication::Known(identity) => {
                control.attempt_succeeded(principal);
                Ok(identity)
            }
            Authentication::Unknown(detail) => {
                control.attempt_failed(principal, Instant::now());
                Err(unknown(credentials, detail, uri))
            }
            Authentication::Check(_) => Err(Error::internal("a bug: checking a password left it unchecked")),
        }
    }
}

fn uri(parts: &Parts) -> &str {
    parts.uri.path_and_query().map_or("/", |path| path.as_str())
}

fn from(parts: &Parts) -> Origin {
    Origin::of(parts.extensions.get::<Peer>().map(|peer| peer.0.ip()))
}

fn unknown(credentials: &Credentials, detail: Option<&str>, uri: &str) -> Error {
    match credentials {
        Credentials::Password { name, .. } => unauthenticated(
            format!("unable to authenticate user [{name}] for REST request [{uri}]"),
            None,
        ),
        Credentials::ApiKey { .. } => unauthenticated(
            "unable to authenticate with provided credentials and anonymous access is not allowed for this request"
                .to_owned(),
            Some(format!("API key: {}", detail.unwrap_or("invalid credentials"))),
        ),
    }
}

#[cfg(test)]
mod tests {
    use firn_engine::ErrorKind;

    use super::*;

    #[test]
    fn invented_key_ids_block_no_password_check() {
        let gate = Gate::new(false);
        let key = |number: usize| Credentials::ApiKey {
            id: format!("key{number}"),
            secret: String::new(),
        };
        let peer = |number: usize| Origin::of(Some([10, 0, (number >> 8) as u8, number as u8].into()));
        let taken: Vec<QueuePlace> = (0..)
            .map_while(|number| gate.join(&key(number), peer(number)).ok())
            .collect();
        assert!(taken.len() > 100);
        let password = Credentials::Password {
            name: "elastic".to_owned(),
            password: String::new(),
        };
        assert!(gate.join(&password, peer(0)).is_ok());
        let error = gate.join(&key(0), peer(70_000)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Rejected);
    }
}
