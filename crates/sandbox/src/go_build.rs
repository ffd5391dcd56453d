//! Builds programs with Go from a pinned module.

use std::fs;
use std::io::{self, BufRead, BufReader, ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;

use anyhow::{Context, Result, bail, ensure};

use crate::exec_wrapper;
use crate::go_module::{Module, Program};
use crate::progress::Progress;

/// Lines of a failed build's output that are shown.
const SHOWN_LINES: usize = 20;
/// Go prints this while it fetches modules, before it compiles.
const DOWNLOADING: &str = "go: downloading ";

/// A module with the folder of its `go.mod`.
pub(crate) struct GoBuild<'a> {
    module: &'a Module,
    source: PathBuf,
    /// The `sandbox` program, as exec wrapper.
    sandbox: &'a Path,
}

impl<'a> GoBuild<'a> {
    pub(crate) fn prepare(module: &'a Module, source: PathBuf, sandbox: &'a Path) -> Result<Self> {
        module.write(&source).context("write go.mod and go.sum")?;
        fs::create_dir_all(temporary(&source)).context("create a folder for temporary files")?;
        check(&source, module.go_mod)?;
        Ok(Self {
            module,
            source,
            sandbox,
        })
    }

    pub(crate) fn programs(&self, programs: &[&Program], bin: &Path) -> Result<()> {
        if programs.is_empty() {
            return Ok(());
        }
        self.compile(programs, bin)?;
        for program in programs {
            let (built, path) = (bin.join(program.built_name()), bin.join(program.name));
            if built != path {
                fs::rename(&built, &path)
                    .with_context(|| format!("rename {} to {}", built.display(), program.name))?;
            }
            ensure!(
                path.is_file(),
                "building {} made no program {}",
                self.module.name,
                program.name
            );
        }
        Ok(())
    }

    fn compile(&self, programs: &[&Program], bin: &Path) -> Result<()> {
        let names: Vec<&str> = programs.iter().map(|program| program.name).collect();
        let names = names.join(", ");
        let mut progress = Progress::start(&format!(
            "Building {names} from pinned Go modules, once per machine"
        ));
        if let Some(packages) = self.stale_packages(programs, &mut progress)? {
            progress.expect(packages, programs.len());
        }
        let mut child = self
            .go()
            .args(self.module.arguments())
            .arg("-o")
            .arg(format!("{}/", bin.display()))
            .args(programs.iter().map(|program| program.package))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .context("start `go build`")?;
        let output = child.stderr.take().context("no output of `go build`")?;
        let last_lines = follow(output, &mut progress);
        let status = child.wait().context("wait for `go build`")?;
        if !status.success() {
            bail!(
                "`go build` of {} failed with {status}:\n{}",
                self.module.name,
                last_lines.join("\n")
            );
        }
        progress.done(&format!("Built {names}"));
        Ok(())
    }

    /// Number of packages that Go has to compile; it fetches the modules for that. `None` when Go
    /// cannot say; the build then names the error.
    fn stale_packages(
        &self,
        programs: &[&Program],
        progress: &mut Progress,
    ) -> Result<Option<usize>> {
        let mut child = self
            .go()
            .args(["list", "-deps", "-f", "{{if .Stale}}{{.ImportPath}}{{end}}"])
            .args(self.module.flags())
            .args(programs.iter().map(|program| program.package))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .context("start `go list`")?;
        let stdout = child.stdout.take().context("no output of `go list`")?;
        let stderr = child.stderr.take().context("no errors of `go list`")?;
        // Both pipes are read at the same time, since Go waits when one is full.
        let packages = thread::scope(|scope| {
            let packages = scope.spawn(|| io::read_to_string(stdout));
            follow(stderr, progress);
            packages.join()
        });
        let status = child.wait().context("wait for `go list`")?;
        let packages = match packages {
            Ok(Ok(packages)) if status.success() => packages,
            _ => return Ok(None),
        };
        let is_package = |line: &&str| !line.is_empty();
        Ok(Some(packages.lines().filter(is_package).count()))
    }

    /// Copies files out of the module cache, where their versions are those of `go.mod`.
    pub(crate) fn copy_files(&self, target: &Path) -> Result<()> {
        for (dependency, files) in self.module.files {
            let output = self
                .go()
                .args(["mod", "download", "-json", dependency])
                .output()
                .context("run `go mod download`")?;
            ensure!(
                output.status.success(),
                "`go mod download {dependency}` failed: {}{}",
                String::from_utf8_lossy(&output.stdout),
                String::from_utf8_lossy(&output.stderr)
            );
            let answer: serde_json::Value = serde_json::from_slice(&output.stdout)
                .context("parse the output of `go mod download`")?;
            let folder = answer["Dir"]
                .as_str()
                .context("a module without a folder")?;
            let folder = Path::new(folder);
            fs::create_dir_all(target).context("create the folder for files")?;
            for file in *files {
                let from = folder.join(file);
                let name = from
                    .file_name()
                    .with_context(|| format!("{file} is no file"))?;
                copy(&from, &target.join(name))
                    .with_context(|| format!("copy {}", from.display()))?;
            }
        }
        Ok(())
    }

