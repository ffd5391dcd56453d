//! Listen addresses in Go's form: `:8942` (all interfaces), `127.0.0.1:8942`, `[::1]:8942`,
//! `localhost:8942`.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

use anyhow::{Context as _, anyhow};
use tokio::net::TcpListener;

/// Environment variable with the IP address to listen on where a flag has no host. For pods that
/// share one machine's network and have a loopback address each.
pub const LISTEN_IP_VARIABLE: &str = "PLIMSOLL_LISTEN_IP";

/// A host (absent: all interfaces) and a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListenAddress {
    /// `None` means all interfaces.
    pub host: Option<IpAddr>,
    /// 0 lets the system choose one.
    pub port: u16,
}

impl FromStr for ListenAddress {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        let (host, port) = text
            .rsplit_once(':')
            .context("missing port, expected [host]:port")?;
        let port = port.parse().map_err(|_| anyhow!("invalid port {port:?}"))?;
        let host = match host {
            "" => None,
            "localhost" => Some(IpAddr::V4(Ipv4Addr::LOCALHOST)),
            _ => {
                let bracketed = host
                    .strip_prefix('[')
                    .and_then(|rest| rest.strip_suffix(']'));
                let parsed = bracketed.map_or_else(
                    || host.parse().ok().map(IpAddr::V4),
                    |v6| v6.parse().ok().map(IpAddr::V6),
                );
                Some(parsed.ok_or_else(|| invalid_host(host))?)
            }
        };
        Ok(Self { host, port })
    }
}

fn invalid_host(host: &str) -> anyhow::Error {
    anyhow!(
        "invalid host {host:?}, expected an IP address, localhost, or nothing for all interfaces"
    )
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host {
            None => write!(f, ":{}", self.port),
            Some(host) => SocketAddr::new(host, self.port).fmt(f),
        }
    }
}

impl ListenAddress {
    /// Returns the address with `host` where it has none.
    #[must_use]
    pub fn or_host(self, host: Option<IpAddr>) -> Self {
        Self {
            host: self.host.or(host),
            ..self
        }
    }

    /// Binds the address. Without a host it binds all interfaces of both IP versions, or of IPv4
    /// where the machine has no IPv6.
    pub async fn bind(self) -> io::Result<TcpListener> {
        if let Some(host) = self.host {
            return TcpListener::bind((host, self.port)).await;
        }
        match TcpListener::bind((Ipv6Addr::UNSPECIFIED, self.port)).await {
            Err(error) if no_ipv6(&error) => {
                TcpListener::bind((Ipv4Addr::UNSPECIFIED, self.port)).await
            }
            bound => bound,
        }
    }
}

fn no_ipv6(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::AddrNotAvailable | io::ErrorKind::Unsupported
    ) || error.raw_os_error() == Some(AF_NOT_SUPPORTED)
}

/// Linux `EAFNOSUPPORT`, which has no `io::ErrorKind`.
const AF_NOT_SUPPORTED: i32 = 97;

/// Reads the IP address for listen addresses without a host from the environment.
pub fn listen_ip_from_environment() -> anyhow::Result<Option<IpAddr>> {
    let text = std::env::var(LISTEN_IP_VARIABLE).unwrap_or_default();
    let ip = (!text.is_empty()).then(|| text.parse().map_err(|_| invalid_host(&text)));
    ip.transpose()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `expected`: the address as it is printed, or the begin of the error.
    fn check(text: &str, expected: Result<&str, &str>) {
        let parsed = text.parse::<ListenAddress>();
        match (parsed, expected) {
            (Ok(address), Ok(expected)) => assert_eq!(address.to_string(), expected, "{text}"),
            (Err(error), Err(expected)) => {
                assert!(error.to_string().starts_with(expected), "{text}: {error}");
            }
            (parsed, _) => panic!("{text}: {parsed:?}"),
        }
    }

    #[test]
    fn addresses_are_read_as_go_writes_them() {
        check(":8942", Ok(":8942"));
        check("0.0.0.0:80", Ok("0.0.0.0:80"));
        check("localhost:0", Ok("127.0.0.1:0"));
        check("[::1]:8942", Ok("[::1]:8942"));
        check("8942", Err("missing port, expected [host]:port"));
        check(":", Err("invalid port \"\""));
        check(":99999", Err("invalid port \"99999\""));
        check("::1:80", Err("invalid host \"::1\", expected an IP"));
        check("[::1:80", Err("invalid host \"[::1\", expected an IP"));
        check("example.com:80", Err("invalid host \"example.com\""));
    }

    #[test]
    fn the_listen_ip_fills_only_an_empty_host() {
        let pod_ip = Some("127.1.2.3".parse().unwrap());
        let filled = |text: &str| {
            text.parse::<ListenAddress>()
                .unwrap()
                .or_host(pod_ip)
                .to_string()
        };
        assert_eq!(filled(":8942"), "127.1.2.3:8942");
        assert_eq!(filled("127.0.0.1:8942"), "127.0.0.1:8942");
    }

    #[tokio::test]
    async fn an_address_without_a_host_accepts_ipv4() {
        let listener = ":0".parse::<ListenAddress>().unwrap().bind().await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (client, accepted) = tokio::join!(
            tokio::net::TcpStream::connect((Ipv4Addr::LOCALHOST, port)),
            listener.accept()
        );
        assert!(client.is_ok() && accepted.is_ok());
    }
}
