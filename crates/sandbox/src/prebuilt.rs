//! Control-plane programs that this machine already has: in the folders that
//! `PLIMSOLL_CONTROL_PLANE` and `KUBEBUILDER_ASSETS` name. A program is used when its version has
//! the major and minor number of the pinned one.
//!
//! A program of another version is an error in `PLIMSOLL_CONTROL_PLANE`, which exists for this
//! purpose only. In `KUBEBUILDER_ASSETS`, which other tools share, it is passed over and built.

use std::collections::BTreeMap;
use std::env;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use sha2::{Digest, Sha256};

use crate::go_module::{Module, Program, hex};

/// A folder that may have programs, in itself or in `bin`, and files in `files`.
#[derive(Clone, Debug)]
pub(crate) struct Folder {
    /// Environment variable that names it.
    variable: &'static str,
    path: PathBuf,
    /// Whether a program of another version is an error.
    is_strict: bool,
}

impl Folder {
    fn strict(path: impl Into<PathBuf>) -> Self {
        Self {
            variable: "PLIMSOLL_CONTROL_PLANE",
            path: path.into(),
            is_strict: true,
        }
    }

    fn lenient(path: impl Into<PathBuf>) -> Self {
        Self {
            variable: "KUBEBUILDER_ASSETS",
            path: path.into(),
            is_strict: false,
        }
    }

    fn program(&self, name: &str) -> Option<PathBuf> {
        [self.path.join(name), self.path.join("bin").join(name)]
            .into_iter()
            .find(|path| path.is_file())
    }

    /// The folder of all files of a module: `files` in this folder or its parent.
    fn files(&self, module: &Module) -> Option<PathBuf> {
        [self.path.join("files"), self.path.join("../files")]
            .into_iter()
            .find(|folder| module.has_files(folder))
    }
}

/// The folders that the environment names, the preferred one first.
pub(crate) fn folders() -> Result<Vec<Folder>> {
    let named = |variable| env::var_os(variable).filter(|path| !path.is_empty());
    let strict = named("PLIMSOLL_CONTROL_PLANE").map(Folder::strict);
    if let Some(folder) = &strict {
        ensure!(
            folder.path.is_absolute() && folder.path.is_dir(),
            "{}={} must be the absolute path of a folder",
            folder.variable,
            folder.path.display()
        );
    }
    let lenient = named("KUBEBUILDER_ASSETS").map(Folder::lenient);
    let is_usable = |folder: &Folder| folder.path.is_absolute();
    Ok(strict
        .into_iter()
        .chain(lenient.filter(is_usable))
        .collect())
}

/// Major and minor number of a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Release {
    pub(crate) major: u32,
    pub(crate) minor: u32,
}

impl Release {
    /// The first version in a text: a word of at least two numbers, such as `v1.36.3` or `3.6`.
    pub(crate) fn find(text: &str) -> Option<Self> {
        text.split_whitespace().find_map(|word| {
            let mut numbers = word.trim_start_matches('v').split('.');
            let major = numbers.next()?.parse().ok()?;
            let digits = |text: &str| text.chars().take_while(char::is_ascii_digit).count();
            let minor = numbers.next()?;
            let minor = minor[..digits(minor)].parse().ok()?;
            Some(Self { major, minor })
        })
    }
}

impl fmt::Display for Release {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}.{}", self.major, self.minor)
    }
}

/// The programs of a module that need not be built.
#[derive(Debug, Default)]
pub(crate) struct Prebuilt {
    /// Path and version of each, by name.
    pub(crate) programs: BTreeMap<&'static str, (PathBuf, Release)>,
    /// The folder of the module's files, if one of the named folders has them.
    pub(crate) files: Option<PathBuf>,
    /// Reasons why programs were passed over, for the user.
    pub(crate) remarks: Vec<String>,
}

