//! Which addresses webhooks may reach: none inside the operator's own networks, unless a setting allows it.
//!
//! A URL can name any host, and a name can resolve to any address, also to another one a moment later. So the check is where a
//! connection gets its addresses.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

/// Networks that are not public: <https://www.iana.org/assignments/iana-ipv4-special-registry>.
const PRIVATE_V4: [([u8; 4], u8); 16] = [
    ([0, 0, 0, 0], 8),
    ([10, 0, 0, 0], 8),
    ([100, 64, 0, 0], 10),
    ([127, 0, 0, 0], 8),
    ([169, 254, 0, 0], 16),
    ([172, 16, 0, 0], 12),
    ([192, 0, 0, 0], 24),
    ([192, 0, 2, 0], 24),
    ([192, 88, 99, 0], 24),
    ([192, 168, 0, 0], 16),
    ([198, 18, 0, 0], 15),
    ([198, 51, 100, 0], 24),
    ([203, 0, 113, 0], 24),
    ([224, 0, 0, 0], 4),
    ([240, 0, 0, 0], 4),
    ([255, 255, 255, 255], 32),
];

/// Public IPv6 is 2000::/3; of it these are not.
const PRIVATE_V6: [([u16; 8], u8); 3] = [
    ([0x2001, 0, 0, 0, 0, 0, 0, 0], 23),
    ([0x2001, 0xdb8, 0, 0, 0, 0, 0, 0], 32),
    ([0x3fff, 0, 0, 0, 0, 0, 0, 0], 20),
];
const PUBLIC_V6: ([u16; 8], u8) = ([0x2000, 0, 0, 0, 0, 0, 0, 0], 3);
/// IPv6 addresses that hold one of IPv4: NAT64 at its end, 6to4 after its prefix.
const NAT64: ([u16; 8], u8) = ([0x64, 0xff9b, 0, 0, 0, 0, 0, 0], 96);
const SIX_TO_FOUR: ([u16; 8], u8) = ([0x2002, 0, 0, 0, 0, 0, 0, 0], 16);

fn is_in_v6(network: ([u16; 8], u8), address: Ipv6Addr) -> bool {
    let (address_of, length) = network;
    Ipv6Net::new(Ipv6Addr::from(address_of), length).is_ok_and(|network| network.contains(&address))
}

fn is_private_v4(address: Ipv4Addr) -> bool {
    PRIVATE_V4
        .iter()
        .any(|(network, length)| Ipv4Net::new(Ipv4Addr::from(*network), *length).is_ok_and(|n| n.contains(&address)))
}

fn is_private_v6(address: Ipv6Addr) -> bool {
    let [_, high, low, ..] = address.segments();
    if is_in_v6(SIX_TO_FOUR, address) {
        return is_private_v4(Ipv4Addr::from((u32::from(high) << 16) | u32::from(low)));
    }
    if is_in_v6(NAT64, address) {
        let [.., high, low] = address.segments();
        return is_private_v4(Ipv4Addr::from((u32::from(high) << 16) | u32::from(low)));
    }
    !is_in_v6(PUBLIC_V6, address) || PRIVATE_V6.iter().any(|network| is_in_v6(*network, address))
}

/// Returns whether a webhook may connect to an address. `allowed` are networks that may be reached although they are not public.
pub(super) fn may_reach(address: IpAddr, allowed: &[IpNet]) -> bool {
    let address = address.to_canonical();
    if allowed.iter().any(|network| network.contains(&address)) {
        return true;
    }
    match address {
        IpAddr::V4(address) => !is_private_v4(address),
        IpAddr::V6(address) => !is_private_v6(address),
    }
}

/// Returns why an address is refused.
pub(super) fn refusal(host: &str) -> String {
    format!(
        "[{host}] is an address of a private network, which webhooks may not reach; [notify.webhook.allowed_networks] lists exceptions"
    )
}

/// Resolves names to addresses that a webhook may reach.
#[derive(Debug)]
pub(super) struct PublicResolver {
    pub(super) allowed: Arc<[IpNet]>,
}

impl Resolve for PublicResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let allowed = Arc::clone(&self.allowed);
        Box::pin(async move {
            let host = name.as_str().to_owned();
            let found = tokio::net::lookup_host((host.as_str(), 0)).await?;
            let found: Vec<SocketAddr> = found.filter(|address| may_reach(address.ip(), &allowed)).collect();
            match found.is_empty() {
                true => Err(refusal(&host).into()),
                false => Ok(Box::new(found.into_iter()) as Addrs),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn private_addresses_are_refused_in_every_form() {
        let reaches = |text: &str| may_reach(text.parse().unwrap(), &[]);
        for private in [
            "127.0.0.1",
            "10.1.2.3",
            "172.31.0.1",
            "192.168.1.1",
            "169.254.169.254",
            "100.64.0.1",
            "0.0.0.0",
            "224.0.0.1",
            "255.255.255.255",
            "::1",
            "::",
            "fe80::1",
            "fd00::1",
            "ff02::1",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "64:ff9b::7f00:1",
            "2002:7f00:1::",
            "2002:c0a8:101::1",
            "2001:db8::1",
            "2001::1",
            "::127.0.0.1",
            "64:ff9b:1::1",
        ] {
            assert!(!reaches(private), "{private}");
        }
        for public in [
            "1.1.1.1",
            "172.32.0.1",
            "2606:4700::1111",
            "2002:101:101::",
            "64:ff9b::101:101",
        ] {
            assert!(reaches(public), "{public}");
        }
        let allowed: Vec<IpNet> = vec!["10.0.0.0/24".parse().unwrap(), "::1/128".parse().unwrap()];
        assert!(may_reach("10.0.0.7".parse().unwrap(), &allowed));
        assert!(may_reach("::ffff:10.0.0.7".parse().unwrap(), &allowed));
        assert!(may_reach("::1".parse().unwrap(), &allowed));
        assert!(!may_reach("10.0.1.7".parse().unwrap(), &allowed));
    }
}
