//! Cache of the load on disk, one file per replica.
//!
//! A write goes to a temporary file, which then replaces the cache file. So a crash leaves the old
//! cache or the new one. A file that cannot be read is renamed to `.damaged`.

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use prometheus::IntCounterVec;
use serde::{Deserialize, Serialize};
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::Instant;

/// Version of the format.
const VERSION: u32 = 1;
/// Maximum size of a cache file: 20,000 nodes with a sample each 15 s need half of that.
const MAX_BYTES: u64 = 128 << 20;
/// Minimum interval between two writes.
const WRITE_INTERVAL: Duration = Duration::from_secs(30);
/// Age from which on cache files of other replicas are deleted.
const OTHERS_MAX_AGE: Duration = Duration::from_hours(24);

/// Contents of a cache file.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Contents {
    pub(super) version: u32,
    /// load-watcher's name of the source.
    pub(super) provider: String,
    /// Samples by node, for a source without history.
    pub(super) samples: Vec<(String, Vec<CachedSample>)>,
    /// Windows, for a source with history.
    pub(super) windows: Vec<CachedWindow>,
}

/// Milliseconds since 1970, CPU and memory in percent.
pub(super) type CachedSample = (i64, Option<f64>, Option<f64>);

/// Load of one window.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct CachedWindow {
    pub(super) minutes: i64,
    /// Seconds since 1970.
    pub(super) end: i64,
    /// Average and standard deviation in percent of CPU, memory, network and disk, by node.
    pub(super) nodes: Vec<(String, [Option<(f64, f64)>; 4])>,
}

/// Cache file of this replica.
pub(super) struct Cache {
    file: PathBuf,
    writes: IntCounterVec,
    writing: Option<JoinHandle<()>>,
    last: Option<Instant>,
}

impl Cache {
    /// The cache of a replica in a folder.
    pub(super) fn new(folder: &Path, replica: &str, writes: IntCounterVec) -> Self {
        let is_plain = |letter: char| letter.is_ascii_alphanumeric() || ".-_".contains(letter);
        let replica = replica.replace(|letter| !is_plain(letter), "_");
        Self {
            file: folder.join(format!("load-{replica}.json")),
            writes,
            writing: None,
            last: None,
        }
    }

    /// Reads the cache; `None` without a good one. Deletes old caches of other replicas.
    pub(super) async fn read(&self) -> Option<Contents> {
        let file = self.file.clone();
        let read = spawn_blocking(move || {
            delete_others(&file);
            read(&file)
        });
        read.await.ok().flatten()
    }

    /// Whether a write is due.
    pub(super) fn is_due(&self) -> bool {
        self.last
            .is_none_or(|last| last.elapsed() >= WRITE_INTERVAL)
    }

    /// Writes the cache in the background. Skips it while the last write runs.
    pub(super) fn write(&mut self, contents: Contents) {
        self.last = Some(Instant::now());
        let writes = self.writes.clone();
        let count = move |result: &str| writes.with_label_values(&[result]).inc();
        if self
            .writing
            .as_ref()
            .is_some_and(|task| !task.is_finished())
        {
            count("skipped");
            return;
        }
        let file = self.file.clone();
        self.writing = Some(spawn_blocking(move || match write(&file, contents) {
            Ok(()) => count("success"),
            Err(error) => {
                count("error");
                tracing::warn!(file = %file.display(), %error, "cannot write the cache of node load");
            }
        }));
    }
}

/// The file with another ending.
fn with_suffix(file: &Path, suffix: &str) -> PathBuf {
    let mut path = file.as_os_str().to_owned();
    path.push(suffix);
    path.into()
}

fn write(file: &Path, contents: Contents) -> io::Result<()> {
    let contents = Contents {
        version: VERSION,
        ..contents
    };
    let json = serde_json::to_vec(&contents)?;
    if json.len() as u64 > MAX_BYTES {
        let text = format!("{} bytes are more than {MAX_BYTES}", json.len());
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, text));
    }
    let temporary = with_suffix(file, ".tmp");
    let mut written = File::create(&temporary)?;
    written.write_all(&json)?;
    written.sync_all()?;
    drop(written);
    fs::rename(&temporary, file)?;
    // The rename itself is durable once the folder is.
    File::open(file.parent().unwrap_or(Path::new(".")))?.sync_all()
}

fn read(file: &Path) -> Option<Contents> {
    let error = match parse(file) {
        Ok(contents) => return Some(contents),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
        Err(error) => error,
    };
    let damaged = with_suffix(file, ".damaged");
    let renamed = fs::rename(file, &damaged);
    tracing::warn!(
        file = %file.display(), moved_to = %damaged.display(), %error, moved = renamed.is_ok(),
        "cannot read the cache of node load; starting without it"
    );
    None
}

fn parse(file: &Path) -> io::Result<Contents> {
    let mut json = Vec::new();
    File::open(file)?
        .take(MAX_BYTES + 1)
        .read_to_end(&mut json)?;
    if json.len() as u64 > MAX_BYTES {
        let text = format!("more than {MAX_BYTES} bytes");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, text));
    }
    let contents: Contents = serde_json::from_slice(&json)?;
    if contents.version != VERSION {
        let text = format!("version {} in place of {VERSION}", contents.version);
        return Err(io::Error::new(io::ErrorKind::InvalidData, text));
    }
    Ok(contents)
}

/// Deletes files of replicas that do not write any more.
fn delete_others(file: &Path) {
    let entries = file.parent().and_then(|folder| fs::read_dir(folder).ok());
    for entry in entries.into_iter().flatten().flatten() {
        let path = entry.path();
        let name = entry.file_name();
        let is_cache = name
            .to_str()
            .is_some_and(|name| name.starts_with("load-") && (name.contains(".json")));
        let is_old = entry
            .metadata()
            .and_then(|metadata| metadata.modified())
            .is_ok_and(|modified| modified.elapsed().is_ok_and(|age| age > OTHERS_MAX_AGE));
        if is_cache && is_old && path != file {
            let _ = fs::remove_file(path);
        }
    }
}
