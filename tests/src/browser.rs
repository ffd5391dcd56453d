//! Pages in a real browser: headless Chromium, where it is installed.

use std::path::Path;
use std::process::{Output, Stdio};

use anyhow::{Context as _, Result, ensure};
use tokio::process::Command;
use tokio::time::timeout;

use crate::PATIENCE;

/// Name of the program, as in Debian.
const CHROMIUM: &str = "chromium";

/// A browser with a profile of its own.
#[derive(Debug)]
pub struct Browser {
    profile: tempfile::TempDir,
}

impl Browser {
    /// `None` where Chromium is not installed; the test says so.
    pub async fn find() -> Result<Option<Self>> {
        let found = Command::new(CHROMIUM)
            .arg("--version")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .await;
        if !found.is_ok_and(|status| status.success()) {
            println!(
                "SKIPPED: pages are not opened in a browser, since {CHROMIUM} is not installed"
            );
            return Ok(None);
        }
        let profile = tempfile::tempdir()?;
        Ok(Some(Self { profile }))
    }

    /// The page as the browser has it after its scripts ran. An error if the console has a message,
    /// as it has for errors of scripts and for contents that a policy forbids.
    pub async fn open(&self, url: &str) -> Result<String> {
        let output = self.run(url, &["--dump-dom"]).await?;
        let log = String::from_utf8_lossy(&output.stderr);
        let messages: Vec<&str> = log
            .lines()
            .filter(|line| line.contains("CONSOLE"))
            .collect();
        ensure!(
            output.status.success() && messages.is_empty(),
            "{url}: {messages:?}"
        );
        Ok(String::from_utf8(output.stdout)?)
    }

    pub async fn open_file(&self, file: &Path) -> Result<String> {
        self.open(&format!("file://{}", file.display())).await
    }

    /// Writes a picture of a page (PNG), with this width and height in pixels.
    pub async fn screenshot(
        &self,
        url: &str,
        (width, height): (u32, u32),
        file: &Path,
    ) -> Result<()> {
        let picture = format!("--screenshot={}", file.display());
        let size = format!("--window-size={width},{height}");
        let output = self
            .run(url, &[&picture, &size, "--hide-scrollbars"])
            .await?;
        ensure!(output.status.success(), "{url}: {}", output.status);
        Ok(())
    }

    async fn run(&self, url: &str, arguments: &[&str]) -> Result<Output> {
        let profile = self.profile.path().display();
        let browser = Command::new(CHROMIUM)
            .args(["--headless=new", "--no-sandbox", "--disable-gpu"])
            .args(["--disable-dev-shm-usage", "--enable-logging=stderr"])
            .arg("--virtual-time-budget=2000")
            .arg(format!("--user-data-dir={profile}"))
            .args(arguments)
            .arg(url)
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .output();
        timeout(PATIENCE, browser).await?.context("run Chromium")
    }
}
