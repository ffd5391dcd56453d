//! The control plane's programs in the user's cache folder. They are built aside and renamed when
//! whole, under a lock, so that a half built set is never used, two processes never build at once,
//! and what a killed builder left behind is removed by the next one.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, fs};

use anyhow::{Context, Result, bail, ensure};

use crate::module::Module;
use crate::progress::Progress;
use crate::{layout, shim, toolchain};

/// How much of a failed build's output is shown.
const SHOWN_LINES: usize = 20;

/// The folder of a built module, with the programs in `bin` and files of its dependencies in
/// `files`. Builds it when it is not there: blocks for minutes.
pub(crate) fn ensure_built(module: &Module, sandbox: &Path) -> Result<PathBuf> {
    let cache = layout::base("XDG_CACHE_HOME", ".cache")?.join("plimsoll/sandbox");
    let whole = cache.join(module.folder());
    if whole.is_dir() {
        return Ok(whole);
    }
    fs::create_dir_all(&cache).with_context(|| format!("create {}", cache.display()))?;
    let _lock = lock(&cache.join(format!("{}.lock", module.folder())))?;
    if whole.is_dir() {
        return Ok(whole);
    }
    let aside_prefix = format!("{}.building-", module.folder());
    remove_leftovers(&cache, &aside_prefix)?;
    let aside = tempfile::Builder::new()
        .prefix(&aside_prefix)
        .tempdir_in(&cache)
        .context("create a folder to build in")?;
    build(module, aside.path(), sandbox)?;
    fs::rename(aside.path(), &whole)
        .with_context(|| format!("move the programs to {}", whole.display()))?;
    Ok(whole)
}

/// Waits until no other process builds; freed when the file is closed, also by a kill.
fn lock(path: &Path) -> Result<File> {
    let file = File::create(path).with_context(|| format!("create {}", path.display()))?;
    if file.try_lock().is_err() {
        eprintln!("Waiting for another process that is building the same programs");
        file.lock()
            .with_context(|| format!("lock {}", path.display()))?;
    }
    Ok(file)
}

fn remove_leftovers(cache: &Path, prefix: &str) -> Result<()> {
    for entry in fs::read_dir(cache).with_context(|| format!("read {}", cache.display()))? {
        let entry = entry.with_context(|| format!("read {}", cache.display()))?;
        if entry.file_name().to_string_lossy().starts_with(prefix) {
            fs::remove_dir_all(entry.path())
                .with_context(|| format!("remove {}", entry.path().display()))?;
        }
    }
    Ok(())
}

fn build(module: &Module, folder: &Path, sandbox: &Path) -> Result<()> {
    let source = folder.join("source");
    let bin = folder.join("bin");
    module.write(&source).context("write go.mod and go.sum")?;
    fs::create_dir_all(&bin).context("create the programs' folder")?;
    fs::create_dir_all(temporary(&source)).context("create a folder for temporary files")?;
    toolchain::check(&source, module.go_mod())?;
    compile(module, &source, &bin, sandbox)?;
    for (package, program) in module.renames {
        fs::rename(bin.join(package), bin.join(program))
            .with_context(|| format!("rename {package} to {program}"))?;
    }
    for program in module.programs {
        ensure!(
            bin.join(program).is_file(),
            "building {} made no program {program}",
            module.name
        );
    }
    take_files(module, &source, &folder.join("files"))
}

fn compile(module: &Module, source: &Path, bin: &Path, sandbox: &Path) -> Result<()> {
    let mut progress = Progress::start(module.announcement);
    let mut child = go(shim::command(sandbox, "go"), source)
        .args(module.arguments())
        .arg("-o")
        .arg(format!("{}/", bin.display()))
        .arg("tool")
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
            module.name,
            last_lines.join("\n")
        );
    }
    progress.done(&format!("Built {}", module.programs.join(", ")));
    Ok(())
}

/// `go build -v` prints a line per package.
fn follow(output: impl Read, progress: &mut Progress) -> Vec<String> {
    let mut last = Vec::new();
    for (count, line) in BufReader::new(output)
        .lines()
        .map_while(Result::ok)
        .enumerate()
    {
        progress.step(&format!("{} packages, now {line}", count + 1));
        if last.len() == SHOWN_LINES {
            last.remove(0);
        }
        last.push(line);
    }
    last
}

/// The user's own settings must not change what is built.
///
/// Temporary files are kept beside the module, where they are found and removed after a kill.
fn go(mut command: Command, source: &Path) -> Command {
    command
        .current_dir(source)
        .env("CGO_ENABLED", "0")
        .env("GOFLAGS", "-mod=readonly")
        .env("GOWORK", "off")
        .env("GOTMPDIR", temporary(source))
        .env_remove("GOOS")
        .env_remove("GOARCH");
    command
}

fn temporary(source: &Path) -> PathBuf {
    source.join("tmp")
}

/// Copies files out of the module cache, where their versions are those of `go.mod`.
fn take_files(module: &Module, source: &Path, target: &Path) -> Result<()> {
    for (dependency, files) in module.files {
        let mut command = go(Command::new("go"), source);
        let output = command
            .args(["list", "-mod=readonly", "-m", "-f", "{{.Dir}}", dependency])
            .output()
            .context("run `go list`")?;
        ensure!(
            output.status.success(),
            "`go list -m {dependency}` failed: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        let folder = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
        fs::create_dir_all(target).context("create the folder for files")?;
        for file in *files {
            let from = folder.join(file);
            let name = from
                .file_name()
                .with_context(|| format!("{file} is no file"))?;
            let text = fs::read(&from).with_context(|| format!("read {}", from.display()))?;
            fs::write(target.join(name), text)
                .with_context(|| format!("write {}", name.display()))?;
        }
    }
    Ok(())
}

/// This very program, which also plays the part of supervisor and shim.
pub(crate) fn this_program() -> Result<PathBuf> {
    env::current_exe().context("find this program's own path")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leftovers_of_a_killed_builder_go_and_others_stay() {
        let cache = tempfile::tempdir().unwrap();
        for folder in ["a-1.building-x", "a-1", "a-2.building-y"] {
            fs::create_dir(cache.path().join(folder)).unwrap();
        }
        remove_leftovers(cache.path(), "a-1.building-").unwrap();
        let mut left: Vec<_> = fs::read_dir(cache.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        left.sort();
        assert_eq!(left, ["a-1", "a-2.building-y"]);
    }
}
