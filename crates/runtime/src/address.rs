//! Listen addresses in Go's form: `:8942` (all interfaces), `127.0.0.1:8942`, `[::1]:8942`,
//! `localhost:8942`.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

use tokio::net::TcpListener;

/// Environment variable with the IP address to listen on where a flag has no host. For pods that
/// share one machine's network and have a loopback address each.
pub const LISTEN_IP_VARIABLE: &str = "PLIMSOLL_LISTEN_IP";

/// A host (absent: all interfaces) and a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListenAddress {
    host: Option<IpAddr>,
    port: u16,
}

/// The reason why a text is not a listen address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// No colon before the port.
    #[error("missing port, expected [host]:port")]
    MissingPort,
    /// The port is not a number from 0 to 65535.
    #[error("invalid port {0:?}")]
    Port(String),
    /// The host is neither empty, an IP address, nor `localhost`.
    #[error("invalid host {0:?}, expected an IP address, localhost, or nothing for all interfaces")]
    Host(String),
}

impl FromStr for ListenAddress {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (host, port) = text.rsplit_once(':').ok_or(AddressError::MissingPort)?;
        let port = port
            .parse()
            .map_err(|_| AddressError::Port(port.to_owned()))?;
        let host = match host {
            "" => None,
            "localhost" => Some(IpAddr::V4(Ipv4Addr::LOCALHOST)),
            bracketed if bracketed.starts_with('[') => {
                let inner = bracketed
                    .strip_prefix('[')
                    .and_then(|rest| rest.strip_suffix(']'));
                let v6: Option<Ipv6Addr> = inner.and_then(|inner| inner.parse().ok());
                Some(
                    v6.ok_or_else(|| AddressError::Host(host.to_owned()))?
                        .into(),
                )
            }
            v4 => Some(
                v4.parse::<Ipv4Addr>()
                    .map_err(|_| AddressError::Host(host.to_owned()))?
                    .into(),
            ),
        };
        Ok(Self { host, port })
    }
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
    /// The IP address; `None` means all interfaces.
    pub fn host(self) -> Option<IpAddr> {
        self.host
    }

    /// The port; 0 lets the system choose one.
    pub fn port(self) -> u16 {
        self.port
    }

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
pub fn listen_ip_from_environment() -> Result<Option<IpAddr>, AddressError> {
    match std::env::var(LISTEN_IP_VARIABLE) {
        Ok(text) if !text.is_empty() => {
            text.parse().map(Some).map_err(|_| AddressError::Host(text))
        }
        _ => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Result<&str, AddressError>) {
        let parsed = text
            .parse::<ListenAddress>()
            .map(|address| address.to_string());
        assert_eq!(parsed, expected.map(str::to_owned), "{text}");
    }

    #[test]
    fn addresses_are_read_as_go_writes_them() {
        check(":8942", Ok(":8942"));
        check("0.0.0.0:80", Ok("0.0.0.0:80"));
        check("localhost:0", Ok("127.0.0.1:0"));
        check("[::1]:8942", Ok("[::1]:8942"));
        check("8942", Err(AddressError::MissingPort));
        check(":", Err(AddressError::Port(String::new())));
        check(":99999", Err(AddressError::Port("99999".to_owned())));
        check("::1:80", Err(AddressError::Host("::1".to_owned())));
        check("[::1:80", Err(AddressError::Host("[::1".to_owned())));
        check(
            "example.com:80",
            Err(AddressError::Host("example.com".to_owned())),
        );
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
