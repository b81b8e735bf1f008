//! Bucket keys, and how keys and values print.

/// How a bucket key or metric of a field prints; resolved from the mapping by the engine.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum ValueFormat {
    /// Strings as they are; numbers as JSON numbers.
    #[default]
    Raw,
    /// ms since epoch, printed with this format as `…_as_string`.
    Date(std::sync::Arc<firn_model::dates::DateFormat>),
    /// 0 and 1 with `true` and `false` as `key_as_string`.
    Boolean,
    /// An integer type: `key` has no fraction.
    Integer,
}

/// A bucket key. Strings order by bytes, numbers by value.
#[derive(Debug, Clone, PartialEq)]
pub enum Key {
    /// Keyword, ip (printed form) and the like.
    Str(String),
    /// Integers, dates (ms), booleans.
    I64(i64),
    /// `unsigned_long` beyond i64.
    U64(u64),
    /// Floats.
    F64(f64),
}

/// A [`Key`] in hashable form (f64 by its bits).
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum KeyBytes {
    /// See [`Key::Str`].
    Str(Box<str>),
    /// See [`Key::I64`].
    I64(i64),
    /// See [`Key::U64`].
    U64(u64),
    /// Order-preserving bits of an f64.
    F64(u64),
}
