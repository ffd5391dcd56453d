//! The last lines of a log, for error messages.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

/// Bytes that are read from the end of the file.
const WINDOW_BYTES: u64 = 16 * 1024;

/// The last twelve lines of a file; empty when it cannot be read.
pub(crate) fn log_tail(path: &Path) -> String {
    last_lines(path, 12)
}

fn last_lines(path: &Path, lines: usize) -> String {
    let window = read_end(path).unwrap_or_default();
    let text = String::from_utf8_lossy(&window);
    let all: Vec<&str> = text.lines().collect();
    all[all.len().saturating_sub(lines)..].join("\n")
}

fn read_end(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(WINDOW_BYTES)))?;
    let mut window = Vec::new();
    file.take(WINDOW_BYTES).read_to_end(&mut window)?;
    Ok(window)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn only_the_last_lines_are_shown() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        fs::write(
            &path,
            format!("{}\nlast but one\nlast\n", "x".repeat(100_000)),
        )
        .unwrap();
        assert_eq!(last_lines(&path, 2), "last but one\nlast");
        assert_eq!(last_lines(&folder.path().join("none"), 2), "");
    }
}
