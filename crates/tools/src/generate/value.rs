//! Values of fields: their syntax in the table, in an event, and in a mapping.

use anyhow::{Context, Result, bail};

use super::random::{Random, mix};
use super::text::{
    TimeWriter, write_decimal, write_hex, write_ipv4, write_mac, write_padded, write_signed, write_unsigned, write_uuid,
};
use super::words::*;
use super::world::{Site, Subject, World};

/// Number of recurring public addresses and domain names.
const RECURRING_ADDRESSES: u64 = 5000;
const RECURRING_DOMAINS: usize = 4000;

/// Generator of a field's value.
#[derive(Debug, Clone)]
pub(crate) enum Value {
    /// `a|b|c`: one of these; numbers if all are.
    Pick { options: Vec<Box<[u8]>>, are_numbers: bool },
    /// `app`, `rule`, …: one of a named list.
    Listed(&'static [&'static str]),
    /// `int:MIN:MAX`
    Int { min: i64, max: i64 },
    /// `log:MIN:MAX`: small ones more often.
    Log { min: u64, max: u64 },
    /// `num:MIN:MAX:DECIMALS`
    Num { min: i64, max: i64, decimals: u32 },
    /// `yes:PERCENT`
    Yes { percent: u64 },
    /// `hex:DIGITS:PREFIX`
    Hex { digits: usize, prefix: Box<[u8]> },
    /// `digits:COUNT`
    Digits { count: usize },
    /// `words:MIN:MAX`
    Words { min: u64, max: u64 },
    /// `ago:SECONDS`: a time up to this long before the event.
    Ago { ms: u64 },
    /// `ahead:SECONDS`
    Ahead { ms: u64 },
    /// A single word without arguments.
    Simple(Simple),
}

macro_rules! simple_values {
    ($($variant:ident $word:literal $mapping:ident,)*) => {
        /// Values without arguments.
        #[derive(Debug, Clone, Copy)]
        pub(crate) enum Simple { $($variant,)* }

        impl Simple {
            fn parse(word: &str) -> Option<Self> {
                match word { $($word => Some(Self::$variant),)* _ => None }
            }

            fn mapping(self) -> Mapping {
                match self { $(Self::$variant => Mapping::$mapping,)* }
            }
        }
    };
}

simple_values! {
    Host "host" Keyword,
    User "user" Keyword,
    OtherUser "user2" Keyword,
    Email "email" Keyword,
    Department "dept" Keyword,
    System "os" Keyword,
    City "city" Keyword,
    Country "country" Keyword,
    Point "geo" GeoPoint,
    Peer "peer" Keyword,
    Pop "pop" Keyword,
    Isp "isp" Keyword,
    Ip "ip" Ip,
    LanIp "lan_ip" Ip,
    AnyIp "ip_any" Ip,
    PublicIp "pubip" Ip,
    DnsIp "dns_ip" Ip,
    MulticastIp "mcast_ip" Ip,
    Ip6 "ip6" Ip,
    PublicIp6 "ip6_public" Ip,
    Prefix6 "ip6_prefix" Keyword,
    Network "cidr" Keyword,
    LanNetwork "lan_cidr" Keyword,
    Mac "mac" Keyword,
    SourcePort "sport" Long,
    Port "port" Long,
    Domain "domain" Keyword,
    InternalHost "internal_host" Keyword,
    Url "url" Keyword,
    File "file" Keyword,
    Uuid "uuid" Keyword,
    Device "device" Keyword,
    Serial "serial" Keyword,
    Hash "hash" Keyword,
    Version "version" Keyword,
    Cve "cve" Keyword,
    Stack "stack" Text,
}

/// Elasticsearch's field types that the events need.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mapping {
    Keyword,
    Text,
    Long,
    Double,
    Boolean,
    Date,
    Ip,
    GeoPoint,
}

/// Inputs of a value.
pub(crate) struct Scene<'a> {
    pub(crate) world: &'a World,
    pub(crate) subject: Subject,
    pub(crate) time_ms: i64,
    pub(crate) random: &'a mut Random,
    pub(crate) times: &'a mut TimeWriter,
}

