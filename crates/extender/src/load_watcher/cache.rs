//! Cache of the load on disk, one file per replica.
//!
//! A write goes to a temporary file, which then replaces the cache file. So a crash leaves the old
//! cache or the new one. A file that cannot be read is renamed to `.damaged`.

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use placement::{Window, WindowLoad};
use prometheus::IntCounterVec;
use serde::{Deserialize, Serialize};
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::Instant;

const VERSION: u32 = 1;
/// Maximum size of a cache file: 20,000 nodes with a sample each 15 s need half of that.
const MAX_BYTES: u64 = 128 << 20;
const WRITE_INTERVAL: Duration = Duration::from_secs(30);
/// Age from which on cache files of other replicas are deleted.
const OTHERS_MAX_AGE: Duration = Duration::from_hours(24);

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Contents {
    pub(super) version: u32,
    pub(super) provider: String,
    /// Samples by node, for a source without history.
    pub(super) samples: Vec<(String, Vec<CachedSample>)>,
    /// Windows, for a source with history.
    pub(super) windows: Vec<(Window, WindowLoad)>,
}

/// Milliseconds since 1970, CPU and memory in percent.
pub(super) type CachedSample = (i64, Option<f64>, Option<f64>);

pub(super) struct Cache {
    file: PathBuf,
    writes: IntCounterVec,
    writing: Option<JoinHandle<()>>,
    last: Option<Instant>,
}

impl Cache {
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

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use jiff::Timestamp;
    use placement::{NodeLoad, Usage};

    use super::*;

    /// Variable that makes the test with this name a writer.
    const FILE: &str = "PLIMSOLL_TEST_CACHE_FILE";
    const NAME: &str = "load_watcher::cache::tests::a_killed_writer_leaves_a_good_cache";

    fn contents(value: f64) -> Contents {
        let cpu = Some(Usage {
            average_percent: value,
            deviation_percent: 0.5,
        });
        let node = NodeLoad {
            cpu,
            ..NodeLoad::default()
        };
        let load = WindowLoad {
            end: Timestamp::UNIX_EPOCH,
            nodes: [("n1".to_owned(), node)].into(),
        };
        Contents {
            version: VERSION,
            provider: "Prometheus".to_owned(),
            samples: vec![("n1".to_owned(), vec![(1, Some(value), None)])],
            windows: vec![(Window::Fifteen, load)],
        }
    }

    #[test]
    fn a_write_that_was_cut_leaves_the_old_cache() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("load-a.json");
        write(&file, contents(1.0)).expect("written");
        let next = serde_json::to_vec(&contents(2.0)).expect("JSON");
        for cut in 0..next.len() {
            fs::write(with_suffix(&file, ".tmp"), &next[..cut]).expect("written");
            assert_eq!(read(&file), Some(contents(1.0)), "{cut}");
        }
        write(&file, contents(2.0)).expect("written");
        assert_eq!(read(&file), Some(contents(2.0)));
    }

    #[test]
    fn a_damaged_cache_is_set_aside() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("load-a.json");
        let damaged = folder.path().join("load-a.json.damaged");
        let good = serde_json::to_string(&contents(1.0)).expect("JSON");
        let mut bad: Vec<Vec<u8>> = (0..good.len()).map(|cut| good[..cut].into()).collect();
        bad.push(good.replace(r#""version":1"#, r#""version":2"#).into());
        bad.push(good.replace("0.5", "1e999").into());
        bad.push(vec![0xff; 100]);
        bad.push("[".repeat(100_000).into());
        for bytes in bad {
            fs::write(&file, &bytes).expect("written");
            assert_eq!(read(&file), None, "{}", String::from_utf8_lossy(&bytes));
            assert_eq!(fs::read(&damaged).expect("set aside"), bytes);
            assert!(!file.exists());
        }
        // A second start does not read it again.
        assert_eq!(read(&file), None);
    }

    /// Writes long caches, for much longer than the test lets the process live.
    fn write_often(file: &Path) {
        for round in 0..20_000_u32 {
            let samples = vec![(1, Some(f64::from(round)), None); 20_000];
            let long = Contents {
                samples: vec![("n1".to_owned(), samples)],
                ..contents(1.0)
            };
            write(file, long).expect("written");
        }
    }

    #[test]
    fn a_killed_writer_leaves_a_good_cache() {
        if let Some(file) = std::env::var_os(FILE) {
            return write_often(Path::new(&file));
        }
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("load-a.json");
        for round in 0..8 {
            let mut writer = Command::new(std::env::current_exe().expect("this program"))
                .args(["--exact", NAME])
                .env(FILE, &file)
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .expect("a process");
            let temporary = with_suffix(&file, ".tmp");
            let started = std::time::Instant::now();
            while !(file.exists() && temporary.exists())
                && started.elapsed() < Duration::from_mins(1)
            {
                std::thread::yield_now();
            }
            writer.kill().expect("killed");
            writer.wait().expect("ended");
            let cache = read(&file).expect("a good cache");
            assert_eq!(cache.samples[0].1.len(), 20_000, "{round}");
        }
    }

    #[tokio::test]
    async fn old_caches_of_other_replicas_are_deleted() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name);
        let old = std::time::SystemTime::now() - OTHERS_MAX_AGE * 2;
        for name in [
            "load-old.json",
            "load-own.json",
            "load-new.json",
            "other.json",
        ] {
            write(&path(name), contents(1.0)).expect("written");
            if name != "load-new.json" {
                let file = File::options()
                    .write(true)
                    .open(path(name))
                    .expect("a file");
                file.set_modified(old).expect("a time");
            }
        }
        let opts = prometheus::Opts::new("writes", "writes");
        let writes = IntCounterVec::new(opts, &["result"]).expect("a counter");
        let mut cache = Cache::new(folder.path(), "own", writes.clone());
        assert_eq!(cache.read().await, Some(contents(1.0)));
        for (name, exists) in [("old", false), ("own", true), ("new", true)] {
            assert_eq!(
                path(&format!("load-{name}.json")).exists(),
                exists,
                "{name}"
            );
        }
        assert!(path("other.json").exists() && cache.is_due());
        cache.write(contents(2.0));
        assert!(!cache.is_due());
        let count = |result: &str| writes.with_label_values(&[result]).get();
        while count("success") == 0 {
            tokio::task::yield_now().await;
        }
        assert_eq!(cache.read().await, Some(contents(2.0)));
        // A name that is no file name stays in the folder.
        let cache = Cache::new(folder.path(), "../own", writes);
        assert_eq!(cache.file, path("load-.._own.json"));
    }
}