impl Prebuilt {
    /// Looks for each program of a module in these folders.
    pub(crate) fn find(module: &Module, folders: &[Folder]) -> Result<Self> {
        let mut found = Self::default();
        let mut errors = Vec::new();
        for program in module.programs {
            for folder in folders {
                let Some(path) = folder.program(program.name) else {
                    continue;
                };
                let accepted = module.releases(program);
                let list: Vec<String> = accepted.iter().map(ToString::to_string).collect();
                let wanted = list.join(" or ");
                let place = format!("{}: {}", folder.variable, path.display());
                match release_of(program, &path) {
                    Ok(release) if accepted.contains(&release) => {
                        found.programs.insert(program.name, (path, release));
                        break;
                    }
                    Ok(release) if folder.is_strict => {
                        errors.push(format!("{place} is version {release}, not {wanted}"));
                    }
                    Ok(release) => found.remarks.push(format!(
                        "{place} is version {release}, not {wanted}; it is not used"
                    )),
                    Err(error) => found
                        .remarks
                        .push(format!("{place} is not used: {error:#}")),
                }
            }
        }
        if !errors.is_empty() {
            bail!(
                "{}\nUnset the variable to have these programs built, or put other versions there.",
                errors.join("\n")
            );
        }
        if !found.programs.is_empty() {
            found.files = folders.iter().find_map(|folder| folder.files(module));
        }
        Ok(found)
    }

    /// Programs of the module that have to be built.
    pub(crate) fn missing(&self, module: &Module) -> Vec<&'static Program> {
        module
            .programs
            .iter()
            .filter(|program| !self.programs.contains_key(program.name))
            .collect()
    }

    /// Name of the cache folder for this combination: other paths or versions give another name.
    pub(crate) fn folder(&self, module: &Module) -> String {
        let mut hash = Sha256::new();
        hash.update(format!("{:?}{:?}", self.programs, self.files));
        format!("{}-with-{}", module.folder(), hex(&hash.finalize()))
    }
}

