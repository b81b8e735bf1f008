//! Sessions of browsers: after one sign-in, a cookie replaces the password in every request.
//!
//! A session is a secret of 256 random bits in a cookie, of which only the SHA-256 is stored: finding a session costs a
//! hash and a lookup. Each request looks up the privileges of the user again, so that a change of the user's roles
//! applies at once. A session is valid only while the user's password is the one from the sign-in.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use firn_model::tenant::TenantId;
use firn_model::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

use crate::authenticate::{identity_of, is_closed, weight};
use crate::control::Control;
use crate::identity::{Identity, Principal};
use crate::privilege::Privilege;
use crate::roles;
use crate::state::State;
use crate::tenants::missing_tenant;
use crate::users::User;

/// Maximum sessions of one user: one more ends the least recently used one.
const OF_USER_MAX: usize = 32;
/// Maximum sessions of one tenant's users, with the same eviction.
const OF_TENANT_MAX: usize = 2_000;
/// Maximum sessions in total, with the same eviction: all of them are in memory and in the control file, some 300 bytes
/// each.
const ALL_MAX: usize = 20_000;
/// Random bytes of a token.
const TOKEN_BYTES: usize = 32;
/// Characters of a token: its bytes in URL-safe base64 without padding.
const TOKEN_CHARS: usize = 43;
/// Maximum length of the reason for a view, characters.
const REASON_CHARS_MAX: usize = 1000;

/// Lifetime of sessions.
#[derive(Debug, Clone, Copy)]
pub struct SessionLimits {
    /// Time after the last use when a session ends.
    pub idle: Duration,
    /// Time after its start when a session ends, even if it is used.
    pub lifespan: Duration,
}

impl Default for SessionLimits {
    fn default() -> Self {
        Self {
            idle: Duration::from_secs(8 * 60 * 60),
            lifespan: Duration::from_secs(7 * 24 * 60 * 60),
        }
    }
}

/// Secret of a session, as in the cookie; logs never show it.
#[derive(Clone, PartialEq, Eq)]
pub struct SessionToken(String);

impl fmt::Debug for SessionToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SessionToken(…)")
    }
}

impl SessionToken {
    /// Checks the format of a token; `None`: the text is not a token.
    pub fn parse(text: &str) -> Option<Self> {
        let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        (text.len() == TOKEN_CHARS && text.bytes().all(is_letter)).then(|| Self(text.to_owned()))
    }

    fn of(random: [u8; TOKEN_BYTES]) -> Self {
        Self(URL_SAFE_NO_PAD.encode(random))
    }

    /// Returns the text for the cookie.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the CSRF token: a page of the session sends it beside the cookie, so that no other site's page can act
    /// for the session. It is derived from the secret, which no page can read, so it needs no storage. It also depends
    /// on the view, so that a page cannot continue in another view than it expects.
    pub fn csrf(&self, view: Option<&TenantId>) -> String {
        let mut digest = Sha256::new().chain_update("firn csrf ").chain_update(&self.0);
        if let Some(tenant) = view {
            digest = digest.chain_update(" as ").chain_update(tenant.as_str());
        }
        URL_SAFE_NO_PAD.encode(digest.finalize())
    }

    /// Returns whether `text` is [`csrf`](Self::csrf), in constant time.
    pub fn is_csrf(&self, view: Option<&TenantId>, text: &str) -> bool {
        self.csrf(view).as_bytes().ct_eq(text.as_bytes()).into()
    }

    fn id(&self) -> SessionId {
        SessionId(Sha256::digest(&self.0).into())
    }
}

/// SHA-256 of a token. The time of a lookup of the hash reveals nothing about the token.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct SessionId([u8; 32]);

impl fmt::Debug for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SessionId(…)")
    }
}

/// SHA-256 of the stored text of a user's password: another password has another one, and so has another user of the
/// same name.
#[derive(Clone, Copy, PartialEq, Eq)]
struct PasswordStamp([u8; 32]);

impl PasswordStamp {
    fn of(user: &User) -> Self {
        Self(Sha256::digest(&user.password_hash.0).into())
    }
}

