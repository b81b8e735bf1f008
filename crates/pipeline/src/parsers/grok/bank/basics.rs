//! Words, numbers, quoted texts, paths, levels.

pub(super) const PATTERNS: &[(&str, &str)] = &[
    ("USERNAME", r"[a-zA-Z0-9._-]+"),
    ("USER", r"%{USERNAME}"),
    (
        "EMAILLOCALPART",
        r"[a-zA-Z0-9!#$%&'*+/=?^_`{|}~-]{1,64}(?:\.[a-zA-Z0-9!#$%&'*+/=?^_`{|}~-]{1,62}){0,63}",
    ),
    ("EMAILADDRESS", r"%{EMAILLOCALPART}@%{HOSTNAME}"),
    ("INT", r"[+-]?[0-9]+"),
    ("BASE10NUM", r"(?<![0-9.+-])(?>[+-]?(?:[0-9]+(?:\.[0-9]+)?|\.[0-9]+))"),
    ("NUMBER", r"%{BASE10NUM}"),
    ("BASE16NUM", r"(?<![0-9A-Fa-f])[+-]?(?:0x)?[0-9A-Fa-f]+"),
    (
        "BASE16FLOAT",
        r"\b(?<![0-9A-Fa-f.])[+-]?(?:0x)?(?:[0-9A-Fa-f]+(?:\.[0-9A-Fa-f]*)?|\.[0-9A-Fa-f]+)\b",
    ),
    ("POSINT", r"\b[1-9][0-9]*\b"),
    ("NONNEGINT", r"\b[0-9]+\b"),
    ("WORD", r"\b\w+\b"),
    ("NOTSPACE", r"\S+"),
    ("SPACE", r"\s*"),
    ("DATA", r".*?"),
    ("GREEDYDATA", r".*"),
    (
        "QUOTEDSTRING",
        r#"(?>(?<!\\)(?>"(?>\\.|[^\\"]+)*"|'(?>\\.|[^\\']+)*'|`(?>\\.|[^\\`]+)*`))"#,
    ),
    ("QS", r"%{QUOTEDSTRING}"),
    ("UUID", r"[A-Fa-f0-9]{8}-(?:[A-Fa-f0-9]{4}-){3}[A-Fa-f0-9]{12}"),
    (
        "URN",
        r"urn:[0-9A-Za-z][0-9A-Za-z-]{0,31}:(?:%[0-9a-fA-F]{2}|[0-9A-Za-z()+,.:=@;$_!*'/?#-])+",
    ),
    ("PATH", r"(?:%{UNIXPATH}|%{WINPATH})"),
    ("UNIXPATH", r"(?:/[[:alnum:]_%!$@:.,+~-]*)+"),
    ("WINPATH", r"(?>[A-Za-z]+:|\\)(?:\\[^\\?*]*)+"),
    ("TTY", r"/dev/(?:pts|tty[pq]?)(?:\w+)?/?[0-9]+"),
    ("BACULA_CAPACITY", r"%{INT}(?:,%{INT})*"),
    (
        "LOGLEVEL",
        concat!(
            r"(?i:alert|trace|debug|notice|info?(?:rmation)?|warn?(?:ing)?|err?(?:or)?|crit?(?:ical)?|fatal|severe",
            r"|emerg(?:ency)?)",
        ),
    ),
];