impl Value {
    pub(crate) fn parse(text: &str) -> Result<Self> {
        if text.contains('|') {
            let options: Vec<Box<[u8]>> = text
                .split('|')
                .map(|option| option.replace('~', " ").into_bytes().into())
                .collect();
            let are_numbers = text.split('|').all(|option| option.parse::<i64>().is_ok());
            return Ok(Self::Pick { options, are_numbers });
        }
        let mut parts = text.split(':');
        let word = parts.next().unwrap_or_default();
        let arguments: Vec<&str> = parts.collect();
        let number = |position: usize| -> Result<i64> {
            let argument = arguments
                .get(position)
                .with_context(|| format!("[{text}] lacks an argument"))?;
            argument
                .parse()
                .with_context(|| format!("[{argument}] in [{text}] is not a number"))
        };
        Ok(match word {
            "int" => Self::Int {
                min: number(0)?,
                max: number(1)?,
            },
            "log" => Self::Log {
                min: number(0)? as u64,
                max: number(1)? as u64,
            },
            "num" => Self::Num {
                min: number(0)?,
                max: number(1)?,
                decimals: number(2)? as u32,
            },
            "yes" => Self::Yes {
                percent: number(0)? as u64,
            },
            "hex" => Self::Hex {
                digits: number(0)? as usize,
                prefix: arguments.get(1).copied().unwrap_or_default().as_bytes().into(),
            },
            "digits" => Self::Digits {
                count: number(0)? as usize,
            },
            "words" => Self::Words {
                min: number(0)? as u64,
                max: number(1)? as u64,
            },
            "ago" => Self::Ago {
                ms: number(0)? as u64 * 1000,
            },
            "ahead" => Self::Ahead {
                ms: number(0)? as u64 * 1000,
            },
            "app" => Self::Listed(APPS),
            "internal_app" => Self::Listed(INTERNAL_APPS),
            "rule" => Self::Listed(RULES),
            "group" => Self::Listed(GROUPS),
            "idp" => Self::Listed(IDENTITY_PROVIDERS),
            "attack" => Self::Listed(ATTACKS),
            "malware" => Self::Listed(MALWARE),
            "mitre" => Self::Listed(TECHNIQUES),
            "web_category" => Self::Listed(WEB_CATEGORIES),
            "feed" => Self::Listed(FEEDS),
            "issuer" => Self::Listed(ISSUERS),
            "behaviour" => Self::Listed(BEHAVIOURS),
            "process" => Self::Listed(PROCESSES),
            "service" => Self::Listed(SERVICES),
            "config" => Self::Listed(CONFIG_PATHS),
            "agent" => Self::Listed(AGENTS),
            "community" => Self::Listed(COMMUNITIES),
            _ => match Simple::parse(word) {
                Some(simple) => Self::Simple(simple),
                None => bail!("[{text}] is not a value"),
            },
        })
    }

    /// Returns the matching field type.
    pub(crate) fn mapping(&self) -> Mapping {
        match self {
            Self::Pick { are_numbers: true, .. } | Self::Int { .. } | Self::Log { .. } => Mapping::Long,
            Self::Num { .. } => Mapping::Double,
            Self::Yes { .. } => Mapping::Boolean,
            Self::Words { .. } => Mapping::Text,
            Self::Ago { .. } | Self::Ahead { .. } => Mapping::Date,
            Self::Simple(simple) => simple.mapping(),
            Self::Pick { .. } | Self::Listed(_) | Self::Hex { .. } | Self::Digits { .. } => Mapping::Keyword,
        }
    }

    /// Whether the value is in quotes.
    pub(crate) fn is_quoted(&self) -> bool {
        !matches!(
            self.mapping(),
            Mapping::Long | Mapping::Double | Mapping::Boolean | Mapping::GeoPoint
        )
    }

