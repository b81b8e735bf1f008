//! API keys: credentials of programs.
//!
//! A key is an id and a secret of 128 random bits. Only the SHA-256 of the secret is stored: a secret that cannot be
//! guessed needs no slow hash, and each request of a shipper costs one hash.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use firn_model::names::matches_pattern;
use firn_model::tenant::TenantId;
use firn_model::{Error, Result};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

use crate::control::Control;
use crate::entity_limits::{self, EntityLimit};
use crate::identity::{Identity, Principal};
use crate::privilege::Privilege;
use crate::roles::{self, Grants, RoleDescriptor};
use crate::users;

/// Time for which invalidated and expired keys stay listed, as in Elasticsearch.
const RETAINED_AFTER_END_MS: i64 = 7 * 24 * 60 * 60 * 1000;
/// Maximum number of keys: all of them are in memory, and in the file that every change replaces (some 400 bytes each).
const ROOM: EntityLimit = EntityLimit {
    what: "API key",
    all: 20_000,
    of_tenant: 1_000,
    for_operators: 2_000,
};
/// Maximum role descriptors of one key: each request with the key is checked against them.
const DESCRIPTORS_MAX: usize = 64;
/// Maximum bytes of all role descriptors of one key, as JSON.
const DESCRIPTORS_BYTES_MAX: usize = 16 << 10;
/// Random bytes of an id, which is not secret.
const ID_BYTES: usize = 15;
/// Random bytes of a secret.
const SECRET_BYTES: usize = 16;

/// Maximum length of a name in bytes, as in Elasticsearch.
const NAME_BYTES_MAX: usize = 256;
/// Value for "never used".
const NEVER: i64 = i64::MIN;

/// Stored API key.
#[derive(Debug, Clone)]
pub struct ApiKey {
    /// Public part of the key.
    pub id: String,
    /// Name given by its creator; not unique.
    pub name: String,
    secret_hash: SecretHash,
    /// The user who created it.
    pub owner: String,
    /// Creation time, ms since epoch UTC.
    pub created_ms: i64,
    /// Expiration time, ms since epoch UTC.
    pub expires_ms: Option<i64>,
    /// Invalidation time, ms since epoch UTC.
    pub invalidated_ms: Option<i64>,
    /// Privileges of the key; empty: all privileges of its creator.
    pub role_descriptors: BTreeMap<String, RoleDescriptor>,
    /// Privileges of its creator at the time of creation: an upper bound for the key.
    pub limited_by: BTreeMap<String, RoleDescriptor>,
    /// Metadata from its creator; the entry `tenant` is the tenant that the key belongs to.
    pub metadata: Map<String, Value>,
    tenant: Option<TenantId>,
    /// Shared by all states of the key, so that a use of the key is not a change of state.
    last_used_ms: Arc<AtomicI64>,
    pub(crate) layers: Vec<Arc<Grants>>,
}

/// Definition of a new key.
#[derive(Debug, Clone, Default)]
pub struct NewApiKey {
    /// Not empty.
    pub name: String,
    /// Time until its expiration, ms.
    pub expires_in_ms: Option<u64>,
    /// Privileges of the key; empty: all privileges of its creator.
    pub role_descriptors: BTreeMap<String, RoleDescriptor>,
    /// The entry `tenant` binds the key to a tenant.
    pub metadata: Map<String, Value>,
}

/// A new key with its secret, which is available only now.
#[derive(Clone)]
pub struct CreatedApiKey {
    /// The stored key.
    pub key: Arc<ApiKey>,
    /// 22 characters of URL-safe base64.
    pub secret: String,
}

impl fmt::Debug for CreatedApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CreatedApiKey")
            .field("key", &self.key)
            .finish_non_exhaustive()
    }
}

/// Filter for keys; `None` or empty fields match all keys.
#[derive(Debug, Clone, Default)]
pub struct KeyFilter {
    /// The key has one of these ids.
    pub ids: Vec<String>,
    /// A name, or a prefix followed by `*`.
    pub name: Option<String>,
    /// The user who created the key.
    pub owner: Option<String>,
    /// Excludes invalidated and expired keys.
    pub active_only: bool,
}

impl KeyFilter {
    pub(crate) fn takes(&self, key: &ApiKey, now_ms: i64) -> bool {
        (self.ids.is_empty() || self.ids.contains(&key.id))
            && self
                .name
                .as_ref()
                .is_none_or(|pattern| matches_pattern(pattern, &key.name))
            && self.owner.as_ref().is_none_or(|owner| *owner == key.owner)
            && (!self.active_only || key.is_active(now_ms))
    }
}

