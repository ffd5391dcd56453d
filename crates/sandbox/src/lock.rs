//! One process at a time brings a sandbox of a name up or clears it away. The lock is free again
//! when its file is closed, also by a kill.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;

use anyhow::{Context, Result};

use crate::layout::Layout;

/// Held while a sandbox of this name is brought up or its traces are removed.
pub(crate) fn lock(layout: &Layout) -> Result<File> {
    loop {
        let file = lock_file(layout)?;
        file.lock()
            .with_context(|| format!("lock {}", layout.lock().display()))?;
        if is_in_place(&file, layout)? {
            return Ok(file);
        }
    }
}

/// The lock, unless somebody holds it.
pub(crate) fn try_lock(layout: &Layout) -> Result<Option<File>> {
    let file = lock_file(layout)?;
    Ok((file.try_lock().is_ok() && is_in_place(&file, layout)?).then_some(file))
}

fn lock_file(layout: &Layout) -> Result<File> {
    layout.create_root()?;
    File::create(layout.lock()).with_context(|| format!("create {}", layout.lock().display()))
}

/// Whoever held the lock before may have removed its file; then a lock on it means nothing.
fn is_in_place(file: &File, layout: &Layout) -> Result<bool> {
    let locked = file.metadata().context("look at the lock")?;
    Ok(fs::metadata(layout.lock()).is_ok_and(|there| there.ino() == locked.ino()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_whose_file_was_removed_locks_nothing() {
        let states = tempfile::tempdir().unwrap();
        let layout = Layout::below("name", states.path());
        let held = lock(&layout).unwrap();
        assert!(try_lock(&layout).unwrap().is_none());
        fs::remove_file(layout.lock()).unwrap();
        assert!(!is_in_place(&held, &layout).unwrap());
        assert!(try_lock(&layout).unwrap().is_some());
    }
}
