//! Writes a development CA and one certificate per program of the suite as PEM files into the
//! folder given as the only argument. `certs/README.md` lists the files. Not for production.

use std::env;
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};

/// Name of the feed server.
const SERVER: &str = "plimsoll-recommender";
/// Names of the feed clients.
const CLIENTS: [&str; 3] = ["plimsoll-updater", "plimsoll-webhook", "plimsoll-adapter"];

fn main() -> Result<()> {
    let folder = PathBuf::from(
        env::args_os()
            .nth(1)
            .context("usage: development_ca FOLDER")?,
    );
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let authority = authority(&folder)?;
    issue(
        &folder,
        &authority,
        SERVER,
        ExtendedKeyUsagePurpose::ServerAuth,
    )?;
    for client in CLIENTS {
        issue(
            &folder,
            &authority,
            client,
            ExtendedKeyUsagePurpose::ClientAuth,
        )?;
    }
    println!(
        "{}: certificates of {SERVER}, {}",
        folder.display(),
        CLIENTS.join(", ")
    );
    Ok(())
}

fn authority(folder: &Path) -> Result<Issuer<'static, KeyPair>> {
    let mut params = CertificateParams::new([])?;
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params
        .distinguished_name
        .push(DnType::CommonName, "Plimsoll development authority");
    let key = KeyPair::generate()?;
    write(&folder.join("ca.pem"), &params.self_signed(&key)?.pem())?;
    // The CA key is not kept: a new run replaces all files.
    Ok(Issuer::new(params, key))
}

fn issue(
    folder: &Path,
    authority: &Issuer<KeyPair>,
    name: &str,
    usage: ExtendedKeyUsagePurpose,
) -> Result<()> {
    let mut params = CertificateParams::new([name.to_owned()])?;
    params.distinguished_name.push(DnType::CommonName, name);
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![usage];
    let key = KeyPair::generate()?;
    write(
        &folder.join(format!("{name}.pem")),
        &params.signed_by(&key, authority)?.pem(),
    )?;
    write(
        &folder.join(format!("{name}-key.pem")),
        &key.serialize_pem(),
    )
}

/// Replaces a file by one that only its owner can read.
fn write(path: &Path, text: &str) -> Result<()> {
    let replace = || {
        if path.exists() {
            fs::remove_file(path)?;
        }
        OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(path)?
            .write_all(text.as_bytes())
    };
    replace().with_context(|| format!("cannot write {}", path.display()))
}