impl fmt::Debug for PasswordStamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PasswordStamp(…)")
    }
}

/// Tenant's view of an operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct View {
    /// The tenant.
    pub tenant: TenantId,
    /// Reason, in the operator's words.
    pub reason: String,
}

/// Stored session.
#[derive(Debug, Clone)]
pub struct Session {
    id: SessionId,
    /// Its user.
    pub user: String,
    password: PasswordStamp,
    /// Time of the sign-in, ms since epoch UTC.
    pub created_ms: i64,
    /// Tenant's view; only for operators.
    pub view: Option<View>,
    /// Shared by all states of the session, so that a use of the session is not a change of state.
    last_used_ms: Arc<AtomicI64>,
}

impl Session {
    /// Returns the time of the last request with the session, ms since epoch UTC.
    fn last_used_ms(&self) -> i64 {
        self.last_used_ms.load(Ordering::Relaxed)
    }

    /// Returns the time when it ends without further use, ms since epoch UTC.
    fn ends_ms(&self, limits: SessionLimits) -> i64 {
        let after = |ms: i64, span: Duration| ms.saturating_add(i64::try_from(span.as_millis()).unwrap_or(i64::MAX));
        after(self.last_used_ms(), limits.idle).min(after(self.created_ms, limits.lifespan))
    }

    /// Whether it belongs to this user, with the password of the sign-in.
    fn is_of(&self, user: &User) -> bool {
        user.enabled && self.password == PasswordStamp::of(user)
    }
}

/// Sessions by the hashes of their tokens.
pub(crate) type Sessions = HashMap<SessionId, Arc<Session>>;

/// Caller with a session.
#[derive(Debug, Clone)]
pub struct SignedIn {
    /// The session.
    pub session: Arc<Session>,
    /// The user of the session.
    pub own: Arc<Identity>,
    /// The effective identity: the user, or a reader of the tenant whose view the user has.
    pub identity: Arc<Identity>,
    /// Remaining lifetime without further use.
    pub expires_in: Duration,
}

impl Control {
    /// Starts a session of a user whose password was just verified; `replaced` ends.
    pub fn open_session(&self, asker: &Identity, replaced: Option<&SessionToken>) -> Result<(SessionToken, SignedIn)> {
        let Principal::User(user) = asker.principal() else {
            return Err(Error::illegal_argument("only a user with a password has sessions"));
        };
        let token = SessionToken::of(self.draw());
        let session = self.change(|state, now_ms| {
            // The password may have changed since it was verified.
            let present = state.users.get(&user.name);
            let present = present.filter(|present| present.enabled && present.password_hash == user.password_hash);
            let present = present.cloned().ok_or_else(ended)?;
            if let Some(replaced) = replaced {
                state.sessions.remove(&replaced.id());
            }
            make_room(state, &present);
            let session = Arc::new(Session {
                id: token.id(),
                user: present.name.clone(),
                password: PasswordStamp::of(&present),
                created_ms: now_ms,
                view: None,
                last_used_ms: Arc::new(AtomicI64::new(now_ms)),
            });
            state.sessions.insert(session.id, Arc::clone(&session));
            Ok(session)
        })?;
        let signed_in = self.signed_in(session).ok_or_else(ended)?;
        Ok((token, signed_in))
    }

    /// Returns the caller with this token: two hashes and two lookups. `None`: no such session, or it has ended.
    pub fn session(&self, token: &SessionToken) -> Option<SignedIn> {
        let session = Arc::clone(self.state().sessions.get(&token.id())?);
        self.signed_in(session)
    }

    /// Ends a session. A repeated call does nothing.
    pub fn end_session(&self, token: &SessionToken) -> Result<()> {
        if !self.state().sessions.contains_key(&token.id()) {
            return Ok(());
        }
        self.change(|state, _| {
            state.sessions.remove(&token.id());
            Ok(())
        })
    }

