//! `community_id`: computes the Community ID of a flow (Corelight's specification, version 1).

use std::net::IpAddr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha1::{Digest, Sha1};

use super::prelude::*;

const ICMP: u8 = 1;
const TCP: u8 = 6;
const UDP: u8 = 17;
const ICMP_V6: u8 = 58;
const SCTP: u8 = 132;

const TRANSPORTS: [(&str, u8); 11] = [
    ("icmp", ICMP),
    ("igmp", 2),
    ("tcp", TCP),
    ("udp", UDP),
    ("gre", 47),
    ("ipv6-icmp", ICMP_V6),
    ("icmpv6", ICMP_V6),
    ("eigrp", 88),
    ("ospf", 89),
    ("pim", 103),
    ("sctp", SCTP),
];

/// Types of ICMP with the type that answers them. As in Elasticsearch, 16 and 131 have no way back.
const ANSWERS: [(u8, u8); 9] = [
    (8, 0),
    (0, 8),
    (13, 14),
    (14, 13),
    (15, 16),
    (10, 9),
    (9, 10),
    (17, 18),
    (18, 17),
];
const ANSWERS_V6: [(u8, u8); 11] = [
    (128, 129),
    (129, 128),
    (133, 134),
    (134, 133),
    (135, 136),
    (136, 135),
    (130, 131),
    (139, 140),
    (140, 139),
    (144, 145),
    (145, 144),
];

#[derive(Debug)]
struct CommunityId {
    source_ip: Path,
    source_port: Path,
    destination_ip: Path,
    destination_port: Path,
    iana_number: Path,
    transport: Path,
    icmp_type: Path,
    icmp_code: Path,
    target: Path,
    seed: u16,
    ignore_missing: bool,
}

pub(crate) fn parse(options: &mut Options) -> Result<Box<dyn Processor>> {
    let seed = options.optional_int("seed")?.unwrap_or(0);
    let Ok(seed) = u16::try_from(seed) else {
        return Err(options.error(Some("seed"), "must be a value between 0 and 65535"));
    };
    boxed(CommunityId {
        source_ip: options.path_or("source_ip", "source.ip")?,
        source_port: options.path_or("source_port", "source.port")?,
        destination_ip: options.path_or("destination_ip", "destination.ip")?,
        destination_port: options.path_or("destination_port", "destination.port")?,
        iana_number: options.path_or("iana_number", "network.iana_number")?,
        transport: options.path_or("transport", "network.transport")?,
        icmp_type: options.path_or("icmp_type", "icmp.type")?,
        icmp_code: options.path_or("icmp_code", "icmp.code")?,
        target: options.path_or("target_field", "network.community_id")?,
        seed,
        ignore_missing: options.boolean("ignore_missing", true)?,
    })
}

impl Processor for CommunityId {
    fn run(&self, document: &mut Document, _run: &mut Run<'_>) -> Result<Flow, Failure> {
        match self.id(document)? {
            Some(id) => document.set(&self.target, id.into())?,
            None if self.ignore_missing => {}
            None => return Err(Failure::illegal("unable to construct flow from document")),
        }
        Ok(Flow::Continue)
    }
}

