//! Control state: its in-memory snapshot, its file, and its changes.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use firn_model::Result;
use firn_storage::Disk;
use parking_lot::Mutex;

use crate::clock::{Over, Time};
use crate::passwords;
use crate::saved_objects::SavedObjects;
use crate::sessions::SessionLimits;
use crate::sign_in_throttle::{SignInThrottle, SignInThrottleLimits};
use crate::state::State;
use crate::store::Store;
use crate::users::{Hidden, OPERATOR, Password, User};
use crate::verified_passwords::Verified;

/// Ms since epoch UTC.
pub type Clock = Arc<dyn Fn() -> i64 + Send + Sync>;
/// Time since some moment; monotonic, and advances only as time passes.
pub type Stopwatch = Arc<dyn Fn() -> Duration + Send + Sync>;
/// Fills a buffer with unpredictable bytes.
pub type Random = Arc<dyn Fn(&mut [u8]) + Send + Sync>;

/// Dependencies of [`Control`].
#[derive(Clone)]
pub struct Parts {
    /// Disk that holds the folder.
    pub disk: Arc<dyn Disk>,
    /// Folder of the control state; created if missing.
    pub folder: PathBuf,
    /// The wall clock.
    pub now_ms: Clock,
    /// Monotonic clock, for time that has passed while the wall clock was set.
    pub stopwatch: Stopwatch,
    /// Source of randomness for secrets.
    pub random: Random,
    /// Slowdown of password guessing.
    pub slowdown: SignInThrottleLimits,
    /// Lifetime of sessions.
    pub sessions: SessionLimits,
}

/// Tenants, users, roles, API keys and sessions. A read takes a snapshot and never waits. A change is durable when it
/// returns, and blocks for a sync of the disk.
pub struct Control {
    state: ArcSwap<State>,
    /// Locked while a change is written: one at a time.
    store: Mutex<Store>,
    time: Time,
    /// Ended keys that are not removed yet.
    over: Mutex<Over>,
    /// Whether a key or session was used since the last write of the file.
    pub(crate) is_use_unwritten: AtomicBool,
    random: Random,
    pub(crate) slowdown: Mutex<SignInThrottle>,
    pub(crate) verified: Mutex<Verified>,
    pub(crate) session_limits: SessionLimits,
    /// Locked while a file of a saved object is written or read.
    pub(crate) saved: Mutex<SavedObjects>,
    /// Hash that passwords of unknown users are compared with.
    pub(crate) nonames_hash: String,
}

impl std::fmt::Debug for Control {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Control").finish_non_exhaustive()
    }
}

impl Control {
    /// Opens the folder. Fails if the control file is damaged.
    pub fn open(parts: Parts) -> Result<Self> {
        let (store, state) = Store::open(Arc::clone(&parts.disk), &parts.folder)?;
        let saved = SavedObjects::open(parts.disk, &parts.folder)?;
        let mut pepper = [0; 32];
        (parts.random)(&mut pepper);
        let mut salt = [0; 16];
        (parts.random)(&mut salt);
        Ok(Self {
            state: ArcSwap::from_pointee(state.unwrap_or_default()),
            store: Mutex::new(store),
            time: Time::new(parts.now_ms, parts.stopwatch),
            over: Mutex::default(),
            is_use_unwritten: AtomicBool::new(false),
            random: parts.random,
            slowdown: Mutex::new(SignInThrottle::new(parts.slowdown)),
            verified: Mutex::new(Verified::new(pepper)),
            session_limits: parts.sessions,
            saved: Mutex::new(saved),
            nonames_hash: passwords::hash("password of unknown users", salt)?,
        })
    }

    /// Returns the current state.
    pub(crate) fn state(&self) -> Arc<State> {
        self.state.load_full()
    }

    /// Returns the time for checks of keys and sessions.
    pub(crate) fn now_ms(&self) -> i64 {
        self.time.now_ms()
    }

    /// Replaces the current state by the next one: durably, or not at all.
    pub(crate) fn change<T>(&self, decide: impl FnOnce(&mut State, i64) -> Result<T>) -> Result<T> {
        let store = self.store.lock();
        let now_ms = self.now_ms();
        let mut next = State::clone(&self.state());
        let outcome = decide(&mut next, now_ms)?;
        next.forget_old_keys(now_ms, &mut self.over.lock(), self.time.passed());
        next.forget_ended_sessions(now_ms, self.session_limits);
        store.write(&next)?;
        self.state.store(Arc::new(next));
        Ok(outcome)
    }

    /// Stores the last uses of keys and sessions, if there were any since the last write. Call it about once a minute:
    /// readers of that time do not need seconds.
    pub fn write_last_uses(&self) -> Result<()> {
        if !self.is_use_unwritten.swap(false, Ordering::Relaxed) {
            return Ok(());
        }
        let written = self.store.lock().write(&self.state());
        if written.is_err() {
            self.is_use_unwritten.store(true, Ordering::Relaxed);
        }
        written
    }

    /// Returns random bytes for a secret.
    pub(crate) fn draw<const N: usize>(&self) -> [u8; N] {
        let mut bytes = [0; N];
        (self.random)(&mut bytes);
        bytes
    }

    /// Returns whether there are users in a folder that is not open; creates nothing.
    pub fn has_users_in(disk: Arc<dyn Disk>, folder: &Path) -> Result<bool> {
        let state = Store::at(disk, folder).read()?;
        Ok(state.is_some_and(|state| !state.users.is_empty()))
    }

    /// Allows the next start although the control file of a folder is lost: it starts without users. An existing
    /// control file is not changed.
    pub fn accept_lost_record(disk: Arc<dyn Disk>, folder: &Path) -> Result<()> {
        Store::at(disk, folder).accept_loss()
    }

    /// Returns whether there are any users.
    pub fn has_users(&self) -> bool {
        !self.state().users.is_empty()
    }

    /// Returns whether the operator exists and is disabled.
    pub fn is_operator_disabled(&self) -> bool {
        self.state().users.get(OPERATOR).is_some_and(|user| !user.enabled)
    }

    /// Returns whether the operator exists, is enabled and has this password.
    pub fn is_operator_password(&self, password: &Password) -> bool {
        let state = self.state();
        let operator = state.users.get(OPERATOR).filter(|user| user.enabled);
        operator.is_some_and(|user| passwords::matches(&password.0, &user.password_hash.0))
    }

    /// Creates the first operator, or sets the operator's password and enables it. Returns the operator's name.
    pub fn set_operator_password(&self, password: &Password) -> Result<&'static str> {
        passwords::check_new(&password.0)?;
        let password_hash = Hidden(passwords::hash(&password.0, self.draw())?);
        self.change(|state, _| {
            let user = User {
                name: OPERATOR.to_owned(),
                password_hash,
                roles: vec!["operator".to_owned()],
                full_name: None,
                email: None,
                metadata: serde_json::Map::new(),
                enabled: true,
            };
            state.users.insert(OPERATOR.to_owned(), Arc::new(user));
            Ok(OPERATOR)
        })
    }

    /// Generates an unpredictable password: 120 random bits in 20 characters.
    pub fn make_password(&self) -> Password {
        use base64::Engine as _;
        Password(base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(self.draw::<15>()))
    }
}
