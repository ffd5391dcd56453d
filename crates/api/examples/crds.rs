//! Writes the custom resource definitions into a folder: `crds FOLDER`.

use std::{env, fs, path::PathBuf};

use anyhow::{Context, Result};

fn main() -> Result<()> {
    let folder = PathBuf::from(env::args_os().nth(1).context("usage: crds FOLDER")?);
    fs::create_dir_all(&folder).with_context(|| format!("create {}", folder.display()))?;
    for definition in api::crd::all() {
        let file = folder.join(api::crd::file_name(&definition));
        fs::write(&file, api::crd::to_yaml(&definition)?).with_context(|| format!("write {}", file.display()))?;
    }
    Ok(())
}
