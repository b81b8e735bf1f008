//! `_snapshot`: repositories, snapshots and restores.

pub(crate) mod body;
pub(crate) mod create;
pub(crate) mod list;
pub(crate) mod mount;
pub(crate) mod repositories;
pub(crate) mod restore;
pub(crate) mod searchable;
pub(crate) mod status;
pub(crate) mod warm;