impl CommunityId {
    fn id(&self, document: &Document) -> Result<Option<String>, Failure> {
        let text = |path| match document.find(path) {
            None if self.ignore_missing => Ok(None),
            _ => document.get_text(path),
        };
        let (Some(source), Some(destination)) = (text(&self.source_ip)?, text(&self.destination_ip)?) else {
            return Ok(None);
        };
        let (source, destination) = (address(source)?, address(destination)?);
        let some = |path| document.find(path).filter(|value| !value.is_null());
        let required = |path| match document.find(path) {
            None if self.ignore_missing => Ok(None),
            _ => document
                .get(path)
                .map(|value| Some(value).filter(|value| !value.is_null())),
        };
        let protocol = match some(&self.iana_number) {
            Some(number) => Some(number),
            None => required(&self.transport)?,
        };
        let Some(protocol) = protocol else {
            return Ok(None);
        };
        let protocol = transport(protocol)?;
        let mut ports = None;
        let mut is_one_way = false;
        match protocol {
            TCP | UDP | SCTP => {
                let source = port(required(&self.source_port)?, "source port")?;
                let destination = port(required(&self.destination_port)?, "destination port")?;
                ports = Some((source, destination));
            }
            ICMP | ICMP_V6 => {
                // The type and the type of its answer take the places of the ports.
                let kind = number(some(&self.icmp_type), "icmp type")?;
                let code = number(some(&self.icmp_code), "icmp code")?;
                let answers: &[(u8, u8)] = if protocol == ICMP { &ANSWERS } else { &ANSWERS_V6 };
                let answer = answers.iter().find(|(known, _)| i64::from(*known) == kind);
                is_one_way = answer.is_none();
                let out_of_range = |number: i64| {
                    let reason = format!("number [{number}] must be a value between 0 and 65535");
                    Failure::new(FailureKind::IllegalState, reason)
                };
                let second = match answer {
                    Some((_, answer)) => u16::from(*answer),
                    None => u16::try_from(code).map_err(|_| out_of_range(code))?,
                };
                ports = Some((u16::try_from(kind).map_err(|_| out_of_range(kind))?, second));
            }
            _ => {}
        }
        let (a, b) = (octets(source), octets(destination));
        let order = ordering_key(&a).cmp(&ordering_key(&b));
        let (source_port, destination_port) = ports.unwrap_or_default();
        let is_ordered = is_one_way || order.is_lt() || (order.is_eq() && source_port < destination_port);
        let mut sha = Sha1::new();
        sha.update(self.seed.to_be_bytes());
        sha.update(if is_ordered { &a } else { &b });
        sha.update(if is_ordered { &b } else { &a });
        sha.update([protocol, 0]);
        if ports.is_some() {
            let (first, second) = match is_ordered {
                true => (source_port, destination_port),
                false => (destination_port, source_port),
            };
            sha.update(first.to_be_bytes());
            sha.update(second.to_be_bytes());
        }
        Ok(Some(format!("1:{}", STANDARD.encode(sha.finalize()))))
    }
}