    /// Writes a value without its quotes. None needs escaping in JSON.
    pub(crate) fn write(&self, out: &mut Vec<u8>, scene: &mut Scene<'_>) {
        match self {
            Self::Pick { options, .. } => out.extend_from_slice(&options[scene.random.skewed(options.len())]),
            Self::Listed(list) => out.extend_from_slice(list[scene.random.skewed(list.len())].as_bytes()),
            Self::Int { min, max } => {
                write_signed(out, min + scene.random.below((max - min) as u64 + 1) as i64);
            }
            Self::Log { min, max } => write_unsigned(out, scene.random.logarithmic(*min, *max)),
            Self::Num { min, max, decimals } => {
                let scale = 10_i64.pow(*decimals);
                let span = ((max - min) * scale) as usize;
                write_decimal(out, min * scale + scene.random.skewed(span + 1) as i64, *decimals);
            }
            Self::Yes { percent } => {
                let text: &[u8] = if scene.random.percent(*percent) {
                    b"true"
                } else {
                    b"false"
                };
                out.extend_from_slice(text);
            }
            Self::Hex { digits, prefix } => {
                out.extend_from_slice(prefix);
                let mut left = *digits;
                while left > 0 {
                    let now = left.min(16);
                    write_hex(out, scene.random.next(), now);
                    left -= now;
                }
            }
            Self::Digits { count } => {
                let mut left = *count;
                while left > 0 {
                    let now = left.min(9);
                    write_padded(out, scene.random.below(1_000_000_000), now);
                    left -= now;
                }
            }
            Self::Words { min, max } => {
                let count = min + scene.random.below(max - min + 1);
                for position in 0..count {
                    if position > 0 {
                        out.push(b' ');
                    }
                    write_word(out, scene.random);
                }
            }
            Self::Ago { ms } => {
                let time_ms = scene.time_ms - scene.random.logarithmic(0, *ms) as i64;
                scene.times.write(out, time_ms);
            }
            Self::Ahead { ms } => {
                let time_ms = scene.time_ms + scene.random.below(*ms) as i64;
                scene.times.write(out, time_ms);
            }
            Self::Simple(simple) => simple.write(out, scene),
        }
    }
}

/// Writes a word of running text, frequent ones first.
pub(crate) fn write_word(out: &mut Vec<u8>, random: &mut Random) {
    let stem = STEMS[random.skewed(STEMS.len())];
    out.extend_from_slice(stem.as_bytes());
    // Most words have no ending, and the short ones never.
    if stem.len() > 4 && random.percent(40) {
        out.extend_from_slice(ENDINGS[random.skewed(ENDINGS.len())].as_bytes());
    }
}