impl Control {
    /// Creates a key for `asker`. It belongs to the tenant of `asker`, if any, and never has more privileges than
    /// `asker` has now.
    pub fn create_api_key(&self, asker: &Identity, new: NewApiKey) -> Result<CreatedApiKey> {
        let mut new = new;
        if new.name.is_empty() || new.name.len() > NAME_BYTES_MAX {
            return Err(Error::validation(&[format!(
                "api key name is required and must be at most [{NAME_BYTES_MAX}] bytes long"
            )]));
        }
        check_descriptors(&new.role_descriptors)?;
        users::check_metadata(&new.metadata)?;
        asker.check_not_viewing()?;
        let tenant = users::claim(asker, &mut new.metadata)?;
        let maker_key = match asker.principal() {
            Principal::ApiKey(key) => Some(key),
            Principal::Open | Principal::User(_) => None,
        };
        if maker_key.is_some()
            && (new.role_descriptors.is_empty() || !Grants::of(new.role_descriptors.values())?.is_empty())
        {
            return Err(Error::illegal_argument(
                "creating derived api keys requires an explicit role descriptor that is empty (has no privileges)",
            ));
        }
        if maker_key.is_none() {
            asker.check_names_fit_tenant(tenant.as_ref())?;
        }
        let expires_ms_max = maker_key.and_then(|key| key.expires_ms);
        let owner = asker
            .user_name()
            .ok_or_else(|| Error::illegal_argument("API keys belong to users, and security is off"))?;
        let random = self.draw();
        self.change(|state, now_ms| {
            asker.check_still_active(state, now_ms)?;
            if let Some(expires_ms) = expires_ms_max {
                // A derived key expires no later than the key that creates it.
                let rest_ms = u64::try_from(expires_ms.saturating_sub(now_ms)).unwrap_or(0);
                new.expires_in_ms = Some(
                    new.expires_in_ms
                        .map_or(rest_ms, |requested_ms| requested_ms.min(rest_ms)),
                );
            }
            state.check_tenant(tenant.as_ref())?;
            // Keys that ended long ago are already removed; all other keys are stored, so they count.
            let own = tenant.as_ref().map(|tenant| {
                let keys = state.api_keys.values();
                (tenant, keys.filter(|key| key.tenant() == Some(tenant)).count())
            });
            ROOM.check(&new.name, state.api_keys.len(), own)?;
            let created = ApiKey::create(new, owner, asker.descriptors(), now_ms, random)?;
            state.api_keys.insert(created.key.id.clone(), Arc::clone(&created.key));
            Ok(created)
        })
    }

    /// Returns the keys that `asker` may see and that match the filter, oldest first.
    pub fn api_keys(&self, asker: &Identity, filter: &KeyFilter) -> Vec<Arc<ApiKey>> {
        let (state, now_ms) = (self.state(), self.now_ms());
        let taken = |key: &&Arc<ApiKey>| sees(asker, key) && filter.takes(key, now_ms);
        let mut keys: Vec<_> = state.api_keys.values().filter(taken).cloned().collect();
        keys.sort_by(|left, right| (left.created_ms, &left.id).cmp(&(right.created_ms, &right.id)));
        keys
    }

    /// Invalidates the keys that `asker` may see and that match the filter. A key without an explicit privilege to end
    /// other keys invalidates only itself. Returns the ids of the keys that were active, and of those that had been
    /// invalidated before.
    pub fn invalidate_api_keys(&self, asker: &Identity, filter: &KeyFilter) -> Result<(Vec<String>, Vec<String>)> {
        asker.check_not_viewing()?;
        let may_end = |key: &ApiKey| match asker.principal() {
            Principal::ApiKey(own) if own.id != key.id => asker.may_end_other_keys(),
            _ => true,
        };
        self.change(|state, now_ms| {
            asker.check_still_active(state, now_ms)?;
            let (mut now, mut before) = (Vec::new(), Vec::new());
            for key in state.api_keys.values_mut() {
                if !sees(asker, key) || !may_end(key) || !filter.takes(key, now_ms) {
                    continue;
                }
                match key.invalidated_ms {
                    Some(_) => before.push(key.id.clone()),
                    None => {
                        now.push(key.id.clone());
                        *key = Arc::new(key.invalidated(now_ms));
                    }
                }
            }
            Ok((now, before))
        })
    }

    /// Returns the time for checks of keys: the wall clock, but not less than the time that has passed since the start.
    pub fn time_ms(&self) -> i64 {
        self.now_ms()
    }
}

