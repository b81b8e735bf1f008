//! Listen address of the server, and the rules for it.
//!
//! A first try on loopback needs no password. An address that other machines can reach requires authentication and TLS,
//! unless the operator disables this requirement.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs};

use super::SettingsError;

/// An address to listen on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) socket: SocketAddr,
    /// Whether other machines may reach it.
    pub(crate) is_exposed: bool,
}

/// Protection of an address.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Protection {
    /// Requests without a user or API key are refused.
    pub(crate) authentication: bool,
    pub(crate) tls: bool,
    /// `http.insecure_open_to_network`.
    pub(crate) is_insecure_allowed: bool,
}

impl Address {
    /// Resolves a host name or IP address.
    pub(crate) fn resolve(host: &str, port: u16) -> Result<Self, SettingsError> {
        let of_number = |ip: IpAddr| Self {
            socket: SocketAddr::new(ip, port),
            is_exposed: !is_loopback(ip),
        };
        if host == "_local_" {
            return Ok(of_number(IpAddr::from([127, 0, 0, 1])));
        }
        if let Ok(ip) = host.parse::<IpAddr>() {
            return Ok(of_number(ip));
        }
        let found: Vec<SocketAddr> = (host, port)
            .to_socket_addrs()
            .map_err(|error| {
                SettingsError(format!(
                    "setting [http.host]: cannot find the address of [{host}]: {error}"
                ))
            })?
            .collect();
        let socket = found
            .iter()
            .find(|address| address.is_ipv4())
            .or(found.first())
            .copied()
            .ok_or_else(|| SettingsError(format!("setting [http.host]: [{host}] has no address")))?;
        Ok(Self {
            socket,
            // A name may resolve to several addresses, and to others tomorrow.
            is_exposed: found.iter().any(|address| !is_loopback(address.ip())),
        })
    }

    /// Decides whether the server may listen here: an error, or a warning to log at the start.
    pub(crate) fn judge(self, protection: Protection) -> Result<Option<String>, SettingsError> {
        let address = self.socket;
        let Protection {
            authentication,
            tls,
            is_insecure_allowed,
        } = protection;
        if !self.is_exposed {
            return Ok((!authentication).then(|| {
                format!(
                    "authentication is off: every user and program on this machine can reach {address}, \
                     and may read and change everything"
                )
            }));
        }
        let (missing, remedy) = match (authentication, tls) {
            (true, true) => return Ok(None),
            (true, false) => ("TLS", TLS_REMEDY),
            (false, true) => ("authentication", AUTHENTICATION_REMEDY),
            (false, false) => ("authentication and TLS", BOTH_REMEDY),
        };
        if !is_insecure_allowed {
            return Err(SettingsError(format!(
                "refusing to listen on {address} without {missing}: {remedy}, or use http.host: 127.0.0.1 \
                 (http.insecure_open_to_network: true overrides this)"
            )));
        }
        let consequence = match (authentication, tls) {
            (true, _) => "passwords, API keys and events are readable in the network traffic",
            (false, _) => "every client that reaches it may read and change everything",
        };
        Ok(Some(format!(
            "listening on {address} without {missing}, because http.insecure_open_to_network allows it: {consequence}"
        )))
    }
}

const AUTHENTICATION_REMEDY: &str = "set xpack.security.enabled: true";
const TLS_REMEDY: &str = "set xpack.security.http.ssl.enabled: true with xpack.security.http.ssl.certificate and \
                          xpack.security.http.ssl.key";
const BOTH_REMEDY: &str = "set xpack.security.enabled: true and xpack.security.http.ssl.enabled: true with \
                           xpack.security.http.ssl.certificate and xpack.security.http.ssl.key";

fn is_loopback(ip: IpAddr) -> bool {
    ip.to_canonical().is_loopback()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_and_exposed_addresses_are_distinguished() {
        let check = |host: &str, expect: &str, is_exposed: bool| {
            let address = Address::resolve(host, 9200).expect("an address");
            assert_eq!(
                (address.socket.to_string().as_str(), address.is_exposed),
                (expect, is_exposed)
            );
        };
        check("127.0.0.1", "127.0.0.1:9200", false);
        check("127.8.8.8", "127.8.8.8:9200", false);
        check("_local_", "127.0.0.1:9200", false);
        check("::1", "[::1]:9200", false);
        check("localhost", "127.0.0.1:9200", false);
        check("::ffff:127.0.0.1", "[::ffff:127.0.0.1]:9200", false);
        check("0.0.0.0", "0.0.0.0:9200", true);
        check("::", "[::]:9200", true);
        check("192.168.1.1", "192.168.1.1:9200", true);
        check("::ffff:10.0.0.1", "[::ffff:10.0.0.1]:9200", true);
    }

    fn judge(host: &str, authentication: bool, tls: bool, is_insecure_allowed: bool) -> Result<Option<String>, String> {
        Address::resolve(host, 9200)
            .expect("an address")
            .judge(Protection {
                authentication,
                tls,
                is_insecure_allowed,
            })
            .map_err(|error| error.0)
    }

    #[test]
    fn loopback_is_open_and_says_so() {
        for tls in [false, true] {
            let said = judge("127.0.0.1", false, tls, false)
                .expect("no refusal")
                .expect("a sentence");
            assert!(said.contains("authentication is off"), "{said}");
            assert_eq!(judge("::1", true, tls, false), Ok(None));
        }
    }

    #[test]
    fn what_others_reach_needs_both() {
        assert_eq!(judge("0.0.0.0", true, true, false), Ok(None));
        let refused = |authentication, tls, missing: &str, settings: &[&str]| {
            let error = judge("0.0.0.0", authentication, tls, false).expect_err("a refusal");
            let start = format!("refusing to listen on 0.0.0.0:9200 without {missing}: set ");
            assert!(error.starts_with(&start), "{error}");
            for name in settings {
                assert!(error.contains(name), "{error}");
            }
        };
        let (user, tls) = ("xpack.security.enabled: true", "xpack.security.http.ssl.certificate");
        refused(false, true, "authentication", &[user]);
        refused(true, false, "TLS", &[tls]);
        refused(false, false, "authentication and TLS", &[user, tls]);
    }

    #[test]
    fn the_override_is_said_aloud() {
        let said = |authentication, tls| {
            judge("::", authentication, tls, true)
                .expect("no refusal")
                .expect("a sentence")
        };
        assert!(said(false, true).contains("read and change everything"));
        assert!(said(false, false).contains("without authentication and TLS"));
        assert!(said(true, false).contains("passwords, API keys"));
        assert_eq!(judge("::", true, true, true), Ok(None));
    }
}