impl Simple {
    fn write(self, out: &mut Vec<u8>, scene: &mut Scene<'_>) {
        let Scene {
            world, subject, random, ..
        } = scene;
        let site = &world.sites[subject.site];
        let host = &world.hosts[subject.host];
        match self {
            Self::Host => out.extend_from_slice(&host.name),
            Self::User => out.extend_from_slice(&world.users[subject.user].name),
            Self::OtherUser => out.extend_from_slice(&world.users[world.draw_user(random, subject.tenant)].name),
            Self::Email => out.extend_from_slice(&world.users[subject.user].email),
            Self::Department => {
                out.extend_from_slice(DEPARTMENTS[world.users[subject.user].department].as_bytes());
            }
            Self::System => out.extend_from_slice(SYSTEMS[host.system].as_bytes()),
            Self::City => out.extend_from_slice(CITIES[site.city].0.as_bytes()),
            Self::Country => write_country(out, random, site),
            Self::Point => write_point(out, site),
            Self::Peer => {
                let tenant = &world.tenants[subject.tenant];
                let peer = tenant.first_site + random.skewed(tenant.site_count);
                out.extend_from_slice(&world.sites[peer].name);
            }
            Self::Pop => write_pop(out, random, site),
            Self::Isp => {
                // Mostly the provider of the site.
                let isp = mostly(70, site.isp, ISPS.len(), random);
                out.extend_from_slice(ISPS[isp].as_bytes());
            }
            Self::Ip => out.extend_from_slice(&host.ip),
            Self::LanIp => write_ipv4(out, site.subnet | (1 + random.skewed(254) as u32)),
            Self::AnyIp => match random.percent(75) {
                true => out.extend_from_slice(&host.ip),
                false => write_ipv6(out, site.prefix6, mix(subject.host as u64)),
            },
            Self::PublicIp => write_public_ip(out, random),
            Self::DnsIp => write_ipv4(out, [0x0808_0808, 0x0101_0101, 0x0909_0909][random.skewed(3)]),
            Self::MulticastIp => write_ipv4(out, 0xefff_0000 | random.skewed(600) as u32),
            Self::Ip6 => write_ipv6(out, site.prefix6, mix(random.skewed(400) as u64)),
            Self::PublicIp6 => {
                let network = mix(random.skewed(2000) as u64);
                write_ipv6(out, 0x2a00_0000_0000_0000 | network >> 8, random.below(1 << 16));
            }
            Self::Prefix6 => {
                write_groups6(out, site.prefix6, 0);
                out.extend_from_slice(b":/64");
            }
            Self::Network => {
                write_ipv4(out, public_address(mix(random.skewed(8000) as u64)) & 0xffff_ff00);
                out.extend_from_slice(b"/24");
            }
            Self::LanNetwork => {
                write_ipv4(out, site.subnet);
                out.extend_from_slice(b"/24");
            }
            Self::Mac => match random.percent(50) {
                true => out.extend_from_slice(&host.mac),
                false => write_mac(out, mix(random.skewed(20_000) as u64) & 0xfeff_ffff_ffff),
            },
            Self::SourcePort => write_unsigned(out, 32_768 + random.below(28_232)),
            Self::Port => write_unsigned(out, PORTS[random.skewed(PORTS.len())]),
            Self::Domain => write_domain(out, random),
            Self::InternalHost => {
                out.extend_from_slice(INTERNAL_APPS[random.skewed(INTERNAL_APPS.len())].as_bytes());
                out.push(b'.');
                out.extend_from_slice(&world.tenants[subject.tenant].name);
                out.extend_from_slice(b".internal");
            }
            Self::Url => write_url(out, random),
            Self::File => write_file(out, random),
            Self::Uuid => write_uuid(out, random.next(), random.next()),
            Self::Device => out.extend_from_slice(&host.device),
            Self::Serial => out.extend_from_slice(&host.serial),
            Self::Hash => write_hash(out, random),
            Self::Version => write_version(out, random),
            Self::Cve => write_cve(out, random),
            Self::Stack => write_stack(out, random),
        }
    }
}

/// Returns `usual` in so many percent of the calls, else a position of a list of this length.
fn mostly(percent: u64, usual: usize, len: usize, random: &mut Random) -> usize {
    match random.percent(percent) {
        true => usual,
        false => random.skewed(len),
    }
}

fn write_country(out: &mut Vec<u8>, random: &mut Random, site: &Site) {
    // Mostly that of the site.
    let city = mostly(60, site.city, CITIES.len(), random);
    out.extend_from_slice(CITIES[city].1.as_bytes());
}

fn write_point(out: &mut Vec<u8>, site: &Site) {
    out.extend_from_slice(b"{\"lat\":");
    write_decimal(out, CITIES[site.city].2, 2);
    out.extend_from_slice(b",\"lon\":");
    write_decimal(out, CITIES[site.city].3, 2);
    out.push(b'}');
}

fn write_pop(out: &mut Vec<u8>, random: &mut Random, site: &Site) {
    let pop = mostly(80, site.pop, CITIES.len(), random);
    out.extend_from_slice(b"pop-");
    out.extend(CITIES[pop].0.bytes().map(|byte| match byte {
        b' ' => b'-',
        byte => byte.to_ascii_lowercase(),
    }));
}

fn write_public_ip(out: &mut Vec<u8>, random: &mut Random) {
    let bits = match random.percent(80) {
        true => mix(random.skewed(RECURRING_ADDRESSES as usize) as u64),
        false => random.next(),
    };
    write_ipv4(out, public_address(bits));
}

fn write_file(out: &mut Vec<u8>, random: &mut Random) {
    out.extend_from_slice(FILES[random.skewed(FILES.len())].as_bytes());
    out.push(b'-');
    write_unsigned(out, random.logarithmic(1, 5000));
    out.push(b'.');
    out.extend_from_slice(EXTENSIONS[random.skewed(EXTENSIONS.len())].as_bytes());
}

