//! Writes the custom resource definitions into a folder, `deploy/crds` in `make manifests`:
//! `crds FOLDER`.

mod manifests;

use std::{env, fs, path::PathBuf};

use anyhow::{Context, Result};

fn main() -> Result<()> {
    let folder = PathBuf::from(env::args_os().nth(1).context("usage: crds FOLDER")?);
    fs::create_dir_all(&folder).with_context(|| format!("create {}", folder.display()))?;
    for manifest in manifests::manifests()? {
        let file = folder.join(manifest.file_name);
        fs::write(&file, manifest.text).with_context(|| format!("write {}", file.display()))?;
    }
    Ok(())
}