fn release_of(program: &Program, path: &Path) -> Result<Release> {
    let output = Command::new(path)
        .args(program.version_arguments())
        .output()
        .context("start it to read its version")?;
    let text = String::from_utf8_lossy(&output.stdout);
    ensure!(output.status.success(), "{} for its version", output.status);
    Release::find(&text).with_context(|| format!("no version in {:?}", text.trim()))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use tempfile::TempDir;

    use super::*;
    use crate::go_module::CONTROL_PLANE;

    /// A folder of scripts that print versions, by name of the program.
    fn folder(versions: &[(&str, &str)]) -> TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in versions {
            let path = folder.path().join(name);
            fs::write(&path, format!("#!/bin/sh\necho '{text}'\n")).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        folder
    }

    /// The version text of a program at its pinned version.
    fn pinned(name: &str) -> String {
        let program = CONTROL_PLANE.programs.iter().find(|it| it.name == name);
        format!("{name} v{}.0", CONTROL_PLANE.releases(program.unwrap())[0])
    }

    fn names(found: &Prebuilt) -> Vec<&str> {
        found.programs.keys().copied().collect()
    }

    #[test]
    fn a_program_of_the_pinned_release_is_used_and_the_rest_is_built() {
        let etcd = pinned("etcd");
        let named = folder(&[("etcd", &etcd), ("kubectl", &pinned("kubectl"))]);
        let found = Prebuilt::find(&CONTROL_PLANE, &[Folder::lenient(named.path())]).unwrap();
        assert_eq!(names(&found), ["etcd", "kubectl"]);
        assert_eq!(found.programs["etcd"].0, named.path().join("etcd"));
        let missing: Vec<&str> = found
            .missing(&CONTROL_PLANE)
            .iter()
            .map(|it| it.name)
            .collect();
        assert_eq!(
            missing,
            [
                "kube-apiserver",
                "kube-controller-manager",
                "kube-scheduler",
                "kwok",
                "metrics-server"
            ]
        );
        assert!(found.remarks.is_empty());
    }

    #[test]
    fn the_first_folder_comes_first() {
        let etcd = pinned("etcd");
        let (first, second) = (folder(&[("etcd", &etcd)]), folder(&[("etcd", &etcd)]));
        let folders = [Folder::strict(first.path()), Folder::lenient(second.path())];
        let found = Prebuilt::find(&CONTROL_PLANE, &folders).unwrap();
        assert_eq!(found.programs["etcd"].0, first.path().join("etcd"));
    }

    #[test]
    fn another_release_is_passed_over_in_shared_assets() {
        let named = folder(&[("kube-apiserver", "Kubernetes v1.2.3")]);
        let found = Prebuilt::find(&CONTROL_PLANE, &[Folder::lenient(named.path())]).unwrap();
        assert!(found.programs.is_empty());
        assert_eq!(
            found.remarks,
            [format!(
                "KUBEBUILDER_ASSETS: {}/kube-apiserver is version 1.2, not 1.37; it is not used",
                named.path().display()
            )]
        );
    }

    #[test]
    fn every_other_release_is_an_error_in_a_folder_of_our_own() {
        let named = folder(&[
            ("kube-apiserver", "Kubernetes v1.2.3"),
            ("etcd", "etcd Version: 2.0.1"),
        ]);
        let error = Prebuilt::find(&CONTROL_PLANE, &[Folder::strict(named.path())]).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("/etcd is version 2.0, not 3.7"), "{text}");
        assert!(
            text.contains("/kube-apiserver is version 1.2, not 1.37"),
            "{text}"
        );
    }

    #[test]
    fn a_program_without_a_version_is_built() {
        let named = folder(&[("kwok", "kwok version unknown")]);
        let found = Prebuilt::find(&CONTROL_PLANE, &[Folder::strict(named.path())]).unwrap();
        assert!(found.programs.is_empty());
        assert!(
            found.remarks[0].ends_with("no version in \"kwok version unknown\""),
            "{:?}",
            found.remarks
        );
    }

    #[test]
    fn programs_and_files_of_an_earlier_build_are_found() {
        let build = tempfile::tempdir().unwrap();
        let bin = folder(&[("etcd", &pinned("etcd"))]);
        fs::rename(bin.path(), build.path().join("bin")).unwrap();
        let files = build.path().join("files");
        fs::create_dir(&files).unwrap();
        for name in CONTROL_PLANE.file_names() {
            fs::write(files.join(name), "").unwrap();
        }
        for named in [build.path().to_owned(), build.path().join("bin")] {
            let found = Prebuilt::find(&CONTROL_PLANE, &[Folder::strict(named)]).unwrap();
            assert_eq!(names(&found), ["etcd"]);
            assert!(CONTROL_PLANE.has_files(&found.files.unwrap()));
        }
    }

    #[test]
    fn another_combination_is_another_folder() {
        let named = folder(&[("etcd", &pinned("etcd")), ("kubectl", &pinned("kubectl"))]);
        let folders = [Folder::lenient(named.path())];
        let both = Prebuilt::find(&CONTROL_PLANE, &folders).unwrap();
        fs::remove_file(named.path().join("etcd")).unwrap();
        let one = Prebuilt::find(&CONTROL_PLANE, &folders).unwrap();
        assert_ne!(one.folder(&CONTROL_PLANE), both.folder(&CONTROL_PLANE));
    }

    #[test]
    fn versions_are_found_in_what_programs_print() {
        let check = |text: &str, expected: Option<(u32, u32)>| {
            let expected = expected.map(|(major, minor)| Release { major, minor });
            assert_eq!(Release::find(text), expected, "{text}");
        };
        check("Kubernetes v1.36.3", Some((1, 36)));
        check("etcd Version: 3.6.11\nGit SHA: abc", Some((3, 6)));
        check(
            "Client Version: v1.36.3\nKustomize Version: v5.8.1",
            Some((1, 36)),
        );
        check("kwok version v0.8.0 go1.26.8 (linux/amd64)", Some((0, 8)));
        check("prometheus, version 3.5.0 (branch: HEAD)", Some((3, 5)));
        check("v1.36.0-rc.1+abc", Some((1, 36)));
        check("v1.36+", Some((1, 36)));
        check("prometheus, version  (branch: )", None);
        check("", None);
    }
}