/// Returns a key that orders addresses as numbers, also those of different lengths.
fn ordering_key(octets: &[u8]) -> (usize, &[u8]) {
    let zeros = octets.iter().take_while(|octet| **octet == 0).count();
    (octets.len() - zeros, &octets[zeros..])
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

/// Reads an address, with the message of Elasticsearch.
pub(super) fn address(text: &str) -> Result<IpAddr, Failure> {
    let address: IpAddr = text
        .parse()
        .map_err(|_| Failure::illegal(format!("'{text}' is not an IP string literal.")))?;
    // As Java: an IPv4 address mapped into IPv6 is one of IPv4.
    Ok(address.to_canonical())
}

fn transport(value: &Value) -> Result<u8, Failure> {
    let from_number = |number: i64| match u8::try_from(number) {
        Ok(number) if number < 255 => Ok(number),
        _ => Err(Failure::illegal(format!(
            "invalid transport protocol number [{number}]"
        ))),
    };
    match value {
        Value::Number(number) => from_number(number.as_i64().unwrap_or(-1)),
        Value::String(text) => {
            let lower = text.to_lowercase();
            if let Some((_, number)) = TRANSPORTS.iter().find(|(name, _)| *name == lower) {
                return Ok(*number);
            }
            let number = text
                .parse::<i32>()
                .map_err(|_| Failure::illegal(format!("could not convert string [{text}] to transport protocol")))?;
            from_number(number.into())
        }
        other => Err(Failure::illegal(format!(
            "could not convert value of type [{}] to transport protocol",
            class_name(other)
        ))),
    }
}

fn number(value: Option<&Value>, what: &str) -> Result<i64, Failure> {
    let fail = |value: &Value| Failure::illegal(format!("unable to parse {what} [{}]", java_text(value)));
    match value {
        None => Ok(0),
        Some(value @ Value::Number(number)) => number.as_i64().ok_or_else(|| fail(value)),
        Some(value @ Value::String(text)) => text.parse::<i32>().map(i64::from).map_err(|_| fail(value)),
        Some(value) => Err(fail(value)),
    }
}

fn port(value: Option<&Value>, what: &str) -> Result<u16, Failure> {
    let number = number(value, what)?;
    u16::try_from(number).map_err(|_| Failure::illegal(format!("invalid {what} [{number}]")))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::processors::Context;
    use crate::processors::tests::{NOW_MS, check, fails, refused, run};

    #[test]
    fn refuses_to_parse() {
        refused(
            json!({"community_id": {"seed": 70000}}),
            "[seed] must be a value between 0 and 65535",
        );
        refused(
            json!({"community_id": {"seed": "x"}}),
            "[seed] property cannot be converted to an int [x]",
        );
    }

    fn flow(transport: Value, source: (&str, u16), destination: (&str, u16)) -> Value {
        json!({
            "source": {"ip": source.0, "port": source.1},
            "destination": {"ip": destination.0, "port": destination.1},
            "network": {"transport": transport}
        })
    }

    fn id(options: Value, source: Value) -> String {
        let (document, result) = run(&json!({"community_id": options}), source, &Context::new(NOW_MS));
        result.unwrap();
        document.source["network"]["community_id"].as_str().unwrap().to_owned()
    }

    #[test]
    fn results() {
        // The baselines of the specification.
        let tcp = flow(json!("TCP"), ("128.232.110.120", 34855), ("66.35.250.204", 80));
        assert_eq!(id(json!({}), tcp.clone()), "1:LQU9qZlK+B5F3KDmev6m5PMibrg=");
        let back = flow(json!(6), ("66.35.250.204", 80), ("128.232.110.120", 34855));
        assert_eq!(id(json!({}), back), "1:LQU9qZlK+B5F3KDmev6m5PMibrg=");
        assert_eq!(id(json!({"seed": 1}), tcp), "1:3V71V58M3Ksw/yuFALMcW0LAHvc=");
        let udp = flow(json!("udp"), ("192.168.1.52", 54585), ("8.8.8.8", 53));
        assert_eq!(id(json!({}), udp), "1:d/FP5EW3wiY1vCndhwleRRKHowQ=");
        let icmp = json!({
            "source": {"ip": "192.168.0.89"}, "destination": {"ip": "192.168.0.1"},
            "network": {"transport": "icmp"}, "icmp": {"type": 8, "code": 0}
        });
        assert_eq!(id(json!({}), icmp), "1:X0snYXpgwiv9TZtqg64sgzUn6Dk=");
    }

    #[test]
    fn missing_fields() {
        check(json!({"community_id": {}}), json!({"a": 1}), json!({"a": 1}));
        let strict = json!({"community_id": {"ignore_missing": false}});
        fails(
            strict,
            json!({}),
            "field [source] not present as part of path [source.ip]",
        );
    }

    #[test]
    fn failures() {
        let community_id = || json!({"community_id": {}});
        let flow = |transport: Value| flow(transport, ("1.1.1.1", 1), ("2.2.2.2", 2));
        fails(
            community_id(),
            flow(json!("xyz")),
            "could not convert string [xyz] to transport protocol",
        );
        fails(
            community_id(),
            flow(json!(255)),
            "invalid transport protocol number [255]",
        );
        let mut wrong = flow(json!("tcp"));
        wrong["source"]["ip"] = json!("1.2.3");
        fails(community_id(), wrong, "'1.2.3' is not an IP string literal.");
        let mut wrong = flow(json!("tcp"));
        wrong["source"]["port"] = json!(70000);
        fails(community_id(), wrong, "invalid source port [70000]");
    }
}
