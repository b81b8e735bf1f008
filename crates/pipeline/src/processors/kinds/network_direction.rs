//! `network_direction`: tells whether a flow is inbound, outbound, internal or external.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::community_id::address;
use super::prelude::*;

#[derive(Debug)]
struct NetworkDirection {
    source_ip: Path,
    destination_ip: Path,
    target: Path,
    networks: Networks,
    ignore_missing: bool,
}

#[derive(Debug)]
enum Networks {
    List(Vec<Template>),
    Field(Path),
}

pub(crate) fn parse(options: &mut Options) -> Result<Box<dyn Processor>> {
    let list = options.optional_texts("internal_networks")?;
    let field = options.optional_path("internal_networks_field")?;
    let networks = match (list, field) {
        (None, None) => {
            return Err(options.error(
                Some("internal_networks"),
                "or [internal_networks_field] must be specified",
            ));
        }
        (Some(_), Some(_)) => {
            let reason = "and [internal_networks_field] cannot both be used in the same processor";
            return Err(options.error(Some("internal_networks"), reason));
        }
        (None, Some(field)) => Networks::Field(field),
        (Some(list), None) => {
            let list: Result<_> = list
                .iter()
                .map(|text| options.parse_template("internal_networks", text))
                .collect();
            Networks::List(list?)
        }
    };
    boxed(NetworkDirection {
        source_ip: options.path_or("source_ip", "source.ip")?,
        destination_ip: options.path_or("destination_ip", "destination.ip")?,
        target: options.path_or("target_field", "network.direction")?,
        networks,
        ignore_missing: options.boolean("ignore_missing", true)?,
    })
}

impl Processor for NetworkDirection {
    fn run(&self, document: &mut Document, run: &mut Run<'_>) -> Result<Flow, Failure> {
        match self.direction(document, run)? {
            Some(direction) => document.set(&self.target, direction.into())?,
            None if self.ignore_missing => {}
            None => return Err(Failure::illegal("unable to calculate network direction from document")),
        }
        Ok(Flow::Continue)
    }
}

impl NetworkDirection {
    fn direction(&self, document: &Document, run: &mut Run<'_>) -> Result<Option<&'static str>, Failure> {
        let networks: Vec<String> = match &self.networks {
            Networks::List(templates) => {
                let rendered: Result<_, _> = templates
                    .iter()
                    .map(|template| template.render(document, &mut run.budget))
                    .collect();
                rendered?
            }
            Networks::Field(field) => match document.find(field) {
                None | Some(Value::Null) if self.ignore_missing => return Ok(None),
                Some(Value::Array(values)) => values.iter().map(java_text).collect(),
                Some(Value::Null) => return Ok(None),
                Some(other) => return Err(cannot_cast(field.text(), other, "java.util.ArrayList")),
                None => return document.get(field).map(|_| None),
            },
        };
        run.budget.take(2 * networks.len() as u64)?;
        let text = |path| match document.find(path) {
            None if self.ignore_missing => Ok(None),
            _ => document.get_text(path),
        };
        let (Some(source), Some(destination)) = (text(&self.source_ip)?, text(&self.destination_ip)?) else {
            return Ok(None);
        };
        let is_internal = |text: &str| {
            let address = address(text)?;
            for network in &networks {
                if contains(network, address)? {
                    return Ok(true);
                }
            }
            Ok::<bool, Failure>(false)
        };
        Ok(Some(match (is_internal(source)?, is_internal(destination)?) {
            (true, true) => "internal",
            (true, false) => "outbound",
            (false, true) => "inbound",
            (false, false) => "external",
        }))
    }
}

/// Returns whether a network, by name or in CIDR notation, contains an address.
fn contains(network: &str, address: IpAddr) -> Result<bool, Failure> {
    Ok(match network {
        "loopback" => address.is_loopback(),
        "global_unicast" | "unicast" => {
            !is_broadcast(address)
                && !address.is_unspecified()
                && !address.is_loopback()
                && !address.is_multicast()
                && !is_link_local(address)
        }
        "link_local_unicast" => is_link_local(address),
        "interface_local_multicast" => multicast_scope(address) == Some(1),
        "link_local_multicast" => is_link_local_multicast(address),
        "multicast" => address.is_multicast(),
        "unspecified" => address.is_unspecified(),
        "private" => is_private(address),
        "public" => {
            !is_private(address)
                && !address.is_loopback()
                && !address.is_unspecified()
                && !is_link_local(address)
                && !is_link_local_multicast(address)
                && multicast_scope(address) != Some(1)
                && !is_broadcast(address)
        }
        cidr => is_in_range(cidr, address)
            .ok_or_else(|| Failure::illegal(format!("'{cidr}' is not an IP string literal.")))?,
    })
}

fn is_broadcast(address: IpAddr) -> bool {
    address == IpAddr::V4(Ipv4Addr::BROADCAST)
}

fn is_link_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.segments()[0] & 0xffc0 == 0xfe80,
    }
}

