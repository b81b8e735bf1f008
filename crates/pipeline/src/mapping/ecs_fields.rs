//! Fields of the Elastic Common Schema that packs use: `name`, `name:type` if it is no keyword, `name*` if it is a list.

/// Objects, and the fields inside them.
pub(super) const FIELDS: &[(&str, &str)] = &[
    (
        "",
        "@timestamp:date labels:object message tags*",
    ),
    (
        "agent",
        "id name type version",
    ),
    (
        "client",
        "as.number:long as.organization.name geo.city_name geo.continent_code geo.continent_name \
         geo.country_iso_code geo.country_name geo.location:geo_point geo.postal_code geo.region_iso_code \
         geo.region_name geo.timezone",
    ),
    (
        "destination",
        "as.number:long as.organization.name bytes:long domain geo.city_name geo.continent_code \
         geo.continent_name geo.country_iso_code geo.country_name geo.location:geo_point geo.postal_code \
         geo.region_iso_code geo.region_name geo.timezone ip:ip mac nat.ip:ip nat.port:long port:long \
         registered_domain user.group.name user.id user.name",
    ),
    (
        "dll",
        "code_signature.exists:boolean code_signature.status code_signature.subject_name hash.md5 hash.sha1 \
         hash.sha256 name path pe.company pe.description pe.file_version pe.imphash pe.original_file_name \
         pe.product",
    ),
    (
        "dns",
        "question.name response_code",
    ),
    (
        "ecs",
        "version",
    ),
    (
        "event",
        "action category* code created:date dataset duration:long end:date id ingested:date kind module \
         original outcome provider reason severity:long start:date timezone type*",
    ),
    (
        "file",
        "created:date directory extension group hash.md5 hash.sha1 hash.sha256 inode mtime:date name path \
         pe.imphash size:long",
    ),
    (
        "group",
        "domain id name",
    ),
    (
        "host",
        "ip*:ip name os.family os.name os.type",
    ),
    (
        "http",
        "request.method request.referrer response.body.bytes:long response.status_code:long version",
    ),
    (
        "log",
        "level syslog.facility.code:long syslog.facility.name syslog.priority:long \
         syslog.severity.code:long syslog.severity.name",
    ),
    (
        "network",
        "application bytes:long direction protocol transport",
    ),
    (
        "observer",
        "egress.interface.name hostname ingress.interface.name ip*:ip mac* name product serial_number \
         vendor version",
    ),
    (
        "organization",
        "id name",
    ),
    (
        "process",
        "command_line entity_id executable exit_code:long hash.md5 hash.sha1 hash.sha256 name \
         parent.command_line parent.entity_id parent.executable parent.name parent.pid:long pe.company \
         pe.description pe.file_version pe.imphash pe.original_file_name pe.product pid:long thread.id:long \
         working_directory",
    ),
    (
        "registry",
        "data.strings* path",
    ),
    (
        "related",
        "hash* hosts* ip*:ip user*",
    ),
    (
        "rule",
        "id name",
    ),
    (
        "server",
        "as.number:long as.organization.name geo.city_name geo.continent_code geo.continent_name \
         geo.country_iso_code geo.country_name geo.location:geo_point geo.postal_code geo.region_iso_code \
         geo.region_name geo.timezone",
    ),
    (
        "service",
        "name",
    ),
    (
        "source",
        "address as.number:long as.organization.name bytes:long domain geo.city_name geo.continent_code \
         geo.continent_name geo.country_iso_code geo.country_name geo.location:geo_point geo.postal_code \
         geo.region_iso_code geo.region_name geo.timezone ip:ip mac nat.ip:ip nat.port:long port:long \
         registered_domain user.group.name user.id user.name",
    ),
    (
        "url",
        "domain original",
    ),
    (
        "user",
        "domain effective.domain effective.name id name target.domain target.id target.name",
    ),
    (
        "user_agent",
        "original",
    ),
];
