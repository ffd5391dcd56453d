//! TLS options of a server: protocol versions and cipher suites, with Go's names.

use std::path::PathBuf;
use std::str::FromStr;

use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::{SupportedCipherSuite, SupportedProtocolVersion, version};

static TLS12_AND_TLS13: [&SupportedProtocolVersion; 2] = [&version::TLS13, &version::TLS12];
static TLS13_ONLY: [&SupportedProtocolVersion; 1] = [&version::TLS13];

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServingProfile {
    pub min_version: MinTlsVersion,
    pub cipher_suites: CipherSuites,
    /// Whether clients are asked for a certificate. It is optional and not verified; each request
    /// carries it as [`super::PeerCertificates`]. Ignored with `client_authorities`, which are
    /// verified.
    pub request_client_certificates: bool,
    /// File (PEM) of the client CAs. With it, a handshake without a certificate of one of them
    /// fails.
    pub client_authorities: Option<PathBuf>,
    /// Whether HTTP/2 is disabled. With it, a client sends all requests to one replica.
    pub http1_only: bool,
}

/// The minimum TLS version.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum MinTlsVersion {
    /// TLS 1.2 and 1.3.
    #[default]
    #[value(name = "tls1_2")]
    Tls12,
    /// TLS 1.3.
    #[value(name = "tls1_3")]
    Tls13,
}

/// Cipher suites of TLS 1.2. Empty means all. Those of TLS 1.3 cannot be chosen, as in Go.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CipherSuites {
    named: Vec<String>,
    unknown: Vec<String>,
}

impl MinTlsVersion {
    pub(super) fn versions(self) -> &'static [&'static SupportedProtocolVersion] {
        match self {
            Self::Tls12 => &TLS12_AND_TLS13,
            Self::Tls13 => &TLS13_ONLY,
        }
    }
}

impl CipherSuites {
    /// Names of unknown cipher suites, which are ignored as upstream does.
    pub fn unknown(&self) -> &[String] {
        &self.unknown
    }
}

/// Parses names separated by commas or colons.
impl FromStr for CipherSuites {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let all = text
            .split([',', ':'])
            .map(str::trim)
            .filter(|name| !name.is_empty())
            .map(str::to_owned);
        let known = aws_lc_rs::default_provider().cipher_suites;
        let (named, unknown) =
            all.partition(|name| known.iter().any(|suite| go_name(suite) == *name));
        Ok(Self { named, unknown })
    }
}

impl ServingProfile {
    pub(super) fn provider(&self) -> CryptoProvider {
        let mut provider = aws_lc_rs::default_provider();
        let CipherSuites { named, unknown } = &self.cipher_suites;
        if !(named.is_empty() && unknown.is_empty()) {
            provider
                .cipher_suites
                .retain(|suite| suite.tls13().is_some() || named.contains(&go_name(suite)));
        }
        provider
    }
}

/// The name of a cipher suite in Go, which omits the version of TLS 1.3 suites.
fn go_name(suite: &SupportedCipherSuite) -> String {
    format!("{:?}", suite.suite()).replacen("TLS13_", "TLS_", 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The suites of TLS 1.2 that are offered, and the names that are passed over.
    fn check(text: &str, expected: Option<&[&str]>, unknown: &[&str]) {
        let cipher_suites: CipherSuites = text.parse().unwrap();
        assert_eq!(cipher_suites.unknown(), unknown, "{text}");
        let provider = ServingProfile {
            cipher_suites,
            ..ServingProfile::default()
        }
        .provider();
        let all = aws_lc_rs::default_provider().cipher_suites;
        let offered: Vec<_> = provider
            .cipher_suites
            .iter()
            .filter(|suite| suite.tls13().is_none())
            .map(go_name)
            .collect();
        match expected {
            Some(expected) => assert_eq!(offered, expected, "{text}"),
            None => assert_eq!(provider.cipher_suites.len(), all.len(), "{text}"),
        }
        assert!(
            provider
                .cipher_suites
                .iter()
                .any(|suite| suite.tls13().is_some()),
            "{text}"
        );
    }

    #[test]
    fn cipher_suites_have_gos_names() {
        check("", None, &[]);
        let (aes, chacha) = (
            "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
            "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
        );
        check(aes, Some(&[aes]), &[]);
        check(&format!("{chacha}, {aes}"), Some(&[chacha, aes]), &[]);
        check(
            &format!("{aes}:TLS_RSA_WITH_RC4_128_SHA"),
            Some(&[aes]),
            &["TLS_RSA_WITH_RC4_128_SHA"],
        );
        check("TLS_AES_128_GCM_SHA256", Some(&[]), &[]);
        check("nonsense", Some(&[]), &["nonsense"]);
    }
}
