//! A wrong clock of a program that is linked dynamically, set while it runs.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use tokio::process::Command;

/// The library that programs load.
const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/offset_clock.c");

#[derive(Debug)]
pub struct OffsetClockLibrary(PathBuf);

impl OffsetClockLibrary {
    /// Compiles it into a folder with the C compiler of the machine.
    pub async fn compile(folder: &Path) -> Result<Self> {
        let library = folder.join("offset-clock.so");
        let status = Command::new("cc")
            .args(["-shared", "-fPIC", "-O2", "-Wall", "-Werror", "-o"])
            .arg(&library)
            .arg(SOURCE)
            .status()
            .await
            .context("run cc")?;
        ensure!(status.success(), "cc: {status}");
        Ok(Self(library))
    }

    /// A clock that is right at first; its file is in the folder of the library.
    pub fn clock(&self, name: &str) -> Result<OffsetClock> {
        let file = self.0.with_file_name(format!("clock-offset-{name}"));
        let clock = OffsetClock {
            library: self.0.clone(),
            file,
        };
        clock.set(0)?;
        Ok(clock)
    }
}

/// A clock that several processes may have.
#[derive(Debug)]
pub struct OffsetClock {
    library: PathBuf,
    file: PathBuf,
}

impl OffsetClock {
    /// The environment variables of a program with this clock, as arguments of `kubectl set env`.
    pub fn variables(&self) -> String {
        let (library, file) = (self.library.display(), self.file.display());
        format!("LD_PRELOAD={library} CLOCK_OFFSET_FILE={file}")
    }

    /// Sets the offset from the right time, in seconds.
    pub fn set(&self, seconds: i64) -> Result<()> {
        // In place: processes have mapped the file.
        fs::OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&self.file)
            .and_then(|mut file| std::io::Write::write_all(&mut file, &seconds.to_ne_bytes()))
            .with_context(|| self.file.display().to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Output of `date` with this clock, in seconds since 1970.
    async fn date(clock: &OffsetClock) -> Result<i64> {
        let mut command = Command::new("date");
        command.arg("+%s");
        for variable in clock.variables().split(' ') {
            let (name, value) = variable.split_once('=').context("a variable")?;
            command.env(name, value);
        }
        let output = command.output().await?;
        Ok(String::from_utf8(output.stdout)?.trim().parse()?)
    }

    #[tokio::test]
    async fn a_program_has_the_offset_that_is_set() -> Result<()> {
        let folder = tempfile::tempdir()?;
        let library = OffsetClockLibrary::compile(folder.path()).await?;
        let clock = library.clock("date")?;
        let right = date(&clock).await?;
        clock.set(-3600)?;
        let wrong = date(&clock).await?;
        ensure!((wrong - right + 3600).abs() < 60, "{right} {wrong}");
        Ok(())
    }
}
