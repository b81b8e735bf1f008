//! Packs that are part of the program.

use super::{Pack, PackError};

const BUILTIN: &[(&str, &str)] = &[
    ("apache", include_str!("../../packs/apache.yml")),
    ("apache-error", include_str!("../../packs/apache-error.yml")),
    ("cef", include_str!("../../packs/cef.yml")),
    ("company", include_str!("../../packs/company.yml")),
    ("linux-auth", include_str!("../../packs/linux-auth.yml")),
    ("nginx", include_str!("../../packs/nginx.yml")),
    ("nginx-error", include_str!("../../packs/nginx-error.yml")),
    ("otel", include_str!("../../packs/otel.yml")),
    ("suricata", include_str!("../../packs/suricata.yml")),
    ("windows", include_str!("../../packs/windows.yml")),
    ("zeek", include_str!("../../packs/zeek.yml")),
];

/// Iterates over the names of the packs that are part of the program.
pub fn builtin_names() -> impl Iterator<Item = &'static str> {
    BUILTIN.iter().map(|(name, _)| *name)
}

/// Parses a pack that is part of the program; nothing if there is none of this name.
///
/// # Errors
/// Never, as the tests parse all packs.
pub fn builtin(name: &str) -> Option<Result<Pack, PackError>> {
    let (_, yaml) = BUILTIN.iter().find(|(builtin, _)| *builtin == name)?;
    Some(Pack::parse(yaml))
}
