//! The console that is built into this binary (see `build.rs`).

use firn_api::{Asset, Assets};

const FILES: &[Asset] = include!(concat!(env!("OUT_DIR"), "/console.rs"));

/// Returns its files; none if `console/dist` was absent when the binary was built.
pub(crate) fn assets() -> Assets {
    Assets::new(FILES)
}
