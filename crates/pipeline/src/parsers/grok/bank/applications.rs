//! Applications: Java, Ruby, Redis, PostgreSQL, Maven.

pub(super) const PATTERNS: &[(&str, &str)] = &[
    ("JAVACLASS", r"(?:[a-zA-Z$_][a-zA-Z$_0-9]*\.)*[a-zA-Z$_][a-zA-Z$_0-9]*"),
    ("JAVAFILE", r"(?:[a-zA-Z$_0-9. -]+)"),
    ("JAVAMETHOD", r"(?:<(?:cl)?init>|[a-zA-Z$_][a-zA-Z$_0-9]*)"),
    ("JAVATHREAD", r"(?:[A-Z]{2}-Processor[\d]+)"),
    ("JAVALOGMESSAGE", r"(?:.*)"),
    (
        "JAVASTACKTRACEPART",
        concat!(
            r"%{SPACE}at %{JAVACLASS:java.log.origin.class.name}\.%{JAVAMETHOD:log.origin.function}",
            r"\(%{JAVAFILE:log.origin.file.name}(?::%{INT:log.origin.file.line:int})?\)",
        ),
    ),
    ("RUBY_LOGLEVEL", r"(?:DEBUG|FATAL|ERROR|WARN|INFO)"),
    (
        "RUBY_LOGGER",
        concat!(
            r"[DFEWI], \[%{TIMESTAMP_ISO8601:timestamp} #%{POSINT:process.pid:int}\]",
            r" *%{RUBY_LOGLEVEL:log.level} -- +%{DATA:process.name}: %{GREEDYDATA:message}",
        ),
    ),
    (
        "REDISLOG",
        r"\[%{POSINT:process.pid:int}\] %{REDISTIMESTAMP:timestamp} \* ",
    ),
    (
        "POSTGRESQL",
        concat!(
            r"%{DATESTAMP:timestamp} %{TZ:event.timezone} %{DATA:user.name} %{GREEDYDATA:postgresql.log.connection_id}",
            r" %{POSINT:process.pid:int}",
        ),
    ),
    ("MAVEN_VERSION", r"\d+\.\d+\.\d+(?:[.-](?:RELEASE|SNAPSHOT))?"),
];
