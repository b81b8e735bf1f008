//! Alerts as lines of syslog (RFC 5424), over TCP (RFC 6587, octet-counted) or UDP (RFC 5426).
//!
//! Syslog has no acknowledgement: over TCP a line counts as sent once the system has taken it, over UDP also if it is lost.

use std::time::Duration;

use async_trait::async_trait;
use firn_detect::Severity;
use firn_model::dates::{DateFormat, Zone};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpStream, UdpSocket, lookup_host};

use super::{Clock, SendError, Sender, cef};
use crate::channel::{Syslog, SyslogFormat, SyslogProtocol};
use crate::notification::{Notification, StoredAlert};

const CONNECT_TIME_MAX: Duration = Duration::from_secs(10);
/// Longest datagram: what every network carries after fragmentation.
const DATAGRAM_BYTES_MAX: usize = 60_000;
/// Facility 13 of RFC 5424: log audit.
const FACILITY: u8 = 13;
/// How long a receiver may take to close its side.
const CLOSE_TIME_MAX: Duration = Duration::from_secs(2);

/// Sends lines to one server.
pub(super) struct SyslogSender {
    definition: Syslog,
    clock: Clock,
}

impl SyslogSender {
    pub(super) fn new(definition: &Syslog, clock: Clock) -> Self {
        Self {
            definition: definition.clone(),
            clock,
        }
    }

    fn line(&self, alert: &StoredAlert) -> String {
        let format = DateFormat::default_millis();
        let time = alert.field("@timestamp");
        let detected_ms = format.parse_ms(&time).unwrap_or_else(|_| (self.clock)());
        let time = format.print_ms(detected_ms, &Zone::utc());
        let severity = match alert.severity() {
            Severity::Critical => 2,
            Severity::High => 3,
            Severity::Medium => 4,
            Severity::Low => 5,
            Severity::Informational => 6,
        };
        let text = match self.definition.format {
            SyslogFormat::Cef => cef::line(alert, detected_ms),
            SyslogFormat::Json => serde_json::Value::Object(alert.document.clone()).to_string(),
        };
        format!("<{}>1 {time} - firn - alert - {text}", FACILITY * 8 + severity)
    }

    async fn send_tcp(&self, lines: Vec<String>) -> std::io::Result<()> {
        let connect = TcpStream::connect(&self.definition.address);
        let connected = tokio::time::timeout(CONNECT_TIME_MAX, connect).await;
        let mut stream = connected.map_err(|_| std::io::Error::from(std::io::ErrorKind::TimedOut))??;
        let mut framed = Vec::new();
        for line in lines {
            framed.extend_from_slice(format!("{} {line}", line.len()).as_bytes());
        }
        stream.write_all(&framed).await?;
        stream.shutdown().await?;
        // A receiver that has read everything closes; a reset is the only failure that TCP reports.
        let mut rest = [0; 64];
        match tokio::time::timeout(CLOSE_TIME_MAX, stream.read(&mut rest)).await {
            Ok(Err(error)) => Err(error),
            Ok(Ok(_)) | Err(_) => Ok(()),
        }
    }

    async fn send_udp(&self, lines: Vec<String>) -> std::io::Result<()> {
        let target = lookup_host(&self.definition.address).await?.next();
        let target = target.ok_or_else(|| std::io::Error::other("the name has no address"))?;
        let own = if target.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
        let socket = UdpSocket::bind(own).await?;
        for line in lines {
            let end = line.floor_char_boundary(DATAGRAM_BYTES_MAX);
            socket.send_to(&line.as_bytes()[..end], target).await?;
        }
        Ok(())
    }
}

#[async_trait]
impl Sender for SyslogSender {
    async fn send(&self, notification: &Notification) -> Result<Option<String>, SendError> {
        let lines = notification.alerts.iter().map(|alert| self.line(alert)).collect();
        let sent = match self.definition.protocol {
            SyslogProtocol::Tcp => self.send_tcp(lines).await,
            SyslogProtocol::Udp => self.send_udp(lines).await,
        };
        sent.map(|()| None)
            .map_err(|error| SendError::channel(format!("syslog server [{}]: {error}", self.definition.address)))
    }
}
