//! One file per processor.

pub(crate) mod set;
