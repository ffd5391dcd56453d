//! Address of the feed that the recommender announces in its Lease.

use std::net::IpAddr;

use anyhow::ensure;
use runtime::ListenAddress;

/// The address for the Lease: the advertised host, or else the listening one, with the port.
pub fn advertised_address(host: &str, listen: ListenAddress) -> anyhow::Result<String> {
    let host = match (host, listen.host) {
        ("", None) => {
            anyhow::bail!("--feed-advertised-host is needed where --feed-address has no host")
        }
        ("", Some(host)) => host.to_string(),
        (host, _) => host.to_owned(),
    };
    ensure!(
        listen.port != 0,
        "--feed-address: the port must not be 0, since the Lease announces it"
    );
    // The address ends the holder's identity, whose parts are joined by underscores.
    ensure!(
        !host.contains(['_', ' ', '/']),
        "--feed-advertised-host: {host:?} is not a host"
    );
    let host = if matches!(host.parse(), Ok(IpAddr::V6(_))) {
        format!("[{host}]")
    } else {
        host
    };
    Ok(format!("{host}:{}", listen.port))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(host: &str, listen: &str, expected: Option<&str>) {
        let address = advertised_address(host, listen.parse().expect(listen)).ok();
        assert_eq!(address.as_deref(), expected, "{host:?} {listen}");
    }

    #[test]
    fn the_lease_gets_an_address_that_others_can_reach() {
        check("10.0.0.7", ":8950", Some("10.0.0.7:8950"));
        check("", "127.1.2.3:8950", Some("127.1.2.3:8950"));
        check("10.0.0.7", "127.0.0.1:1", Some("10.0.0.7:1"));
        check("fd00::7", ":8950", Some("[fd00::7]:8950"));
        check("", "[::1]:8950", Some("[::1]:8950"));
        check("", ":8950", None);
        check("10.0.0.7", ":0", None);
        check("a_b", ":8950", None);
    }
}
