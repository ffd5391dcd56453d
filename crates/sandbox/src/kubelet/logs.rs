//! Container logs in the format of container runtimes (`2026-01-02T03:04:05.000000006Z stdout F
//! text`), which KWOK's fake kubelet reads for `kubectl logs`. A file is bounded; a new run keeps
//! the log of the last one.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::io::{AsyncBufRead, AsyncBufReadExt};

/// Bytes of one log file before a new one replaces it.
const FILE_BYTES: u64 = 10 * 1024 * 1024;

/// Bytes of one entry; longer lines are split, marked as partial.
const ENTRY_BYTES: usize = 16 * 1024;

pub(super) fn current(folder: &Path) -> PathBuf {
    folder.join("current.log")
}

pub(super) fn previous(folder: &Path) -> PathBuf {
    folder.join("previous.log")
}

/// The log of one run of a container, shared by its two streams.
#[derive(Clone, Debug)]
pub(super) struct Log(Arc<Mutex<LogFile>>);

#[derive(Debug)]
struct LogFile {
    path: PathBuf,
    file: File,
    written: u64,
}

impl Log {
    pub(super) fn start(folder: &Path) -> io::Result<Self> {
        fs::create_dir_all(folder)?;
        let path = current(folder);
        if path.exists() {
            fs::rename(&path, previous(folder))?;
        }
        let file = File::create(&path)?;
        Ok(Self(Arc::new(Mutex::new(LogFile {
            path,
            file,
            written: 0,
        }))))
    }

    /// Copies a stream until it ends. Errors of the log file do not stop it: the container must not
    /// wait for its log.
    pub(super) async fn copy(self, stream: &'static str, mut from: impl AsyncBufRead + Unpin) {
        let mut entry = Vec::new();
        while let Ok(buffer) = from.fill_buf().await {
            if buffer.is_empty() {
                break;
            }
            let room = ENTRY_BYTES - entry.len();
            let line = buffer.iter().take(room).position(|byte| *byte == b'\n');
            let taken = line.unwrap_or(buffer.len().min(room));
            entry.extend_from_slice(&buffer[..taken]);
            from.consume(taken + usize::from(line.is_some()));
            if line.is_some() || entry.len() == ENTRY_BYTES {
                self.append(stream, line.is_some(), &entry);
                entry.clear();
            }
        }
        if !entry.is_empty() {
            self.append(stream, true, &entry);
        }
    }

    fn append(&self, stream: &str, whole: bool, entry: &[u8]) {
        let mut text = format!(
            "{:.9} {stream} {} ",
            Timestamp::now(),
            if whole { 'F' } else { 'P' }
        )
        .into_bytes();
        text.extend_from_slice(entry);
        text.push(b'\n');
        let mut file = self.0.lock();
        if let Err(error) = file.append(&text) {
            tracing::warn!(%error, path = %file.path.display(), "cannot write a log entry");
        }
    }
}

impl LogFile {
    fn append(&mut self, text: &[u8]) -> io::Result<()> {
        if self.written + text.len() as u64 > FILE_BYTES {
            // A new file with the same name: readers that follow notice and open it.
            fs::remove_file(&self.path)?;
            self.file = File::create(&self.path)?;
            self.written = 0;
        }
        self.file.write_all(text)?;
        self.written += text.len() as u64;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn copied(folder: &Path, text: &[u8]) -> Vec<String> {
        let log = Log::start(folder).unwrap();
        futures::executor::block_on(log.copy("stdout", text));
        fs::read_to_string(current(folder))
            .unwrap()
            .lines()
            .map(str::to_owned)
            .collect()
    }

    #[track_caller]
    fn check(text: &str, expected: &[&str]) {
        let folder = tempfile::tempdir().unwrap();
        let entries = copied(folder.path(), text.as_bytes());
        let without_time: Vec<&str> = entries
            .iter()
            .map(|entry| entry.split_once(' ').unwrap().1)
            .collect();
        assert_eq!(without_time, expected);
    }

    #[test]
    fn each_line_is_an_entry() {
        check(
            "a\nb c\n\nd",
            &["stdout F a", "stdout F b c", "stdout F ", "stdout F d"],
        );
        check("", &[]);
    }

    #[test]
    fn a_long_line_is_split() {
        let part = "x".repeat(ENTRY_BYTES);
        check(
            &format!("{part}y\n"),
            &[&format!("stdout P {part}"), "stdout F y"],
        );
    }

    #[test]
    fn entries_begin_with_nanoseconds() {
        let folder = tempfile::tempdir().unwrap();
        let entry = copied(folder.path(), b"a\n").remove(0);
        let (time, _) = entry.split_once(' ').unwrap();
        assert_eq!(time.len(), "2026-01-02T03:04:05.000000006Z".len());
        assert!(time.parse::<Timestamp>().is_ok(), "{time}");
    }

    #[test]
    fn a_new_run_keeps_the_log_of_the_one_before() {
        let folder = tempfile::tempdir().unwrap();
        for run in ["first", "second", "third"] {
            copied(folder.path(), run.as_bytes());
        }
        assert!(
            fs::read_to_string(previous(folder.path()))
                .unwrap()
                .ends_with("stdout F second\n")
        );
        assert!(
            fs::read_to_string(current(folder.path()))
                .unwrap()
                .ends_with("stdout F third\n")
        );
    }

    #[test]
    fn a_file_is_replaced_before_it_is_too_long() {
        let folder = tempfile::tempdir().unwrap();
        let line = format!("{}\n", "x".repeat(ENTRY_BYTES - 1));
        copied(folder.path(), line.repeat(700).as_bytes());
        assert!(fs::metadata(current(folder.path())).unwrap().len() < FILE_BYTES);
    }
}
