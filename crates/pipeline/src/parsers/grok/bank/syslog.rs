//! Syslog lines, and what Linux' authentication writes into them.

pub(super) const PATTERNS: &[(&str, &str)] = &[
    ("PROG", r"[\x21-\x5a\x5c\x5e-\x7e]+"),
    ("SYSLOGPROG", r"%{PROG:process.name}(?:\[%{POSINT:process.pid:int}\])?"),
    ("SYSLOGHOST", r"%{IPORHOST}"),
    (
        "SYSLOGFACILITY",
        r"<%{NONNEGINT:log.syslog.facility.code:int}.%{NONNEGINT:log.syslog.priority:int}>",
    ),
    (
        "SYSLOGBASE",
        r"%{SYSLOGTIMESTAMP:timestamp} (?:%{SYSLOGFACILITY} )?%{SYSLOGHOST:host.hostname} %{SYSLOGPROG}:",
    ),
    (
        "SYSLOGBASE2",
        concat!(
            r"(?:%{SYSLOGTIMESTAMP:timestamp}|%{TIMESTAMP_ISO8601:timestamp})(?: %{SYSLOGFACILITY})?",
            r"(?: %{SYSLOGHOST:host.hostname})?(?: %{SYSLOGPROG}:)?",
        ),
    ),
    ("SYSLOGLINE", r"%{SYSLOGBASE2} %{GREEDYDATA:message}"),
    (
        "SYSLOGPAMSESSION",
        concat!(
            r"%{SYSLOGBASE} (?=%{GREEDYDATA:message})%{WORD:system.auth.pam.module}\(%{DATA:system.auth.pam.origin}\):",
            r" session %{WORD:system.auth.pam.session_state} for user %{USERNAME:user.name}(?: by %{GREEDYDATA})?",
        ),
    ),
    ("CRON_ACTION", r"[A-Z ]+"),
    (
        "CRONLOG",
        r"%{SYSLOGBASE} \(%{USER:user.name}\) %{CRON_ACTION:system.cron.action} \(%{DATA:message}\)",
    ),
    ("SYSLOG5424PRINTASCII", r"[!-~]+"),
    ("SYSLOG5424PRI", r"<%{NONNEGINT:log.syslog.priority:int}>"),
    ("SYSLOG5424SD", r"\[%{DATA}\]+"),
    (
        "SYSLOG5424BASE",
        concat!(
            r"%{SYSLOG5424PRI}%{NONNEGINT:system.syslog.version} +(?:-|%{TIMESTAMP_ISO8601:timestamp})",
            r" +(?:-|%{IPORHOST:host.hostname}) +(?:-|%{SYSLOG5424PRINTASCII:process.name})",
            r" +(?:-|%{POSINT:process.pid:int}(?= )|%{SYSLOG5424PRINTASCII}) +(?:-|%{SYSLOG5424PRINTASCII:event.code})",
            r" +(?:-|%{SYSLOG5424SD:system.syslog.structured_data})?",
        ),
    ),
    ("SYSLOG5424LINE", r"%{SYSLOG5424BASE} +%{GREEDYDATA:message}"),
    // The published bank has no patterns for sshd and sudo; these are firn's.
    (
        "SSHD_LOGIN",
        concat!(
            r"%{SSHD_RESULT:event.outcome} %{NOTSPACE:system.auth.ssh.method} for (?:invalid user )?",
            r"%{DATA:user.name} from %{IPORHOST:source.address} port %{NONNEGINT:source.port:int}",
            r"(?: ssh2(?:: %{GREEDYDATA:system.auth.ssh.signature})?)?",
        ),
    ),
    ("SSHD_RESULT", r"(?:Accepted|Failed)"),
    (
        "SSHD_INVALID_USER",
        r"Invalid user %{DATA:user.name} from %{IPORHOST:source.address}(?: port %{NONNEGINT:source.port:int})?",
    ),
    (
        "SSHD_DISCONNECT",
        concat!(
            r"(?:Received disconnect|Connection closed|Disconnected) (?:from|by) (?:invalid user )?",
            r"(?:user )?(?:%{USERNAME:user.name} )?%{IP:source.address}(?: port %{NONNEGINT:source.port:int})?",
        ),
    ),
    (
        "SUDO_COMMAND",
        concat!(
            r" *%{USERNAME:user.name} : (?:%{DATA:system.auth.sudo.error} ; )?TTY=%{DATA:system.auth.sudo.tty} ;",
            r" PWD=%{DATA:system.auth.sudo.pwd} ; USER=%{DATA:system.auth.sudo.user} ;",
            r"(?: [A-Z]+=%{DATA} ;)* COMMAND=%{GREEDYDATA:system.auth.sudo.command}",
        ),
    ),
];
