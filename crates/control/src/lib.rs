//! Who may do what: tenants, users, roles, API keys and sessions, and their durable record.
//!
//! [`Control`] answers three questions: who sent these credentials ([`Control::authenticate`]), may
//! they use this endpoint, and on whose events ([`Identity::scope`]). It also keeps what operators
//! declare about tenants, and what people save for each other ([`Control::saved_objects`]). Its state is one small file, replaced as a whole by every change, and a
//! snapshot in memory that readers never wait for.
//!
//! It also decides what time does to events: which are too old ([`Life::drop_old`]), how the deletion of
//! a tenant goes on ([`Life::delete_tenants`]), and where tenants should lie ([`placement`]); and it carries
//! out the lifecycle policies of indices ([`ilm`]) and snapshots ([`slm`]).
//!
//! What surprises: this lies beside the engine and not in its catalog. Who may ask is the edge's
//! business also when the engine is another machine.
//!
//! This crate knows neither HTTP nor headers, opens no socket, reads no clock and draws no random
//! number by itself: disk, clock and randomness come in through [`Parts`].

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
