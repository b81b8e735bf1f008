//! Levels, names and merging of all kinds together.
