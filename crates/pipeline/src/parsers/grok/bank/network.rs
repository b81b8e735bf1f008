//! Addresses, hosts and URIs.

pub(super) const PATTERNS: &[(&str, &str)] = &[
    ("CISCOMAC", r"(?:[A-Fa-f0-9]{4}\.){2}[A-Fa-f0-9]{4}"),
    ("WINDOWSMAC", r"(?:[A-Fa-f0-9]{2}-){5}[A-Fa-f0-9]{2}"),
    ("COMMONMAC", r"(?:[A-Fa-f0-9]{2}:){5}[A-Fa-f0-9]{2}"),
    ("MAC", r"(?:%{CISCOMAC}|%{WINDOWSMAC}|%{COMMONMAC})"),
    (
        "IPV4",
        concat!(
            r"(?<![0-9])(?:(?:25[0-5]|2[0-4][0-9]|[0-1]?[0-9]{1,2})\.){3}",
            r"(?:25[0-5]|2[0-4][0-9]|[0-1]?[0-9]{1,2})(?![0-9])",
        ),
    ),
    ("IP", r"(?:%{IPV6}|%{IPV4})"),
    (
        "HOSTNAME",
        r"\b[0-9A-Za-z][0-9A-Za-z-]{0,62}(?:\.[0-9A-Za-z][0-9A-Za-z-]{0,62})*(?:\.?|\b)",
    ),
    ("IPORHOST", r"(?:%{IP}|%{HOSTNAME})"),
    ("HOSTPORT", r"%{IPORHOST}:%{POSINT}"),
    ("URIPROTO", r"[A-Za-z](?:[A-Za-z0-9+.-]+)+"),
    ("URIHOST", r"%{IPORHOST}(?::%{POSINT})?"),
    ("URIPATH", r"(?:/[A-Za-z0-9$.+!*'(){},~:;=@#%&_-]*)+"),
    ("URIQUERY", r"[A-Za-z0-9$.+!*'|(){},~@#%&/=:;_?\-\[\]<>]*"),
    ("URIPARAM", r"\?%{URIQUERY}"),
    ("URIPATHPARAM", r"%{URIPATH}(?:\?%{URIQUERY})?"),
    (
        "URI",
        r"%{URIPROTO}://(?:%{USER}(?::[^@]*)?@)?(?:%{URIHOST})?(?:%{URIPATH}(?:\?%{URIQUERY})?)?",
    ),
];

/// Definition of `IPV6`: all forms of RFC 4291, with a zone. `::` may stand for any number of groups, so there is one
/// alternative for each number of groups before it.
pub(super) fn ipv6() -> String {
    const GROUP: &str = "[0-9A-Fa-f]{1,4}";
    const IPV4: &str =
        r"(?:(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])\.){3}(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])";
    let mut forms = vec![format!("(?:{GROUP}:){{7}}{GROUP}"), format!("(?:{GROUP}:){{6}}{IPV4}")];
    for before in (0..=7_usize).rev() {
        let head = match before {
            0 => String::new(),
            _ => format!("{GROUP}(?::{GROUP}){{{}}}", before - 1),
        };
        let tail = match before {
            7 => String::new(),
            6 => format!("(?:{GROUP})?"),
            _ => format!(
                "(?:(?:{GROUP}:){{0,{}}}{IPV4}|(?:{GROUP}:){{0,{}}}{GROUP})?",
                5 - before,
                6 - before
            ),
        };
        forms.push(format!("{head}::{tail}"));
    }
    // All forms begin like this. The condition refuses names and addresses of version 4 at once.
    format!("(?=[0-9A-Fa-f]{{0,4}}:)(?:{})(?:%[0-9A-Za-z._~-]+)?", forms.join("|"))
}
