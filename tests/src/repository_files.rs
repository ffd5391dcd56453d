//! Files of the repository.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The folder of the repository.
///
/// # Panics
///
/// If this crate has no parent folder.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("tests/ lies in the repository")
        .to_path_buf()
}

/// The files that git knows or would add, as paths from the root, without symbolic links.
///
/// # Panics
///
/// If git does not run.
pub fn files() -> Vec<PathBuf> {
    let output = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard"])
        .current_dir(root())
        .output()
        .expect("git runs");
    assert!(
        output.status.success(),
        "git ls-files: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    let text = String::from_utf8(output.stdout).expect("our paths are UTF-8");
    text.lines()
        .map(PathBuf::from)
        .filter(|path| fs::symlink_metadata(root().join(path)).is_ok_and(|found| found.is_file()))
        .collect()
}

pub fn sources() -> Vec<PathBuf> {
    files()
        .into_iter()
        .filter(|path| path.extension().is_some_and(|extension| extension == "rs"))
        .collect()
}

/// The text of a file, by its path from the root.
///
/// # Panics
///
/// If the file cannot be read.
pub fn read(path: &Path) -> String {
    fs::read_to_string(root().join(path))
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
