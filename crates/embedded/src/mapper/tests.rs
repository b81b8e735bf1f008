//! Tests of the mapper.