fn is_link_local_multicast(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.octets()[..3] == [224, 0, 0],
        address => multicast_scope(address) == Some(2),
    }
}

/// Scope of a multicast address of IPv6.
fn multicast_scope(address: IpAddr) -> Option<u8> {
    match address {
        IpAddr::V6(address) if address.is_multicast() => Some(address.octets()[1] & 0x0f),
        _ => None,
    }
}

fn is_private(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_private(),
        IpAddr::V6(address) => address.octets()[0] == 0xfd,
    }
}

/// Returns whether a range contains an address; `None` if it is no range.
fn is_in_range(cidr: &str, address: IpAddr) -> Option<bool> {
    let (base, bits) = match cidr.split_once('/') {
        Some((base, bits)) => (base, Some(bits.parse::<u32>().ok()?)),
        None => (cidr, None),
    };
    let base: IpAddr = base.parse().ok()?;
    let wide = |address: IpAddr| match address {
        IpAddr::V4(address) => u128::from(u32::from(address)),
        IpAddr::V6(address) => u128::from(Ipv6Addr::from(address.octets())),
    };
    let width = if base.is_ipv4() { 32 } else { 128 };
    let bits = bits.unwrap_or(width);
    if bits > width {
        return None;
    }
    if base.is_ipv4() != address.is_ipv4() {
        return Some(false);
    }
    let shift = width - bits;
    let prefix = |address: u128| address.checked_shr(shift).unwrap_or(0);
    Some(prefix(wide(base)) == prefix(wide(address)))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::processors::tests::{check, fails, refused};

    #[test]
    fn refuses_to_parse() {
        let reason = "[internal_networks] or [internal_networks_field] must be specified";
        refused(json!({"network_direction": {}}), reason);
        let reason = "[internal_networks] and [internal_networks_field] cannot both be used in the same processor";
        refused(
            json!({"network_direction": {"internal_networks": [], "internal_networks_field": "n"}}),
            reason,
        );
    }

    fn direction(networks: Value, source: &str, destination: &str, expected: &str) {
        let flow = json!({"source": {"ip": source}, "destination": {"ip": destination}});
        let mut wanted = flow.clone();
        wanted["network"] = json!({"direction": expected});
        check(
            json!({"network_direction": {"internal_networks": networks}}),
            flow,
            wanted,
        );
    }

    #[test]
    fn results() {
        let cidr = json!(["10.0.0.0/8"]);
        direction(cidr.clone(), "10.0.1.1", "192.168.1.2", "outbound");
        direction(cidr.clone(), "192.168.1.2", "10.0.1.1", "inbound");
        direction(cidr.clone(), "10.0.1.1", "10.9.9.9", "internal");
        direction(cidr, "8.8.8.8", "9.9.9.9", "external");
        direction(json!(["private"]), "192.168.0.1", "fd12::1", "internal");
        direction(json!(["loopback"]), "127.0.0.1", "::1", "internal");
        direction(json!(["public"]), "8.8.8.8", "10.0.0.1", "outbound");
        direction(json!(["link_local_unicast"]), "169.254.1.1", "fe80::1", "internal");
        direction(json!(["multicast"]), "224.0.0.1", "ff02::1", "internal");
        direction(json!(["link_local_multicast"]), "224.0.0.9", "ff02::1", "internal");
        direction(json!(["interface_local_multicast"]), "ff01::1", "ff02::1", "outbound");
        direction(json!(["unspecified"]), "0.0.0.0", "::", "internal");
        direction(json!(["global_unicast"]), "255.255.255.255", "8.8.8.8", "inbound");
        direction(
            json!(["2001:db8::/32", "{{source.ip}}"]),
            "2001:db8:1::1",
            "2001:db9::1",
            "outbound",
        );
    }

    #[test]
    fn networks_of_a_field() {
        let options = json!({"network_direction": {"internal_networks_field": "n"}});
        let flow = json!({"source": {"ip": "10.0.0.1"}, "destination": {"ip": "8.8.8.8"}, "n": ["private"]});
        let mut wanted = flow.clone();
        wanted["network"] = json!({"direction": "outbound"});
        check(options.clone(), flow, wanted);
        check(options, json!({"a": 1}), json!({"a": 1}));
    }

    #[test]
    fn failures() {
        let options = json!({"network_direction": {"internal_networks": ["private"], "ignore_missing": false}});
        fails(
            options.clone(),
            json!({}),
            "field [source] not present as part of path [source.ip]",
        );
        let flow = json!({"source": {"ip": "x"}, "destination": {"ip": "8.8.8.8"}});
        fails(options, flow.clone(), "'x' is not an IP string literal.");
        let options = json!({"network_direction": {"internal_networks": ["10.0.0.0/40"]}});
        let flow = json!({"source": {"ip": "1.1.1.1"}, "destination": {"ip": "8.8.8.8"}});
        fails(options, flow, "'10.0.0.0/40' is not an IP string literal.");
    }
}
