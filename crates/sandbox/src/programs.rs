//! The control plane's programs in the user's cache folder: links to prebuilt programs, and builds
//! of the pinned Go modules. A folder is filled under another name and renamed when it is complete,
//! under a lock. So no process uses an incomplete set, two processes never build at the same time,
//! and the next build removes the remains of one that was killed.

use std::env;
use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::node::image_archive::Image;
use crate::go_build::GoBuild;
use crate::go_module::{Module, Program};
use crate::layout;
use crate::node::image_archive;
use crate::prebuilt::{self, Prebuilt};

/// The folder with a module's programs in `bin` and files of its dependencies in `files`. Builds
/// programs that are neither prebuilt nor in the cache, which blocks for minutes. `sandbox` is the program
/// of this crate.
pub fn ensure_built(module: &Module, sandbox: &Path) -> Result<PathBuf> {
    let cache = cache()?;
    let prebuilt = Prebuilt::find(module, &prebuilt::folders()?)?;
    ensure_in(&cache, module, &prebuilt, sandbox)
}

/// The folder of programs and images that are made once per machine.
pub(crate) fn cache() -> Result<PathBuf> {
    Ok(layout::base("XDG_CACHE_HOME", ".cache")?.join("plimsoll/sandbox"))
}

/// The path of a program that does nothing until it is ended, for images. It needs a C compiler.
pub fn pause_program() -> Result<PathBuf> {
    crate::node::images::pause_program(&cache()?)
}

/// The path of an OCI archive of images of programs of this machine.
pub fn image_archive(images: &[Image]) -> Result<PathBuf> {
    image_archive::cached(images, &cache()?)
}

fn ensure_in(
    cache: &Path,
    module: &Module,
    prebuilt: &Prebuilt,
    sandbox: &Path,
) -> Result<PathBuf> {
    let built = cache.join(module.folder());
    let name = if prebuilt.programs.is_empty() {
        module.folder()
    } else {
        prebuilt.folder(module)
    };
    let complete = cache.join(&name);
    if is_complete(&complete, module) {
        return Ok(complete);
    }
    fs::create_dir_all(cache).with_context(|| format!("create {}", cache.display()))?;
    let _lock = lock(&cache.join(format!("{name}.lock")))?;
    if is_complete(&complete, module) {
        return Ok(complete);
    }
    let aside_prefix = format!("{name}.building-");
    remove_leftovers(cache, &aside_prefix)?;
    let aside = tempfile::Builder::new()
        .prefix(&aside_prefix)
        .tempdir_in(cache)
        .context("create a folder to build in")?;
    fill(aside.path(), module, prebuilt, &built, sandbox)?;
    if complete.exists() {
        fs::remove_dir_all(&complete).with_context(|| format!("remove {}", complete.display()))?;
    }
    fs::rename(aside.path(), &complete)
        .with_context(|| format!("move the programs to {}", complete.display()))?;
    Ok(complete)
}

/// Fills a new folder: with links to prebuilt programs and to those of an earlier build, else by
/// building the rest.
fn fill(
    folder: &Path,
    module: &Module,
    prebuilt: &Prebuilt,
    built: &Path,
    sandbox: &Path,
) -> Result<()> {
    let bin = folder.join("bin");
    fs::create_dir_all(&bin).context("create the programs' folder")?;
    for (name, (path, _)) in &prebuilt.programs {
        link(path, &bin.join(name))?;
    }
    let mut missing = prebuilt.missing(module);
    let mut files = prebuilt.files.clone();
    if is_complete(built, module) {
        for program in missing.drain(..) {
            link(
                &built.join("bin").join(program.name),
                &bin.join(program.name),
            )?;
        }
        files = files.or_else(|| Some(built.join("files")));
    }
    if let Some(files) = &files {
        link(files, &folder.join("files"))?;
    }
    if missing.is_empty() && files.is_some() {
        return Ok(());
    }
    for remark in &prebuilt.remarks {
        eprintln!("{remark}");
    }
    let go = GoBuild::prepare(module, folder.join("source"), sandbox)?;
    go.programs(&missing, &bin)?;
    if files.is_none() {
        go.copy_files(&folder.join("files"))?;
    }
    Ok(())
}

/// Whether all programs and files exist; the target of a link may be gone.
fn is_complete(folder: &Path, module: &Module) -> bool {
    let has = |program: &Program| folder.join("bin").join(program.name).is_file();
    module.programs.iter().all(has) && module.has_files(&folder.join("files"))
}

fn link(target: &Path, link: &Path) -> Result<()> {
    symlink(target, link)
        .with_context(|| format!("link {} to {}", link.display(), target.display()))
}

/// Waits until no other process builds. The lock is released when the file is closed, also after a
/// kill.
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

/// Path of this program, which is also the supervisor and the exec wrapper.
pub(crate) fn this_program() -> Result<PathBuf> {
    env::current_exe().context("find this program's own path")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::go_module::{CONTROL_PLANE, PROMETHEUS};
    use crate::prebuilt::Release;

    fn prebuilt(name: &'static str, path: &Path) -> Prebuilt {
        fs::write(path, "prebuilt").unwrap();
        let mut prebuilt = Prebuilt::default();
        let release = Release { major: 3, minor: 6 };
        prebuilt.programs.insert(name, (path.to_owned(), release));
        prebuilt
    }

    #[test]
    fn leftovers_of_a_killed_builder_are_removed_and_others_stay() {
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

    #[test]
    fn missing_programs_are_linked_from_an_earlier_build() {
        let folder = tempfile::tempdir().unwrap();
        let cache = folder.path().join("cache");
        let built = cache.join(CONTROL_PLANE.folder());
        for path in ["bin", "files"] {
            fs::create_dir_all(built.join(path)).unwrap();
        }
        for program in CONTROL_PLANE.programs {
            fs::write(built.join("bin").join(program.name), "built").unwrap();
        }
        for name in CONTROL_PLANE.file_names() {
            fs::write(built.join("files").join(name), "").unwrap();
        }
        let prebuilt = prebuilt("etcd", &folder.path().join("etcd"));
        let chosen = ensure_in(&cache, &CONTROL_PLANE, &prebuilt, Path::new("unused")).unwrap();
        let read = |name: &str| fs::read_to_string(chosen.join("bin").join(name)).unwrap();
        assert_eq!(
            (read("etcd"), read("kwok")),
            ("prebuilt".to_owned(), "built".to_owned())
        );
        assert!(CONTROL_PLANE.has_files(&chosen.join("files")));
    }

    #[test]
    fn a_module_that_is_prebuilt_entirely_needs_no_build() {
        let folder = tempfile::tempdir().unwrap();
        let mut prebuilt = prebuilt("prometheus", &folder.path().join("prometheus"));
        prebuilt.files = Some(folder.path().to_owned());
        let ensure = || ensure_in(folder.path(), &PROMETHEUS, &prebuilt, Path::new("unused"));
        let chosen = ensure().unwrap();
        assert_eq!(
            fs::read_to_string(chosen.join("bin/prometheus")).unwrap(),
            "prebuilt"
        );
        assert_eq!(ensure().unwrap(), chosen);
    }
}