/// Refuses descriptors that no key may have, and descriptors that exceed the limits.
fn check_descriptors(descriptors: &BTreeMap<String, RoleDescriptor>) -> Result<()> {
    if descriptors.len() > DESCRIPTORS_MAX {
        return Err(Error::validation(&[format!(
            "[role_descriptors] has [{}] entries and must have at most [{DESCRIPTORS_MAX}]",
            descriptors.len()
        )]));
    }
    entity_limits::check_size("role_descriptors", descriptors, DESCRIPTORS_BYTES_MAX)?;
    descriptors.values().try_for_each(roles::check_own)
}

/// Whether `asker` may see a key: all keys, those of the tenant, or the user's keys, depending on privileges; a key
/// sees itself.
fn sees(asker: &Identity, key: &ApiKey) -> bool {
    if asker.tenant().is_some_and(|tenant| key.tenant() != Some(tenant)) {
        return false;
    }
    if asker.has(Privilege::ManageApiKeys) || asker.tenant().is_some() && asker.has(Privilege::ManageTenant) {
        return true;
    }
    match asker.principal() {
        Principal::ApiKey(own) => own.id == key.id,
        _ => asker.user_name() == Some(&key.owner),
    }
}

#[derive(Clone, PartialEq, Eq)]
struct SecretHash([u8; 32]);

impl SecretHash {
    fn of(secret: &str) -> Self {
        Self(Sha256::digest(secret.as_bytes()).into())
    }
}

impl fmt::Debug for SecretHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretHash(…)")
    }
}

impl ApiKey {
    /// Creates a key and its secret.
    pub(crate) fn create(
        new: NewApiKey,
        owner: &str,
        limited_by: BTreeMap<String, RoleDescriptor>,
        now_ms: i64,
        random: [u8; ID_BYTES + SECRET_BYTES],
    ) -> Result<CreatedApiKey> {
        let (id, secret) = random.split_at(ID_BYTES);
        let secret = URL_SAFE_NO_PAD.encode(secret);
        let key = StoredKey {
            id: URL_SAFE_NO_PAD.encode(id),
            name: new.name,
            secret_sha256: URL_SAFE_NO_PAD.encode(SecretHash::of(&secret).0),
            owner: owner.to_owned(),
            created_ms: now_ms,
            expires_ms: new
                .expires_in_ms
                .map(|ms| now_ms.saturating_add(i64::try_from(ms).unwrap_or(i64::MAX))),
            invalidated_ms: None,
            last_used_ms: None,
            role_descriptors: new.role_descriptors,
            limited_by,
            metadata: new.metadata,
        };
        let key = Arc::new(key.open()?);
        Ok(CreatedApiKey { key, secret })
    }

    /// Returns whether `secret` is the key's secret, in constant time.
    pub(crate) fn has_secret(&self, secret: &str) -> bool {
        SecretHash::of(secret).0.ct_eq(&self.secret_hash.0).into()
    }

    /// Returns the tenant that the key belongs to.
    pub fn tenant(&self) -> Option<&TenantId> {
        self.tenant.as_ref()
    }

    /// Returns whether the key has expired.
    pub fn is_expired(&self, now_ms: i64) -> bool {
        self.expires_ms.is_some_and(|expires_ms| expires_ms <= now_ms)
    }

    /// Returns whether the key can authenticate requests.
    pub fn is_active(&self, now_ms: i64) -> bool {
        self.invalidated_ms.is_none() && !self.is_expired(now_ms)
    }

    /// Returns the time of the last request with the key, ms since epoch UTC. After a crash it may be a minute too
    /// early.
    pub fn last_used_ms(&self) -> Option<i64> {
        Some(self.last_used_ms.load(Ordering::Relaxed)).filter(|ms| *ms != NEVER)
    }

    /// Records a use; a clock that goes back changes nothing.
    pub(crate) fn used(&self, now_ms: i64) {
        self.last_used_ms.fetch_max(now_ms, Ordering::Relaxed);
    }

    /// Returns the invalidated key.
    pub(crate) fn invalidated(&self, now_ms: i64) -> Self {
        Self {
            invalidated_ms: self.invalidated_ms.or(Some(now_ms)),
            ..self.clone()
        }
    }

    /// Returns whether the key ended so long ago that it can be removed.
    pub(crate) fn is_over(&self, now_ms: i64) -> bool {
        let ended = self.invalidated_ms.into_iter().chain(self.expires_ms).min();
        ended.is_some_and(|ended| ended.saturating_add(RETAINED_AFTER_END_MS) < now_ms)
    }
}

/// [`ApiKey`] in the control file.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct StoredKey {
    id: String,
    name: String,
    /// URL-safe base64.
    secret_sha256: String,
    owner: String,
    created_ms: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    expires_ms: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    invalidated_ms: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    last_used_ms: Option<i64>,
    #[serde(default)]
    role_descriptors: BTreeMap<String, RoleDescriptor>,
    limited_by: BTreeMap<String, RoleDescriptor>,
    #[serde(default)]
    metadata: Map<String, Value>,
}

