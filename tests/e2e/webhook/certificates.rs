//! Certificates in a folder, as a kubelet keeps a mounted Secret.

use std::net::SocketAddr;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use anyhow::Result;
use e2e::{Authority, Issued};

const FILES: [&str; 3] = ["serverCert.pem", "serverKey.pem", "caCert.pem"];

pub(crate) struct Mounted {
    folder: PathBuf,
    revision: u32,
    /// Address of the server with these certificates.
    pub(crate) address: SocketAddr,
}

impl Mounted {
    pub(crate) fn new(folder: PathBuf, address: SocketAddr) -> Result<Self> {
        std::fs::create_dir_all(&folder)?;
        let mut mounted = Self {
            folder,
            revision: 0,
            address,
        };
        for name in FILES {
            symlink(Path::new("..data").join(name), mounted.path(name))?;
        }
        mounted.replace()?;
        Ok(mounted)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Puts a new authority and a certificate of it in place, in one step.
    pub(crate) fn replace(&mut self) -> Result<()> {
        self.revision += 1;
        let authority = Authority::new(&format!("authority {}", self.revision))?;
        let Issued { certificate, key } = authority.issue(&self.address.ip().to_string())?;
        let revision = format!("..{}", self.revision);
        std::fs::create_dir(self.path(&revision))?;
        for (name, text) in
            FILES
                .iter()
                .zip([certificate.pem(), key.serialize_pem(), authority.pem()])
        {
            std::fs::write(self.path(&revision).join(name), text)?;
        }
        symlink(&revision, self.path("..next"))?;
        Ok(std::fs::rename(self.path("..next"), self.path("..data"))?)
    }
}
