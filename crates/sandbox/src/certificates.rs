//! One certificate authority signs every certificate of a sandbox: servers, clients, and the CSRs
//! that the controller manager signs. ECDSA P-256 throughout; keys are readable by their owner
//! only.

use std::fs;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType,
    ExtendedKeyUsagePurpose, IsCa, KeyPair, KeyUsagePurpose,
};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) certificate: PathBuf,
    /// PEM private key.
    pub(crate) key: PathBuf,
}

/// The authority, with the folder that everything it signs goes to.
pub(crate) struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    folder: PathBuf,
}

impl Authority {
    /// Makes a new authority; its own files are `ca.crt` and `ca.key`.
    pub(crate) fn create(folder: &Path) -> Result<Self> {
        fs::create_dir_all(folder).with_context(|| format!("create {}", folder.display()))?;
        let mut params = CertificateParams::default();
        params.distinguished_name = distinguished("plimsoll-sandbox", None);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![
            KeyUsagePurpose::KeyCertSign,
            KeyUsagePurpose::CrlSign,
            KeyUsagePurpose::DigitalSignature,
        ];
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;
        let authority = Self {
            issuer,
            folder: folder.to_owned(),
        };
        write_new(&authority.own().certificate, &authority.issuer.pem())?;
        write_new(
            &authority.own().key,
            &authority.issuer.key().serialize_pem(),
        )?;
        Ok(authority)
    }

    /// The authority's own certificate and key.
    pub(crate) fn own(&self) -> Identity {
        identity(&self.folder, "ca")
    }

    /// The authority's certificate in PEM.
    pub(crate) fn pem(&self) -> String {
        self.issuer.pem()
    }

    /// Signs a certificate that can both serve and call, into `FILE.crt` and `FILE.key`. For a client
    /// of the API server, `name` is the user name and `group` its group. It serves at the DNS names and
    /// addresses `hosts`.
    pub(crate) fn issue(
        &self,
        file: &str,
        name: &str,
        group: Option<&str>,
        hosts: &[&str],
    ) -> Result<Identity> {
        let hosts: Vec<String> = hosts.iter().map(ToString::to_string).collect();
        let mut params = CertificateParams::new(hosts)?;
        params.distinguished_name = distinguished(name, group);
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![
            ExtendedKeyUsagePurpose::ClientAuth,
            ExtendedKeyUsagePurpose::ServerAuth,
        ];
        params.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &self.issuer)?;
        let identity = identity(&self.folder, file);
        write_new(&identity.certificate, &certificate.pem())?;
        write_new(&identity.key, &key.serialize_pem())?;
        Ok(identity)
    }

    /// Makes the key pair that signs `ServiceAccount` tokens: `FILE.pub` and `FILE.key`.
    pub(crate) fn signing_key(&self, file: &str) -> Result<()> {
        let key = KeyPair::generate()?;
        write_new(
            &self.folder.join(format!("{file}.pub")),
            &key.public_key_pem(),
        )?;
        write_new(&identity(&self.folder, file).key, &key.serialize_pem())
    }
}

/// Paths of the certificate of this name in a folder of certificates.
pub(crate) fn identity(folder: &Path, file: &str) -> Identity {
    Identity {
        certificate: folder.join(format!("{file}.crt")),
        key: folder.join(format!("{file}.key")),
    }
}

fn distinguished(name: &str, group: Option<&str>) -> DistinguishedName {
    let mut distinguished = DistinguishedName::new();
    distinguished.push(DnType::CommonName, name);
    if let Some(group) = group {
        distinguished.push(DnType::OrganizationName, group);
    }
    distinguished
}

fn write_new(path: &Path, text: &str) -> Result<()> {
    let write = || {
        fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(path)?
            .write_all(text.as_bytes())
    };
    write().with_context(|| format!("write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn keys_are_for_their_owner_only_and_never_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let authority = Authority::create(folder.path()).unwrap();
        let hosts = ["127.0.0.1", "localhost"];
        let issue = || authority.issue("kwok", "kwok", Some("system:masters"), &hosts);
        let identity = issue().unwrap();
        assert_eq!(
            fs::metadata(&identity.key).unwrap().permissions().mode() & 0o777,
            0o600
        );
        assert!(
            fs::read_to_string(&identity.certificate)
                .unwrap()
                .starts_with("-----BEGIN CERTIFICATE-----")
        );
        let error = issue().unwrap_err();
        let expected = format!("write {}", identity.certificate.display());
        assert_eq!(error.to_string(), expected);
    }
}