impl StoredKey {
    pub(crate) fn of(key: &ApiKey) -> Self {
        Self {
            id: key.id.clone(),
            name: key.name.clone(),
            secret_sha256: URL_SAFE_NO_PAD.encode(key.secret_hash.0),
            owner: key.owner.clone(),
            created_ms: key.created_ms,
            expires_ms: key.expires_ms,
            invalidated_ms: key.invalidated_ms,
            last_used_ms: key.last_used_ms(),
            role_descriptors: key.role_descriptors.clone(),
            limited_by: key.limited_by.clone(),
            metadata: key.metadata.clone(),
        }
    }

    /// Converts to a key; fails for invalid data, and for privileges that are unknown or that firn lacks.
    pub(crate) fn open(self) -> Result<ApiKey> {
        let damaged = || Error::internal(format!("API key [{}] has no hash of its secret", self.id));
        let secret_hash = URL_SAFE_NO_PAD.decode(&self.secret_sha256).map_err(|_| damaged())?;
        let secret_hash = SecretHash(secret_hash.try_into().map_err(|_| damaged())?);
        let mut layers = vec![Arc::new(Grants::of(self.limited_by.values())?)];
        if !self.role_descriptors.is_empty() {
            layers.push(Arc::new(Grants::of(self.role_descriptors.values())?));
        }
        Ok(ApiKey {
            tenant: users::tenant_of(&self.metadata)?,
            id: self.id,
            name: self.name,
            secret_hash,
            owner: self.owner,
            created_ms: self.created_ms,
            expires_ms: self.expires_ms,
            invalidated_ms: self.invalidated_ms,
            role_descriptors: self.role_descriptors,
            limited_by: self.limited_by,
            metadata: self.metadata,
            last_used_ms: Arc::new(AtomicI64::new(self.last_used_ms.unwrap_or(NEVER))),
            layers,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn created(expires_in_ms: Option<u64>) -> CreatedApiKey {
        let new = NewApiKey {
            name: "shipper".to_owned(),
            expires_in_ms,
            ..NewApiKey::default()
        };
        let mut random = [0; ID_BYTES + SECRET_BYTES];
        random.iter_mut().enumerate().for_each(|(at, byte)| *byte = at as u8);
        ApiKey::create(new, "me", BTreeMap::new(), 1000, random).unwrap()
    }

    #[test]
    fn descriptors_are_few_and_small() {
        let many = |count: usize, bytes: usize| -> BTreeMap<String, RoleDescriptor> {
            let descriptor = RoleDescriptor {
                metadata: Map::from_iter([("a".to_owned(), "x".repeat(bytes).into())]),
                ..RoleDescriptor::default()
            };
            (0..count)
                .map(|number| (number.to_string(), descriptor.clone()))
                .collect()
        };
        check_descriptors(&many(64, 10)).unwrap();
        let error = check_descriptors(&many(65, 10)).unwrap_err();
        assert!(error.to_string().contains("must have at most [64]"), "{error}");
        let error = check_descriptors(&many(2, 10_000)).unwrap_err();
        assert!(error.to_string().contains("must be at most [16384] bytes"), "{error}");
    }

    #[test]
    fn a_key_knows_its_secret_and_does_not_keep_it() {
        let created = created(None);
        assert_eq!((created.key.id.len(), created.secret.len()), (20, 22));
        assert!(created.key.has_secret(&created.secret));
        assert!(!created.key.has_secret("") && !created.key.has_secret(&created.key.id));
        assert!(!format!("{created:?}").contains(&created.secret));
        let stored = serde_json::to_string(&StoredKey::of(&created.key)).unwrap();
        assert!(!stored.contains(&created.secret), "{stored}");
    }

    #[test]
    fn a_key_ends() {
        let key = created(Some(500)).key;
        assert!(key.is_active(1499) && !key.is_active(1500));
        assert!(!key.is_over(1500 + RETAINED_AFTER_END_MS) && key.is_over(1501 + RETAINED_AFTER_END_MS));
        let ended = key.invalidated(1200);
        assert!(!ended.is_active(1200) && key.is_active(1200));
        assert_eq!(ended.invalidated(1300).invalidated_ms, Some(1200));
    }

    #[test]
    fn last_use_survives_a_clock_that_goes_back() {
        let key = created(None).key;
        assert_eq!(key.last_used_ms(), None);
        key.used(5000);
        key.invalidated(1).used(4000);
        assert_eq!(key.last_used_ms(), Some(5000));
    }
}
