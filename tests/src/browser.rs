//! Pages in a real browser: headless Chromium, where it is installed.

mod session;

use std::path::Path;
use std::process::{Output, Stdio};

use anyhow::{Context as _, Result, ensure};
use serde::Deserialize;
use tokio::process::Command;
use tokio::time::timeout;

pub use session::{Key, Session};

use crate::PATIENCE;

/// Name of the program, as in Debian.
const CHROMIUM: &str = "chromium";
/// The rules of accessibility, as a package of npm.
const AXE: &str = "axe-core@4.10.2";
/// Begin and end of the reports in the page that holds the frames.
const REPORTS: (&str, &str) = ("<pre id=\"reports\">", "</pre>");

/// The colours that a user prefers, as Chromium numbers them.
#[derive(Debug, Clone, Copy)]
pub enum Scheme {
    Dark,
    Light,
}

#[derive(Debug, Deserialize)]
pub struct PageReport {
    /// Rules of axe-core that the page breaks, with the elements.
    pub violations: Vec<String>,
    /// Number of rules that it follows.
    pub passes: usize,
    /// Whether the page prefers dark colours.
    pub is_dark: bool,
    /// Widths of the frame and of the page's contents in pixels.
    pub frame: u32,
    pub contents: u32,
}

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
        let mut page = self.session((1280, 900)).await?;
        page.open(url).await?;
        let html = page.value("document.documentElement.outerHTML").await?;
        ensure!(page.messages.is_empty(), "{url}: {:?}", page.messages);
        Ok(html.as_str().context("a page")?.to_owned())
    }

    pub async fn open_file(&self, file: &Path) -> Result<String> {
        self.open(&format!("file://{}", file.display())).await
    }

    /// Writes a picture of a page (PNG), with this width and height in pixels.
    pub async fn screenshot(&self, url: &str, size: (u32, u32), file: &Path) -> Result<()> {
        let mut page = self.session(size).await?;
        page.open(url).await?;
        std::fs::write(file, page.picture().await?)?;
        Ok(())
    }

    /// The script of axe-core; `None` where npm does not fetch it. The test says so.
    pub async fn axe(&self) -> Result<Option<String>> {
        let folder = self.profile.path();
        let pack = Command::new("npm")
            .args(["pack", "--silent", AXE])
            .current_dir(folder)
            .output()
            .await;
        let Some(pack) = pack.ok().filter(|it| it.status.success()) else {
            println!("SKIPPED: pages are not judged by axe-core, since npm does not fetch {AXE}");
            return Ok(None);
        };
        let archive = String::from_utf8(pack.stdout)?.trim().to_owned();
        let unpack = Command::new("tar")
            .args(["-xzf", &archive, "package/axe.min.js"])
            .current_dir(folder)
            .status()
            .await?;
        ensure!(unpack.success(), "{archive}: {unpack}");
        let script = std::fs::read_to_string(folder.join("package/axe.min.js"))?;
        Ok(Some(script))
    }

    /// Findings of axe-core at a page in frames of these widths, and how wide the contents are.
    pub async fn judge(
        &self,
        axe: &str,
        page: &str,
        widths: &[u32],
        scheme: Scheme,
    ) -> Result<Vec<PageReport>> {
        let (begin, end) = REPORTS;
        let axe = axe.replace("</script", "<\\/script");
        let script = format!(
            "<script>{axe}</script><script>axe.run().then(found => {{
               const text = node => [node.html, node.failureSummary].join(' ');
               parent.document.getElementById('reports').append(JSON.stringify({{
                 violations: found.violations.map(it => it.id + ': ' + it.nodes.map(text).join('; ')),
                 passes: found.passes.length, frame: document.documentElement.clientWidth,
                 is_dark: matchMedia('(prefers-color-scheme: dark)').matches, contents: document.documentElement.scrollWidth,
               }}) + '\\n');
             }});</script></body>"
        );
        // The page allows no script but its own.
        let page = page.replace("Content-Security-Policy", "x-policy");
        let page = page.replace("</body>", &script);
        let page = page.replace('&', "&amp;").replace('"', "&quot;");
        let frame =
            |width: &u32| format!("<iframe width={width} height=2000 srcdoc=\"{page}\"></iframe>");
        let frames: String = widths.iter().map(frame).collect();
        let file = self.profile.path().join("judged.html");
        std::fs::write(
            &file,
            format!("<!doctype html><body>{begin}{end}{frames}</body>"),
        )?;
        let scheme = format!("--blink-settings=preferredColorScheme={}", scheme as u8);
        let url = format!("file://{}", file.display());
        let output = self.run(&url, &["--dump-dom", &scheme]).await?;
        let dom = String::from_utf8(output.stdout)?;
        let reports = dom.split_once(begin).and_then(|it| it.1.split_once(end));
        let (reports, _) = reports.context("no reports")?;
        let reports = reports
            .replace("&lt;", "<")
            .replace("&gt;", ">")
            .replace("&amp;", "&");
        let reports = serde_json::Deserializer::from_str(&reports).into_iter();
        let reports = reports.collect::<Result<Vec<PageReport>, _>>()?;
        ensure!(reports.len() == widths.len(), "of {widths:?}: {reports:?}");
        Ok(reports)
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
