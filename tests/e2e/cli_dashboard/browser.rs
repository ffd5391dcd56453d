//! Pages in a real browser: headless Chromium, where it is installed.

use std::path::Path;
use std::process::Stdio;

use anyhow::{Context as _, Result, ensure};
use e2e::PATIENCE;
use tokio::process::Command;
use tokio::time::timeout;

/// Name of the program, as in Debian.
const CHROMIUM: &str = "chromium";

/// A browser with a profile of its own.
pub(super) struct Browser {
    profile: tempfile::TempDir,
}

impl Browser {
    /// `None` where Chromium is not installed; the test says so.
    pub(super) async fn find() -> Result<Option<Self>> {
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
    pub(super) async fn open(&self, url: &str) -> Result<String> {
        let profile = self.profile.path().display();
        let browser = Command::new(CHROMIUM)
            .args([
                "--headless=new",
                "--no-sandbox",
                "--disable-gpu",
                "--dump-dom",
            ])
            .args(["--disable-dev-shm-usage", "--enable-logging=stderr"])
            .arg("--virtual-time-budget=2000")
            .arg(format!("--user-data-dir={profile}"))
            .arg(url)
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .output();
        let output = timeout(PATIENCE, browser).await?.context("run Chromium")?;
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

    /// The same for a file.
    pub(super) async fn open_file(&self, file: &Path) -> Result<String> {
        self.open(&format!("file://{}", file.display())).await
    }
}

/// Checks the elements that screen readers need.
pub(super) fn check_labels(page: &str) -> Result<()> {
    for text in ["<html lang=\"en\">", "<title>", "<main>", "<h1>"] {
        ensure!(page.contains(text), "{text} is missing in {page}");
    }
    for (element, needed) in [
        ("<svg", "aria-label=\""),
        ("<svg", "role=\"img\""),
        ("<th ", "scope=\"col\""),
        ("<nav", "aria-label=\""),
    ] {
        for part in page.split(element).skip(1) {
            let tag = part.split('>').next().unwrap_or_default();
            ensure!(tag.contains(needed), "{element}{tag} has no {needed}");
        }
    }
    let inputs = page.matches("<input").count() - page.matches("type=\"hidden\"").count();
    ensure!(
        inputs == page.matches("<label>").count(),
        "an input has no label: {page}"
    );
    Ok(())
}
