//! Access control: tenants, users, roles, API keys and sessions, and their durable record.
//!
//! [`Control`] answers three questions: who sent these credentials ([`Control::authenticate`]), may the caller use this
//! endpoint, and on whose events ([`Identity::scope`]). It also stores what operators declare about tenants, and
//! objects that users save for each other ([`Control::saved_objects`]). Its state is one small file, which every change
//! replaces completely, and a snapshot in memory that readers never wait for.
//!
//! This state is beside the engine and not in its catalog: the edge must check access even if the engine runs on
//! another machine.
//!
//! This crate knows neither HTTP nor headers, opens no socket, reads no clock and draws no random number: disk, clock
//! and randomness come in through [`Parts`].

mod api_keys;
mod authenticate;
mod clock;
mod control;
mod credential_changes;
mod entity_limits;
mod identity;
mod passwords;
mod privilege;
mod quotas;
mod roles;
mod saved_objects;
mod sessions;
mod sign_in_throttle;
mod state;
mod store;
mod tenant_deletions;
mod tenants;
mod users;
mod verified_passwords;

pub use api_keys::{ApiKey, CreatedApiKey, KeyFilter, NewApiKey};
pub use authenticate::{Authentication, Credentials, PasswordCheck};
pub use control::{Clock, Control, Parts, Random, Stopwatch};
pub use identity::{Identity, Principal};
pub use privilege::{Privilege, PrivilegeSet};
pub use quotas::{Exceeded, Ingest, Meters, SearchPermit};
pub use roles::{IndexEntry, Role, RoleDescriptor};
pub use saved_objects::{DamagedSaved, NewSaved, Saved, SavedKind};
pub use sessions::{Session, SessionLimits, SessionToken, SignedIn, View};
pub use sign_in_throttle::{Attempt, SignInThrottleLimits};
pub use tenants::TenantRecord;
pub use users::{NewUser, Password, User};