    /// Switches a session of an operator to a tenant's view, or with `None` back to the operator's own view.
    pub fn set_view(&self, token: &SessionToken, view: Option<View>) -> Result<SignedIn> {
        check_reason(view.as_ref())?;
        let session = self.change(|state, _| {
            let session = state.sessions.get(&token.id()).ok_or_else(ended)?;
            let user = state.users.get(&session.user).ok_or_else(ended)?;
            let own = identity_of(state, user);
            if view.is_some() && !own.is_operator() {
                return Err(own.refusal("taking a tenant's view", Privilege::ManageCluster));
            }
            if let Some(view) = &view
                && is_closed(state, Some(&view.tenant))
            {
                return Err(missing_tenant(&view.tenant));
            }
            let session = Arc::new(Session {
                view,
                ..Session::clone(session)
            });
            state.sessions.insert(session.id, Arc::clone(&session));
            Ok(session)
        })?;
        self.signed_in(session).ok_or_else(ended)
    }

    /// Returns the lifetime of sessions.
    pub fn session_limits(&self) -> SessionLimits {
        self.session_limits
    }

    /// Returns whether an authenticated caller would be authenticated again with the same rights; for long requests. It
    /// does not count as a use of the session.
    pub fn still_admits(&self, identity: &Identity, session: Option<&SessionToken>) -> bool {
        let state = self.state();
        match (identity.principal(), session) {
            (Principal::Open, _) => true,
            (Principal::ApiKey(key), _) => {
                let present = state.api_keys.get(&key.id);
                present.is_some_and(|key| key.is_active(self.now_ms())) && !is_closed(&state, identity.tenant())
            }
            (Principal::User(user), None) => state.users.get(&user.name).is_some_and(|present| {
                present.enabled
                    && present.password_hash == user.password_hash
                    && !is_closed(&state, identity.tenant())
                    && identity_of(&state, present).may_the_same(identity)
            }),
            (Principal::User(_), Some(token)) => {
                let session = state.sessions.get(&token.id());
                let now = session.and_then(|session| self.eyes(&state, session, self.now_ms()));
                now.is_some_and(|(_, eyes)| eyes.may_the_same(identity))
            }
        }
    }

    /// Returns the session's user and the effective identity; `None`: the session has ended.
    fn eyes(&self, state: &State, session: &Session, now_ms: i64) -> Option<(Arc<Identity>, Arc<Identity>)> {
        let user = state.users.get(&session.user)?;
        if session.ends_ms(self.session_limits) <= now_ms
            || !session.is_of(user)
            || is_closed(state, user.tenant().as_ref())
        {
            return None;
        }
        let own = Arc::new(identity_of(state, user));
        let eyes = match &session.view {
            None => Arc::clone(&own),
            // A user who is no longer an operator cannot leave the view, and must not keep it.
            Some(_) if !own.is_operator() => return None,
            Some(view) => Arc::new(own.viewing(
                view.tenant.clone(),
                Arc::clone(state.roles.get(roles::READER)?),
                weight(state, Some(&view.tenant)),
            )),
        };
        Some((own, eyes))
    }

    fn signed_in(&self, session: Arc<Session>) -> Option<SignedIn> {
        let now_ms = self.now_ms();
        let (own, identity) = self.eyes(&self.state(), &session, now_ms)?;
        session.last_used_ms.fetch_max(now_ms, Ordering::Relaxed);
        self.is_use_unwritten.store(true, Ordering::Relaxed);
        let left_ms = session.ends_ms(self.session_limits).saturating_sub(now_ms);
        Some(SignedIn {
            session,
            own,
            identity,
            expires_in: Duration::from_millis(u64::try_from(left_ms).unwrap_or(0)),
        })
    }
}

impl Identity {
    /// Returns whether the caller runs the node: such a caller may take the view of a tenant.
    pub fn is_operator(&self) -> bool {
        self.tenant().is_none() && self.has(Privilege::ManageCluster)
    }
}

impl State {
    /// Removes expired sessions, and those of users who were deleted or have another password.
    pub(crate) fn forget_ended_sessions(&mut self, now_ms: i64, limits: SessionLimits) {
        let Self { sessions, users, .. } = self;
        sessions.retain(|_, session| {
            let user = users.get(&session.user);
            session.ends_ms(limits) > now_ms && user.is_some_and(|user| session.is_of(user))
        });
    }
}