fn write_hash(out: &mut Vec<u8>, random: &mut Random) {
    // Files recur, so their hashes do.
    let file = match random.percent(70) {
        true => random.skewed(3000) as u64,
        false => random.next(),
    };
    for part in 0..4 {
        write_hex(out, mix(file ^ part << 60), 16);
    }
}

fn write_version(out: &mut Vec<u8>, random: &mut Random) {
    write_unsigned(out, 7 + random.skewed(3) as u64);
    out.push(b'.');
    write_unsigned(out, random.skewed(12) as u64);
    out.push(b'.');
    write_unsigned(out, random.skewed(30) as u64);
}

fn write_cve(out: &mut Vec<u8>, random: &mut Random) {
    let number = mix(random.skewed(400) as u64);
    out.extend_from_slice(b"CVE-20");
    write_unsigned(out, 17 + number % 9);
    out.push(b'-');
    write_unsigned(out, 1000 + (number >> 8) % 45_000);
}

/// Returns an address outside of private, loopback and multicast networks.
pub(crate) fn public_address(bits: u64) -> u32 {
    const FIRST: [u32; 12] = [13, 20, 34, 45, 52, 78, 91, 104, 142, 151, 185, 203];
    FIRST[(bits >> 40) as usize % FIRST.len()] << 24 | (bits as u32 & 0x00ff_ffff)
}

fn write_groups6(out: &mut Vec<u8>, high: u64, skipped: u32) {
    for group in (skipped..4).rev() {
        // Leading zeros of a group are omitted, as in the canonical form.
        let value = high >> (group * 16) & 0xffff;
        let digits = (16 - (value as u16).leading_zeros()).div_ceil(4).max(1);
        write_hex(out, value, digits as usize);
        out.push(b':');
    }
}

fn write_ipv6(out: &mut Vec<u8>, high: u64, low: u64) {
    write_groups6(out, high, 0);
    write_groups6(out, low, 0);
    out.pop();
}

fn write_domain(out: &mut Vec<u8>, random: &mut Random) {
    const TOPS: &[&str] = &["com", "net", "org", "io", "de", "example", "cloud", "app"];
    const LABELS: &[&str] = &["www", "api", "cdn", "login", "static", "mail"];
    let number = mix(random.skewed(RECURRING_DOMAINS) as u64);
    if random.percent(45) {
        out.extend_from_slice(LABELS[random.skewed(LABELS.len())].as_bytes());
        out.push(b'.');
    }
    out.extend_from_slice(STEMS[number as usize % STEMS.len()].as_bytes());
    out.push(b'-');
    out.extend_from_slice(STEMS[(number >> 16) as usize % STEMS.len()].as_bytes());
    out.push(b'.');
    out.extend_from_slice(TOPS[(number >> 32) as usize % TOPS.len()].as_bytes());
}

fn write_url(out: &mut Vec<u8>, random: &mut Random) {
    out.extend_from_slice(b"https://");
    write_domain(out, random);
    for _ in 0..1 + random.skewed(4) {
        out.push(b'/');
        out.extend_from_slice(STEMS[random.skewed(STEMS.len())].as_bytes());
    }
    if random.percent(30) {
        out.extend_from_slice(b"?id=");
        write_unsigned(out, random.logarithmic(1, 1_000_000));
    }
}

fn write_stack(out: &mut Vec<u8>, random: &mut Random) {
    for depth in 0..6 + random.below(8) {
        if depth > 0 {
            out.extend_from_slice(b"\\n");
        }
        out.push(b'#');
        write_unsigned(out, depth);
        out.extend_from_slice(b" 0x");
        write_hex(out, 0x7f00_0000_0000 | random.below(1 << 32), 12);
        out.extend_from_slice(b" in ");
        out.extend_from_slice(STEMS[random.skewed(STEMS.len())].as_bytes());
        out.push(b'_');
        out.extend_from_slice(STEMS[random.skewed(STEMS.len())].as_bytes());
        out.extend_from_slice(b" () at src/");
        out.extend_from_slice(STEMS[random.skewed(STEMS.len())].as_bytes());
        out.extend_from_slice(b".c:");
        write_unsigned(out, random.logarithmic(10, 4000));
    }
}
