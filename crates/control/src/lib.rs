//! Access control: tenants, users, roles, API keys and sessions, and their durable record.
//!
//! [`Control`] answers three questions: who sent these credentials ([`Control::authenticate`]), may the caller use this
//! endpoint, and on whose events ([`Identity::scope`]). It also stores what operators declare about tenants, and
//! objects that users save for each other ([`Control::saved_objects`]). Its state is one small file, which every change
//! replaces completely, and a snapshot in memory that readers never wait for.
//!
//! The crate also decides what happens to events with time: removal of old events ([`RetentionController::drop_old`]), deletion of
//! tenants ([`RetentionController::delete_tenants`]) and placement of tenants ([`placement`]). It executes the lifecycle policies of
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
mod entity_limits;
mod erasure_statement;
mod identity;
pub mod ilm;
mod passwords;
pub mod placement;
mod privilege;
mod quotas;
mod retention;
mod retention_controller;
mod roles;
mod saved_objects;
mod sessions;
mod sign_in_throttle;
pub mod slm;
mod snapshot_erasure;
mod state;
mod store;
mod tenant_deletions;
mod tenants;
mod users;
mod verified_passwords;

pub use api_keys::{ApiKey, CreatedApiKey, KeyFilter, NewApiKey};
pub use authenticate::{Authentication, Credentials, PasswordCheck};
pub use control::{Clock, Control, Parts, Random, Stopwatch};
pub use deletion::{Deletion, DeletionRecords, IndexDeletion, IndexState};
pub use erasure_statement::{RemainingSnapshot, SnapshotRewritten, SnapshotsRewritten};
pub use identity::{Identity, Principal};
pub use privilege::{Privilege, PrivilegeSet};
pub use quotas::{Exceeded, Ingest, Meters, SearchPermit};
pub use retention_controller::RetentionController;
pub use roles::{IndexEntry, Role, RoleDescriptor};
pub use saved_objects::{DamagedSaved, NewSaved, Saved, SavedKind};
pub use sessions::{Session, SessionLimits, SessionToken, SignedIn, View};
pub use sign_in_throttle::{Attempt, SignInThrottleLimits};
pub use tenants::TenantRecord;
pub use users::{NewUser, Password, User};