    /// Go, without settings of the user that change what is built.
    ///
    /// Temporary files are kept in the folder of the module, which the next build removes after a kill.
    fn go(&self) -> Command {
        let mut command = exec_wrapper::command(self.sandbox, None, "go");
        command
            .current_dir(&self.source)
            .env("CGO_ENABLED", "0")
            .env("GOFLAGS", "-mod=readonly")
            .env("GOWORK", "off")
            .env("GOTMPDIR", temporary(&self.source))
            .env_remove("GOOS")
            .env_remove("GOARCH");
        command
    }
}

/// Copies a file, or a folder with all in it. The module cache is read-only, the copy is not.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    if !from.is_dir() {
        return fs::write(to, fs::read(from)?);
    }
    fs::create_dir(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        copy(&entry.path(), &to.join(entry.file_name()))?;
    }
    Ok(())
}

/// Shows a line per package that is compiled. Returns the last lines.
fn follow(output: impl Read, progress: &mut Progress) -> Vec<String> {
    let mut last = Vec::new();
    for line in BufReader::new(output).lines().map_while(Result::ok) {
        if let Some(module) = line.strip_prefix(DOWNLOADING) {
            progress.show(&format!("downloading {module}"));
        } else {
            progress.step(&line);
        }
        if last.len() == SHOWN_LINES {
            last.remove(0);
        }
        last.push(line);
    }
    last
}

fn temporary(source: &Path) -> PathBuf {
    source.join("tmp")
}

/// Checks that `go`, run in the folder of a `go.mod`, is new enough for it. Go may download a newer
/// toolchain by itself.
pub(crate) fn check(module: &Path, go_mod: &str) -> Result<()> {
    let wanted = wanted_version(go_mod).context("the go.mod names no Go version")?;
    let output = match Command::new("go")
        .args(["env", "GOVERSION"])
        .current_dir(module)
        .env("GOWORK", "off")
        .output()
    {
        Ok(output) => output,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            bail!(
                "the sandbox builds its control plane with Go: install Go {wanted} or newer from https://go.dev/dl and have `go` in PATH"
            )
        }
        Err(error) => return Err(error).context("run `go env GOVERSION`"),
    };
    let found = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    if !output.status.success() || !is_at_least(&found, wanted) {
        let found = if found.is_empty() {
            String::from_utf8_lossy(&output.stderr).trim().to_owned()
        } else {
            found
        };
        bail!(
            "the Go toolchain is too old ({found}): install Go {wanted} or newer from https://go.dev/dl and have `go` in PATH"
        );
    }
    Ok(())
}

fn wanted_version(go_mod: &str) -> Option<&str> {
    go_mod
        .lines()
        .find_map(|line| line.strip_prefix("go "))
        .map(str::trim)
}

fn is_at_least(found: &str, wanted: &str) -> bool {
    match (parts(found.trim_start_matches("go")), parts(wanted)) {
        (Some(found), Some(wanted)) => found >= wanted,
        // Development versions of Go ("devel ...") are newer than any release.
        (None, _) => found.starts_with("devel"),
        (_, None) => false,
    }
}

/// Parses `1.26.4`, `1.26`, `1.26rc1` and `1.26.4-vendor`.
fn parts(version: &str) -> Option<[u32; 3]> {
    let mut parts = [0; 3];
    for (part, text) in parts.iter_mut().zip(version.split('.')) {
        let digits = text
            .find(|letter: char| !letter.is_ascii_digit())
            .map_or(text, |end| &text[..end]);
        *part = digits.parse().ok()?;
    }
    Some(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(found: &str, enough: bool) {
        assert_eq!(is_at_least(found, "1.26.4"), enough, "{found}");
    }

    #[test]
    fn versions_compare_by_number() {
        check("go1.26.4", true);
        check("go1.26.10", true);
        check("go1.27rc1", true);
        check("go1.100", true);
        check("go1.26.8 X:nodwarf5", true);
        check("devel go1.28-abcdef", true);
        check("go1.26.3", false);
        check("go1.9.9", false);
        check("", false);
    }

    #[test]
    fn the_wanted_version_is_the_go_line() {
        assert_eq!(
            wanted_version("module m\n\ngo 1.26.4\n\ntoolchain go1.27.0\n"),
            Some("1.26.4")
        );
    }
}