/// Ends the sessions that exceed a limit once `user` has one more.
fn make_room(state: &mut State, user: &User) {
    let State { sessions, users, .. } = state;
    let tenant = user.tenant();
    let tenant_of = |session: &Session| users.get(&session.user).and_then(|user| user.tenant());
    end_over(sessions, OF_USER_MAX, |session| session.user == user.name);
    if tenant.is_some() {
        end_over(sessions, OF_TENANT_MAX, |session| tenant_of(session) == tenant);
    }
    if sessions.len() >= ALL_MAX {
        // Tenants must not be able to sign out an operator: their sessions end first, as long as there are any.
        let operators = sessions.values().filter(|session| tenant_of(session).is_none()).count();
        match sessions.len() > operators {
            true => end_over(sessions, ALL_MAX - operators.min(ALL_MAX - 1), |session| {
                tenant_of(session).is_some()
            }),
            false => end_over(sessions, ALL_MAX, |_| true),
        }
    }
}

/// Ends the least recently used of the matching sessions until one more fits into `max`.
fn end_over(sessions: &mut Sessions, max: usize, is_meant: impl Fn(&Session) -> bool) {
    let mut meant: Vec<(i64, i64, SessionId)> = sessions
        .values()
        .filter(|session| is_meant(session))
        .map(|session| (session.last_used_ms(), session.created_ms, session.id))
        .collect();
    let over = (meant.len() + 1).saturating_sub(max);
    if over == 0 {
        return;
    }
    meant.sort_unstable();
    for (_, _, id) in meant.into_iter().take(over) {
        sessions.remove(&id);
    }
}

fn check_reason(view: Option<&View>) -> Result<()> {
    let Some(view) = view else { return Ok(()) };
    if view.reason.trim().is_empty() {
        return Err(Error::validation(&["a reason is required to view as a tenant"]));
    }
    if view.reason.chars().count() > REASON_CHARS_MAX {
        return Err(Error::validation(&[format!(
            "the reason must be at most [{REASON_CHARS_MAX}] characters long"
        )]));
    }
    Ok(())
}

fn ended() -> Error {
    Error::new(ErrorKind::Unauthenticated, "the session has ended, sign in again")
}

/// [`Session`] in the control file.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct StoredSession {
    /// URL-safe base64, as is the next field.
    token_sha256: String,
    password_sha256: String,
    user: String,
    created_ms: i64,
    last_used_ms: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    view: Option<StoredView>,
}

#[derive(Debug, Serialize, Deserialize)]
struct StoredView {
    tenant: String,
    reason: String,
}

impl StoredSession {
    pub(crate) fn of(session: &Session) -> Self {
        Self {
            token_sha256: URL_SAFE_NO_PAD.encode(session.id.0),
            password_sha256: URL_SAFE_NO_PAD.encode(session.password.0),
            user: session.user.clone(),
            created_ms: session.created_ms,
            last_used_ms: session.last_used_ms(),
            view: session.view.as_ref().map(|view| StoredView {
                tenant: view.tenant.as_str().to_owned(),
                reason: view.reason.clone(),
            }),
        }
    }

    pub(crate) fn open(self) -> Result<(SessionId, Arc<Session>)> {
        let id = SessionId(digest(&self.token_sha256)?);
        let view = match self.view {
            None => None,
            Some(view) => Some(View {
                tenant: TenantId::parse(&view.tenant)?,
                reason: view.reason,
            }),
        };
        let session = Session {
            id,
            user: self.user,
            password: PasswordStamp(digest(&self.password_sha256)?),
            created_ms: self.created_ms,
            view,
            last_used_ms: Arc::new(AtomicI64::new(self.last_used_ms)),
        };
        Ok((id, Arc::new(session)))
    }
}

fn digest(text: &str) -> Result<[u8; 32]> {
    let bytes = URL_SAFE_NO_PAD.decode(text).ok();
    let bytes = bytes.and_then(|bytes| <[u8; 32]>::try_from(bytes).ok());
    bytes.ok_or_else(|| Error::internal("a stored session has an invalid hash"))
}

#[cfg(test)]
mod tests;
