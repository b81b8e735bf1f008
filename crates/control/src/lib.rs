//! Access control: tenants, users, roles, API keys and sessions, and their durable record.
//!
//! [`Control`] answers three questions: who sent these credentials ([`Control::authenticate`]), may the caller use this
//! endpoint, and on whose events ([`Identity::scope`]). It also stores what operators declare about tenants, and
//! objects that users save for each other ([`Control::saved_objects`]). Its state is one small file, which every change
//! replaces completely, and a snapshot in memory that readers never wait for.
//!
//! The crate also decides what happens to events with time: removal of old events ([`Life::drop_old`]), deletion of
//! tenants ([`Life::delete_tenants`]) and placement of tenants ([`placement`]). It executes the lifecycle policies of
//! indices ([`ilm`]) and snapshots ([`slm`]).
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
mod deletion;
mod deletion_snapshots;
mod identity;
pub mod ilm;
mod life;
mod life_snapshots;
mod passwords;
pub mod placement;
mod privilege;
mod quotas;
mod retention;
mod roles;
mod room;
mod saved;
mod sessions;
pub mod slm;
mod slowdown;
mod state;
mod store;
mod tenants;
mod users;
mod verified;

pub use api_keys::{ApiKey, CreatedApiKey, KeyFilter, NewApiKey};
pub use authenticate::{Authentication, Credentials, PasswordCheck};
pub use control::{Clock, Control, Parts, Random, Stopwatch};
pub use deletion::{Deletion, IndexDeletion, IndexState};
pub use deletion_snapshots::{SnapshotLeft, SnapshotRewritten, SnapshotsRewritten};
pub use identity::{Identity, Principal};
pub use life::Life;
pub use privilege::{Privilege, PrivilegeSet};
pub use quotas::{Exceeded, Ingest, Meters, SearchPermit};
pub use roles::{IndexEntry, Role, RoleDescriptor};
pub use saved::{DamagedSaved, NewSaved, Saved, SavedKind};
pub use sessions::{Session, SessionLimits, SessionToken, SignedIn, View};
pub use slowdown::{Attempt, SlowdownLimits};
pub use tenants::TenantRecord;
pub use users::{NewUser, Password, User};
