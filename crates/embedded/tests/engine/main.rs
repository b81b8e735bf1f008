//! The engine through its interface, on real folders and on a simulated disk.

mod answered;
mod catalog_crash;
mod clustering_cost;
mod contexts;
mod data_streams;
mod disk_full;
mod ending;
mod fields_in_use;
mod in_use;
mod isolation;
mod lifecycle;
mod model;
mod mount_damage;
mod mounts;
mod node;
mod periods;
mod pruning;
mod purge;
mod reading;
mod remount;
mod snapshots;
mod tenants;
mod terms_enum;
mod tiers;
mod usage;
mod writing;
