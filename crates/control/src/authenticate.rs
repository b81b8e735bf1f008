//! From credentials to who it is.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use firn_model::tenant::TenantId;

use crate::control::Control;
use crate::identity::Identity;
use crate::passwords;
use crate::slowdown::Attempt;
use crate::state::State;
use crate::users::User;
use crate::verified::SignIn;

/// Bytes of a claimed name that count.
const PRINCIPAL_BYTES_MAX: usize = 128;

/// What a request brings to be known by.
#[derive(Clone, PartialEq, Eq)]
pub enum Credentials {
    /// An API key.
    ApiKey {
        /// Which.
        id: String,
        /// Its secret.
        secret: String,
    },
    /// A user.
    Password {
        /// Who.
        name: String,
        /// His password.
        password: String,
    },
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Credentials of [{}]", self.principal())
    }
}

impl Credentials {
    /// Who it claims to be; guesses are counted by it. Cut, because whoever guesses chooses its length.
    pub fn principal(&self) -> &str {
        let name = match self {
            Self::ApiKey { id, .. } => id,
            Self::Password { name, .. } => name,
        };
        &name[..name.floor_char_boundary(PRINCIPAL_BYTES_MAX)]
    }
}

/// What is known about credentials without slow work.
#[derive(Debug)]
pub enum Authentication {
    /// Whose they are.
    Known(Arc<Identity>),
    /// They are nobody's. With what is wrong, if that may be told.
    Unknown(Option<&'static str>),
    /// A password that has to be checked, which takes a while.
    Check(PasswordCheck),
}

/// A password to be checked.
pub struct PasswordCheck {
    name: String,
    password: String,
    sign_in: SignIn,
}

impl fmt::Debug for PasswordCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PasswordCheck of [{}]", self.name)
    }
}

impl Control {
    /// Whose credentials these are: for an API key one hash and one look-up, for a password that was
    /// right not long ago too. Never blocks for long.
    pub fn authenticate(&self, credentials: &Credentials, now: Instant) -> Authentication {
        match credentials {
            Credentials::ApiKey { id, secret } => self.authenticate_key(id, secret),
            Credentials::Password { name, password } => self.authenticate_user(name, password, now),
        }
    }

    fn authenticate_key(&self, id: &str, secret: &str) -> Authentication {
        let state = self.state();
        let Some(key) = state.api_keys.get(id).filter(|key| key.has_secret(secret)) else {
            return Authentication::Unknown(None);
        };
        // From here on it is the key's holder who asks, and may know what is wrong with it.
        let now_ms = self.now_ms();
        if key.invalidated_ms.is_some() {
            return Authentication::Unknown(Some("api key has been invalidated"));
        }
        if key.is_expired(now_ms) {
            return Authentication::Unknown(Some("api key is expired"));
        }
        if is_closed(&state, key.tenant()) {
            return Authentication::Unknown(Some("the tenant of the api key is no more"));
        }
        key.used(now_ms);
        self.is_use_unwritten.store(true, Ordering::Relaxed);
        let weight = weight(&state, key.tenant());
        Authentication::Known(Arc::new(Identity::api_key(Arc::clone(key), weight)))
    }

    fn authenticate_user(&self, name: &str, password: &str, now: Instant) -> Authentication {
        let state = self.state();
        let verified = self.verified.lock();
        let sign_in = verified.sign_in(name, password);
        if let Some(user) = state.users.get(name)
            && verified.contains(&sign_in, &user.password_hash.0, now)
        {
            drop(verified);
            return known_user(&state, user);
        }
        Authentication::Check(PasswordCheck {
            name: name.to_owned(),
            password: password.to_owned(),
            sign_in,
        })
    }

    /// Checks a password, some 25 ms of a core. For a user who does not exist it takes as long, so
    /// that time does not tell who does.
    pub fn check_password(&self, check: &PasswordCheck, now: Instant) -> Authentication {
        let state = self.state();
        let user = state.users.get(&check.name);
        let hash = user.map_or(self.nobodys_hash.as_str(), |user| &user.password_hash.0);
        let is_right = passwords::matches(&check.password, hash);
        match user {
            Some(user) if is_right => {
                self.verified.lock().insert(check.sign_in, hash, now);
                known_user(&state, user)
            }
            _ => Authentication::Unknown(None),
        }
    }

    /// Whether credentials of `principal` may be tried now or later.
    pub fn attempt(&self, principal: &str, now: Instant) -> Attempt {
        self.slowdown.lock().attempt(principal, now)
    }

    /// Counts an attempt that failed.
    pub fn attempt_failed(&self, principal: &str, now: Instant) {
        self.slowdown.lock().failed(principal, now);
    }

    /// Forgets failures: the right password came.
    pub fn attempt_succeeded(&self, principal: &str) {
        self.slowdown.lock().succeeded(principal);
    }
}

fn known_user(state: &State, user: &Arc<User>) -> Authentication {
    let tenant = user.tenant();
    if !user.enabled || is_closed(state, tenant.as_ref()) {
        return Authentication::Unknown(None);
    }
    Authentication::Known(Arc::new(identity_of(state, user)))
}

/// Who a user is now, with what his roles grant now.
pub(crate) fn identity_of(state: &State, user: &Arc<User>) -> Identity {
    let weight = weight(state, user.tenant().as_ref());
    Identity::user(Arc::clone(user), state.roles_of(user), weight)
}

/// Whether nobody of the tenant is let in: it is being deleted, or was.
pub(crate) fn is_closed(state: &State, tenant: Option<&TenantId>) -> bool {
    tenant.is_some_and(|tenant| {
        let record = state.tenants.get(tenant);
        record.is_none_or(|record| record.deleting_since_ms.is_some())
    })
}

/// Of a tenant's work in queues.
pub(crate) fn weight(state: &State, tenant: Option<&TenantId>) -> Option<u32> {
    let record = state.tenants.get(tenant?)?;
    let own = record.settings.quotas.search_cpu_share;
    own.or(state.tenant_defaults.quotas.search_cpu_share)
}
