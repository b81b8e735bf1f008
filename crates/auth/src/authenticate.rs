//! Authentication: from credentials to an identity.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use firn_model::tenant::TenantId;

use crate::control::Control;
use crate::identity::Identity;
use crate::passwords;
use crate::sign_in_throttle::Attempt;
use crate::state::State;
use crate::users::User;
use crate::verified_passwords::SignIn;

/// Bytes of a claimed name that are used.
const PRINCIPAL_BYTES_MAX: usize = 128;

/// Credentials of a request.
#[derive(Clone, PartialEq, Eq)]
pub enum Credentials {
    /// An API key.
    ApiKey {
        /// Id of the key.
        id: String,
        /// Its secret.
        secret: String,
    },
    /// A user with a password.
    Password {
        /// Name of the user.
        name: String,
        /// Password of the user.
        password: String,
    },
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Credentials of [{}]", self.principal())
    }
}

impl Credentials {
    /// Returns the claimed name, by which failed attempts are counted. It is truncated, because an attacker chooses its
    /// length.
    pub fn principal(&self) -> &str {
        let name = match self {
            Self::ApiKey { id, .. } => id,
            Self::Password { name, .. } => name,
        };
        &name[..name.floor_char_boundary(PRINCIPAL_BYTES_MAX)]
    }
}

/// Result of an authentication without slow work.
#[derive(Debug)]
pub enum Authentication {
    /// Valid credentials, with their identity.
    Known(Arc<Identity>),
    /// Invalid credentials, with the reason if the caller may know it.
    Unknown(Option<&'static str>),
    /// A password that needs a slow check.
    Check(PasswordCheck),
}

/// Password to check.
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
    /// Authenticates credentials. An API key costs one hash and one lookup, and so does a password that was verified
    /// recently. Never blocks for long.
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
        // The caller has the right secret, so it may learn what is wrong with the key.
        let now_ms = self.now_ms();
        if key.invalidated_ms.is_some() {
            return Authentication::Unknown(Some("api key has been invalidated"));
        }
        if key.is_expired(now_ms) {
            return Authentication::Unknown(Some("api key is expired"));
        }
        if is_closed(&state, key.tenant()) {
            return Authentication::Unknown(Some("the tenant of the api key is deleted"));
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

    /// Checks a password, which takes some 25 ms of a core. For an unknown user it takes the same time, so that the
    /// time does not reveal which users exist.
    pub fn check_password(&self, check: &PasswordCheck, now: Instant) -> Authentication {
        let state = self.state();
        let user = state.users.get(&check.name);
        let hash = user.map_or(self.nonames_hash.as_str(), |user| &user.password_hash.0);
        let is_right = passwords::matches(&check.password, hash);
        match user {
            Some(user) if is_right => {
                self.verified.lock().insert(check.sign_in, hash, now);
                known_user(&state, user)
            }
            _ => Authentication::Unknown(None),
        }
    }

    /// Returns whether credentials of `principal` may be tried now or later.
    pub fn attempt(&self, principal: &str, now: Instant) -> Attempt {
        self.slowdown.lock().attempt(principal, now)
    }

    /// Counts a failed attempt.
    pub fn attempt_failed(&self, principal: &str, now: Instant) {
        self.slowdown.lock().failed(principal, now);
    }

    /// Resets the failures after a correct password.
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

/// Returns the identity of a user with the current grants of the user's roles.
pub(crate) fn identity_of(state: &State, user: &Arc<User>) -> Identity {
    let weight = weight(state, user.tenant().as_ref());
    Identity::user(Arc::clone(user), state.roles_of(user), weight)
}

/// Returns whether callers of the tenant are refused, because it is being deleted or was deleted.
pub(crate) fn is_closed(state: &State, tenant: Option<&TenantId>) -> bool {
    tenant.is_some_and(|tenant| {
        let record = state.tenants.get(tenant);
        record.is_none_or(|record| record.deleting_since_ms.is_some())
    })
}

/// Returns the weight of a tenant's work in queues.
pub(crate) fn weight(state: &State, tenant: Option<&TenantId>) -> Option<u32> {
    let record = state.tenants.get(tenant?)?;
    let own = record.settings.quotas.search_cpu_share;
    own.or(state.tenant_defaults.quotas.search_cpu_share)
}
