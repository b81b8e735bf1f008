//! Fields of the Elastic Common Schema that packs use: `name`, `name:type` if it is no keyword, `name*` if it is a list.

/// Objects, and the fields inside them.
pub(super) const FIELDS: &[(&str, &str)] = &[
    ("", "@timestamp:date labels:object message tags*"),
    ("agent", "id name type version"),
    (
        "client",
        "address as.number:long as.organization.name geo.city_name geo.continent_code geo.continent_name \
         geo.country_iso_code geo.country_name geo.location:geo_point geo.postal_code geo.region_iso_code \
         geo.region_name geo.timezone ip:ip port:long",
    ),
    ("cloud", "account.id availability_zone provider region service.name"),
    ("container", "id image.hash.all* image.name image.tag* name runtime"),
    (
        "destination",
        "address as.number:long as.organization.name bytes:long domain geo.city_name geo.continent_code \
         geo.continent_name geo.country_iso_code geo.country_name geo.location:geo_point geo.postal_code \
         geo.region_iso_code geo.region_name geo.timezone ip:ip mac nat.ip:ip nat.port:long packets:long \
         port:long registered_domain user.group.name user.id user.name",
    ),
    ("device", "id manufacturer model.identifier model.name"),
    (
        "dll",
        "code_signature.exists:boolean code_signature.status code_signature.subject_name hash.md5 hash.sha1 \
         hash.sha256 name path pe.company pe.description pe.file_version pe.imphash pe.original_file_name \
         pe.product",
    ),
    (
        "dns",
        "id question.class question.name question.type resolved_ip*:ip response_code type",
    ),
    ("ecs", "version"),
    ("email", "from.address* subject to.address*"),
    ("error", "message stack_trace type"),
    (
        "event",
        "action category* code created:date dataset duration:long end:date id ingested:date kind module \
         original outcome provider reason severity:long start:date timezone type*",
    ),
    ("faas", "coldstart:boolean execution name trigger.type version"),
    (
        "file",
        "accessed:date attributes* created:date ctime:date directory extension fork_name gid group hash.md5 \
         hash.sha1 hash.sha256 inode mime_type mode mtime:date name owner path pe.imphash size:long \
         target_path uid x509.alternative_names* x509.issuer.distinguished_name x509.not_after:date \
         x509.not_before:date x509.public_key_algorithm x509.public_key_size:long x509.serial_number \
         x509.signature_algorithm x509.subject.distinguished_name x509.version_number",
    ),
    (
        "gen_ai",
        "agent.description agent.id agent.name operation.name output.type provider.name \
         request.choice.count:long request.frequency_penalty:double request.max_tokens:long request.model \
         request.presence_penalty:double request.seed:long request.temperature:double request.top_k:double \
         request.top_p:double response.id response.model token.type tool.call.id tool.name tool.type \
         usage.input_tokens:long usage.output_tokens:long",
    ),
    ("group", "domain id name"),
    (
        "host",
        "architecture cpu.usage:double id ip*:ip mac* name os.family os.full os.name os.platform os.type \
         type uptime:long",
    ),
    (
        "http",
        "request.body.bytes:long request.bytes:long request.method request.referrer \
         response.body.bytes:long response.bytes:long response.mime_type response.status_code:long version",
    ),
    (
        "log",
        "file.path level logger syslog.facility.code:long syslog.facility.name syslog.priority:long \
         syslog.severity.code:long syslog.severity.name",
    ),
    (
        "network",
        "application bytes:long community_id direction protocol transport type vlan.id",
    ),
    (
        "observer",
        "egress.interface.name egress.zone geo.name hostname ingress.interface.name ingress.zone ip*:ip \
         mac* name product serial_number vendor version",
    ),
    ("organization", "id name"),
    (
        "process",
        "args* args_count:long command_line entity_id executable exit_code:long group_leader.pid:long \
         hash.md5 hash.sha1 hash.sha256 interactive:boolean name parent.command_line parent.entity_id \
         parent.executable parent.name parent.pid:long pe.company pe.description pe.file_version pe.imphash \
         pe.original_file_name pe.product pid:long real_user.id real_user.name saved_user.id \
         saved_user.name session_leader.pid:long thread.id:long title user.id user.name vpid:long \
         working_directory",
    ),
    ("registry", "data.strings* path"),
    ("related", "hash* hosts* ip*:ip user*"),
    ("rule", "category description id name ruleset version"),
    (
        "server",
        "address as.number:long as.organization.name geo.city_name geo.continent_code geo.continent_name \
         geo.country_iso_code geo.country_name geo.location:geo_point geo.postal_code geo.region_iso_code \
         geo.region_name geo.timezone ip:ip port:long",
    ),
    ("service", "environment name node.name state version"),
    (
        "source",
        "address as.number:long as.organization.name bytes:long domain geo.city_name geo.continent_code \
         geo.continent_name geo.country_iso_code geo.country_name geo.location:geo_point geo.postal_code \
         geo.region_iso_code geo.region_name geo.timezone ip:ip mac nat.ip:ip nat.port:long packets:long \
         port:long registered_domain user.group.name user.id user.name",
    ),
    ("span", "id"),
    ("threat", "feed.name software.name tactic.name* technique.id*"),
    (
        "tls",
        "cipher client.certificate client.certificate_chain* client.hash.md5 client.hash.sha1 \
         client.hash.sha256 client.issuer client.ja3 client.not_after:date client.not_before:date \
         client.server_name client.subject client.supported_ciphers* curve established:boolean \
         next_protocol resumed:boolean server.certificate server.certificate_chain* server.hash.md5 \
         server.hash.sha1 server.hash.sha256 server.issuer server.ja3s server.not_after:date \
         server.not_before:date server.subject server.x509.public_key_size:long server.x509.serial_number \
         version",
    ),
    ("trace", "id"),
    (
        "url",
        "domain extension fragment full original path port:long query registered_domain scheme subdomain \
         top_level_domain",
    ),
    (
        "user",
        "domain effective.domain effective.name email full_name hash id name roles* target.domain target.id \
         target.name",
    ),
    ("user_agent", "name original version"),
    ("vulnerability", "id"),
];
