//! The state, its file, and what changes it.

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
use crate::saved::SavedObjects;
use crate::sessions::SessionLimits;
use crate::slowdown::{Slowdown, SlowdownLimits};
use crate::state::State;
use crate::store::Store;
use crate::users::{Hidden, OPERATOR, Password, User};
use crate::verified::Verified;

/// Ms since epoch UTC.
pub type Clock = Arc<dyn Fn() -> i64 + Send + Sync>;
/// Time since some moment; it never goes back, and leaps no further than time does.
pub type Stopwatch = Arc<dyn Fn() -> Duration + Send + Sync>;
/// Fills a buffer with bytes that nobody can guess.
pub type Random = Arc<dyn Fn(&mut [u8]) + Send + Sync>;

/// What [`Control`] is made of.
#[derive(Clone)]
pub struct Parts {
    /// Where the folder is.
    pub disk: Arc<dyn Disk>,
    /// Its own; made if there is none.
    pub folder: PathBuf,
    /// The wall clock.
    pub now_ms: Clock,
    /// What tells how much time passed where the wall clock is set.
    pub stopwatch: Stopwatch,
    /// For secrets.
    pub random: Random,
    /// How guessing is slowed down.
    pub slowdown: SlowdownLimits,
    /// How long sessions live.
    pub sessions: SessionLimits,
}

/// Tenants, users, roles, API keys and sessions. Reading takes a snapshot and never waits; a change is durable
/// when it returns, and blocks for a sync of the disk.
pub struct Control {
    state: ArcSwap<State>,
    /// Held while a change is written: one at a time.
    store: Mutex<Store>,
    time: Time,
    /// Keys on their way to be forgotten.
    over: Mutex<Over>,
    /// Whether a key or session was used since the file was written.
    pub(crate) is_use_unwritten: AtomicBool,
    random: Random,
    pub(crate) slowdown: Mutex<Slowdown>,
    pub(crate) verified: Mutex<Verified>,
    pub(crate) session_limits: SessionLimits,
    /// Held while a file of one is written or read.
    pub(crate) saved: Mutex<SavedObjects>,
    /// What passwords of users who do not exist are compared with.
    pub(crate) nobodys_hash: String,
}

impl std::fmt::Debug for Control {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Control").finish_non_exhaustive()
    }
}

impl Control {
    /// Opens the folder. Fails if the record in it is damaged.
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
            slowdown: Mutex::new(Slowdown::new(parts.slowdown)),
            verified: Mutex::new(Verified::new(pepper)),
            session_limits: parts.sessions,
            saved: Mutex::new(saved),
            nobodys_hash: passwords::hash("nobody has this password", salt)?,
        })
    }

    /// The state now.
    pub(crate) fn state(&self) -> Arc<State> {
        self.state.load_full()
    }

    /// The time that keys and sessions are held against.
    pub(crate) fn now_ms(&self) -> i64 {
        self.time.now_ms()
    }

    /// Makes the next state of the present one: durable, or not at all.
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

    /// Writes down when keys and sessions were used last, if any was since. To be called once a minute or so:
    /// whoever reads that time does not care for seconds.
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

    /// Random bytes for a secret.
    pub(crate) fn draw<const N: usize>(&self) -> [u8; N] {
        let mut bytes = [0; N];
        (self.random)(&mut bytes);
        bytes
    }

    /// Whether there are users in a folder that nobody has open; makes nothing.
    pub fn has_users_in(disk: Arc<dyn Disk>, folder: &Path) -> Result<bool> {
        let state = Store::at(disk, folder).read()?;
        Ok(state.is_some_and(|state| !state.users.is_empty()))
    }

    /// Lets the next start go on although the record of a folder is lost: it begins with no users. A record that is there
    /// stays.
    pub fn accept_lost_record(disk: Arc<dyn Disk>, folder: &Path) -> Result<()> {
        Store::at(disk, folder).accept_loss()
    }

    /// Whether anybody can sign in.
    pub fn has_users(&self) -> bool {
        !self.state().users.is_empty()
    }

    /// Whether the operator is there and may not sign in.
    pub fn is_operator_disabled(&self) -> bool {
        self.state().users.get(OPERATOR).is_some_and(|user| !user.enabled)
    }

    /// Whether the operator is there and signs in with this password.
    pub fn is_operator_password(&self, password: &Password) -> bool {
        let state = self.state();
        let operator = state.users.get(OPERATOR).filter(|user| user.enabled);
        operator.is_some_and(|user| passwords::matches(&password.0, &user.password_hash.0))
    }

    /// Makes the first operator, or gives him a new password and lets him sign in. Returns his name.
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

    /// A password that nobody can guess: 120 random bits in 20 characters.
    pub fn make_password(&self) -> Password {
        use base64::Engine as _;
        Password(base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(self.draw::<15>()))
    }
}
