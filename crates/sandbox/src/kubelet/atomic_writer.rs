//! Atomic updates of a volume's files, as in a kubelet: the files are in a time-stamped folder,
//! `..data` is a link to it that a rename replaces, and each visible name is a link through
//! `..data` (upstream `pkg/volume/util/atomic_writer.go`).

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Component, Path};

use super::volumes::Files;

const DATA: &str = "..data";
const NEXT: &str = "..data_tmp";

/// Replaces the volume's files by `files`. Returns whether anything changed.
pub(super) fn write(folder: &Path, files: &Files) -> io::Result<bool> {
    make_folder(folder)?;
    if holds(folder, files) {
        return Ok(false);
    }
    let previous = fs::read_link(folder.join(DATA)).ok();
    let stamp = format!("..{}", jiff::Timestamp::now().as_nanosecond());
    let home = folder.join(&stamp);
    make_folder(&home)?;
    for (path, file) in files {
        let path = home.join(path);
        path.parent().map_or(Ok(()), make_folder)?;
        write_file(&path, &file.content, file.mode)?;
    }
    replace_link(Path::new(&stamp), &folder.join(NEXT), &folder.join(DATA))?;
    link_names(folder, files)?;
    previous.map_or(Ok(()), |previous| fs::remove_dir_all(folder.join(previous)))?;
    Ok(true)
}

/// Creates a folder that only its owner can enter, unless it exists.
pub(super) fn make_folder(path: &Path) -> io::Result<()> {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
}

fn write_file(path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    let mut file = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?;
    file.write_all(content)?;
    file.set_permissions(fs::Permissions::from_mode(mode))
}

fn holds(folder: &Path, files: &Files) -> bool {
    let mode =
        |path: &Path| fs::metadata(path).map(|metadata| metadata.permissions().mode() & 0o777);
    let same = |path: &Path, content: &[u8], bits: u32| {
        mode(path).is_ok_and(|found| found == bits)
            && fs::read(path).is_ok_and(|found| found == content)
    };
    let data = folder.join(DATA);
    data.exists()
        && names(folder).is_ok_and(|names| names == visible(files))
        && files
            .iter()
            .all(|(path, file)| same(&data.join(path), &file.content, file.mode))
        && count(&data).is_ok_and(|found| found == files.len())
}

fn count(folder: &Path) -> io::Result<usize> {
    let mut files = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        files += if entry.file_type()?.is_dir() {
            count(&entry.path())?
        } else {
            1
        };
    }
    Ok(files)
}

/// Links the first component of every path through `..data` and removes other names.
fn link_names(folder: &Path, files: &Files) -> io::Result<()> {
    let wanted = visible(files);
    for stale in names(folder)?.difference(&wanted) {
        fs::remove_file(folder.join(stale))?;
    }
    for name in &wanted {
        let link = folder.join(name);
        if fs::symlink_metadata(&link).is_err() {
            symlink(Path::new(DATA).join(name), &link)?;
        }
    }
    Ok(())
}

fn visible(files: &Files) -> BTreeSet<OsString> {
    let first = |path: &Path| {
        path.components()
            .find(|part| matches!(part, Component::Normal(_)))
            .map(|part| part.as_os_str().to_owned())
    };
    files.keys().filter_map(|path| first(path)).collect()
}

fn names(folder: &Path) -> io::Result<BTreeSet<OsString>> {
    let names = fs::read_dir(folder)?.map(|entry| entry.map(|entry| entry.file_name()));
    names
        .filter(|name| {
            !name
                .as_ref()
                .is_ok_and(|name| name.as_encoded_bytes().starts_with(b".."))
        })
        .collect()
}

fn replace_link(target: &Path, temporary: &Path, link: &Path) -> io::Result<()> {
    match fs::remove_file(temporary) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    symlink(target, temporary)?;
    fs::rename(temporary, link)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kubelet::volumes::File;

    fn files(entries: &[(&str, &str)]) -> Files {
        entries
            .iter()
            .map(|(path, content)| {
                (
                    path.into(),
                    File {
                        content: (*content).into(),
                        mode: 0o640,
                    },
                )
            })
            .collect()
    }

    #[track_caller]
    fn check(folder: &Path, entries: &[(&str, &str)], changed: bool) {
        assert_eq!(write(folder, &files(entries)).unwrap(), changed);
        for (path, content) in entries {
            assert_eq!(
                fs::read_to_string(folder.join(path)).unwrap(),
                *content,
                "{path}"
            );
            assert_eq!(
                fs::metadata(folder.join(path))
                    .unwrap()
                    .permissions()
                    .mode()
                    & 0o777,
                0o640
            );
        }
        assert_eq!(names(folder).unwrap(), visible(&files(entries)));
    }

    #[test]
    fn a_volume_follows_its_source() {
        let folder = tempfile::tempdir().unwrap();
        let volume = folder.path().join("volume");
        check(&volume, &[("a", "1"), ("deep/b", "2")], true);
        check(&volume, &[("a", "1"), ("deep/b", "2")], false);
        check(&volume, &[("a", "1"), ("deep/c", "2")], true);
        check(&volume, &[("a", "3")], true);
        check(&volume, &[], true);
        check(&volume, &[], false);
    }

    #[test]
    fn only_one_generation_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        for content in ["1", "2", "3"] {
            write(folder.path(), &files(&[("a", content)])).unwrap();
        }
        assert_eq!(
            fs::read_dir(folder.path()).unwrap().count(),
            3,
            "a, ..data and one time-stamped folder"
        );
    }
}
