//! Lock of a sandbox's name: one process at a time starts a sandbox or removes its files. The
//! kernel releases the lock when its file is closed, also after a kill.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;

use anyhow::{Context, Result};

use crate::layout::Layout;

/// Takes the lock; waits until it is free.
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

/// Takes the lock if it is free.
pub(crate) fn try_lock(layout: &Layout) -> Result<Option<File>> {
    let file = lock_file(layout)?;
    Ok((file.try_lock().is_ok() && is_in_place(&file, layout)?).then_some(file))
}

fn lock_file(layout: &Layout) -> Result<File> {
    layout.create_root()?;
    File::create(layout.lock()).with_context(|| format!("create {}", layout.lock().display()))
}

/// Whether a locked file is still the lock: the last owner may have removed it.
fn is_in_place(file: &File, layout: &Layout) -> Result<bool> {
    let locked = file.metadata().context("read the metadata of the lock")?;
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
