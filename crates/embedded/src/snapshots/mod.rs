//! Open repositories and the snapshots that run in them.
//!
//! `firn_storage::repository` defines the objects of a repository and how they are committed. This module turns
//! segments into splits for an upload, and splits into shards for a restore. What surprises: nothing here survives a
//! restart. A snapshot that was not committed never existed, and the next snapshot removes its uploaded objects.

mod create;
pub(crate) mod damage_counters;
mod existing_objects;
mod failed_snapshots;
mod filter_tables;
mod manage;
mod remount;
mod repair;
mod repositories;
mod repository_leases;
mod restore;
mod restores;
mod rewrite;
mod rewrite_memo;
mod running_snapshots;
mod select;
pub(crate) mod service;
mod status;
mod tenant;
mod upload;
mod verifications;
mod verify;

pub(crate) use self::create::scratch_dir;
pub(crate) use self::repositories::Repositories;
pub(crate) use self::repository_leases::{Reading, Use, Work};
pub(crate) use self::restores::with_restored;
