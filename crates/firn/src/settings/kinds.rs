//! Value formats of settings.

/// The default of a setting.
#[derive(Debug, Clone, Copy)]
pub(crate) enum DefaultValue {
    /// A fixed text, as if it had been typed.
    Fixed(&'static str),
    /// Computed at the start; the text says how.
    Derived(&'static str),
}

/// Format of the values of a setting.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Kind {
    /// Any text that is not empty.
    Text,
    /// A host name or address.
    Host,
    /// 0 to 65535.
    Port,
    /// One path.
    Path,
    /// Paths, as a YAML list or separated by commas.
    Paths,
    /// A size in bytes with Elasticsearch's units (`512mb`, powers of 1024), inclusive bounds.
    Bytes(u64, u64),
    /// A size in bytes or a percentage of the machine's memory, at least this many bytes.
    MemoryShare(u64),
    /// A size in bytes, or a percentage of the quantity that the help names.
    BytesOrShare,
    /// A percentage or ratio of the disk that may be used, or the bytes that must stay free.
    Watermark,
    /// A time with Elasticsearch's units (`500ms`), or `-1` for never.
    DurationOrNever,
    /// A time with Elasticsearch's units.
    Duration,
    /// A whole number, inclusive bounds.
    Count(u64, u64),
    /// One of these words.
    Choice(&'static [&'static str]),
    /// Text that is only read from the keystore.
    Secret,
}

impl Kind {
    /// Returns the unit or format, for the reference.
    pub(crate) fn unit(self) -> String {
        match self {
            Self::Text => "text".to_owned(),
            Self::Host => "host name or address".to_owned(),
            Self::Port => "port, 0 to 65535".to_owned(),
            Self::Path => "path".to_owned(),
            Self::Paths => "list of paths".to_owned(),
            Self::Bytes(min, max) => format!("bytes, {} to {}", print_bytes(min), print_bytes(max)),
            Self::MemoryShare(min) => format!("bytes or % of memory, at least {}", print_bytes(min)),
            Self::BytesOrShare => "bytes or %".to_owned(),
            Self::Watermark => "% or ratio of the disk used, or bytes free".to_owned(),
            Self::DurationOrNever => "time, or -1 for never".to_owned(),
            Self::Duration => "time".to_owned(),
            Self::Count(min, max) => format!("number, {min} to {max}"),
            Self::Choice(words) => words.join(" or "),
            Self::Secret => "secret".to_owned(),
        }
    }
}

pub(super) const MIB: u64 = 1024 * 1024;
pub(super) const GIB: u64 = 1024 * MIB;

fn print_bytes(bytes: u64) -> String {
    match bytes {
        0 => "0".to_owned(),
        n if n % GIB == 0 => format!("{}gb", n / GIB),
        n if n % MIB == 0 => format!("{}mb", n / MIB),
        n if n % 1024 == 0 => format!("{}kb", n / 1024),
        n => format!("{n}b"),
    }
}
