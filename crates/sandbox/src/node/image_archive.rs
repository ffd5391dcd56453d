//! Images of programs of this machine as one OCI archive, for `ctr images import`.
//!
//! An image has one layer with its own files. A layer before it, which all images share, has the shared
//! libraries of programs that are linked dynamically, at their paths on this machine. The same images
//! give the same bytes.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, BufWriter, Seek as _, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tempfile::NamedTempFile;

use super::shared_libraries::shared_libraries;
use crate::go_module::hex;

/// Changes with the content of an archive of the same images.
const FORMAT: u32 = 2;
/// Prefix of all files in the cache folder.
const PREFIX: &str = "images-";
/// Archives that the cache folder keeps.
const MAX_ARCHIVES: usize = 4;
const INDEX_TYPE: &str = "application/vnd.oci.image.index.v1+json";
const MANIFEST_TYPE: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIGURATION_TYPE: &str = "application/vnd.oci.image.config.v1+json";
const LAYER_TYPE: &str = "application/vnd.oci.image.layer.v1.tar";

/// Returns the path of an archive of these images in `folder`, which is written unless the programs
/// and their libraries have the paths, sizes and times of an earlier call.
pub(crate) fn cached(images: &[Image], folder: &Path) -> Result<PathBuf> {
    fs::create_dir_all(folder).with_context(|| format!("create {}", folder.display()))?;
    let archive = folder.join(format!("{PREFIX}{}.tar", key(images)?));
    if let Ok(file) = File::open(&archive) {
        // The time of the last use decides which archives stay.
        file.set_modified(SystemTime::now())
            .with_context(|| format!("set the time of {}", archive.display()))?;
        return Ok(archive);
    }
    write(images, &archive)?;
    remove_oldest(folder)?;
    Ok(archive)
}

/// Identifies the content of an archive without a look into the programs.
fn key(images: &[Image]) -> Result<String> {
    let programs = images.iter().flat_map(Image::programs);
    let mut files: Vec<_> = programs.map(Path::to_owned).collect();
    files.extend(libraries(images)?);
    let mut versions = Vec::new();
    for path in files {
        let metadata = fs::metadata(&path).with_context(|| format!("find {}", path.display()))?;
        versions.push((path, metadata.len(), metadata.modified()?));
    }
    let all = format!("{FORMAT} {images:?} {versions:?}");
    Ok(hex(&Sha256::digest(all)))
}

fn libraries(images: &[Image]) -> Result<BTreeSet<PathBuf>> {
    let mut libraries = BTreeSet::new();
    for program in images.iter().flat_map(Image::programs) {
        libraries.extend(shared_libraries(program)?);
    }
    Ok(libraries)
}

/// Removes all but the newest archives, and what an interrupted call left.
fn remove_oldest(folder: &Path) -> Result<()> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).context("list the archives")? {
        let entry = entry.context("list the archives")?;
        if entry.file_name().to_string_lossy().starts_with(PREFIX) {
            // Another process may remove it at the same time.
            let modified = entry.metadata().and_then(|metadata| metadata.modified());
            files.extend(modified.ok().map(|modified| (modified, entry.path())));
        }
    }
    files.sort_by_key(|(modified, _)| Reverse(*modified));
    for (_, path) in files.into_iter().skip(MAX_ARCHIVES) {
        _ = fs::remove_file(path);
    }
    Ok(())
}

/// Writes an archive, which replaces the file at this path when it is complete.
pub(crate) fn write(images: &[Image], archive: &Path) -> Result<()> {
    let folder = archive.parent().context("an archive lies in a folder")?;
    let aside = temporary_file(folder)?;
    let mut writer = ArchiveWriter {
        tar: tar::Builder::new(BufWriter::new(aside)),
        written: BTreeSet::new(),
    };
    let libraries = libraries(images)?;
    let shared = if libraries.is_empty() {
        None
    } else {
        let files = libraries.iter().map(|path| (&**path, Entry::File(path)));
        Some(writer.add_layer(&files.collect::<Vec<_>>(), 0, folder)?)
    };
    let mut manifests = Vec::new();
    for image in images {
        let own = writer.add_files(image, folder)?;
        let needs_libraries = !self::libraries(std::slice::from_ref(image))?.is_empty();
        let layers: Vec<_> = shared.iter().filter(|_| needs_libraries).cloned().collect();
        let manifest = writer.add_manifest(&[layers, vec![own]].concat(), image)?;
        for name in &image.names {
            let mut named = manifest.descriptor(MANIFEST_TYPE);
            named["annotations"] = json!({
                "io.containerd.image.name": name,
                "org.opencontainers.image.ref.name": tag(name),
            });
            manifests.push(named);
        }
    }
    let index = json!({"schemaVersion": 2, "mediaType": INDEX_TYPE, "manifests": manifests});
    writer.add_json("oci-layout", &json!({"imageLayoutVersion": "1.0.0"}))?;
    writer.add_json("index.json", &index)?;
    let buffer = writer.tar.into_inner().context("end the archive")?;
    let aside = buffer.into_inner().context("write the archive")?;
    let moved = aside.persist(archive);
    moved.with_context(|| format!("move the archive to {}", archive.display()))?;
    Ok(())
}

fn tag(name: &str) -> &str {
    let last = name.rsplit('/').next().unwrap_or(name);
    last.split_once(':').map_or("latest", |(_, tag)| tag)
}

fn temporary_file(folder: &Path) -> Result<NamedTempFile> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(PREFIX).suffix(".partial");
    let file = builder.tempfile_in(folder);
    file.with_context(|| format!("create a file in {}", folder.display()))
}

/// A file below `blobs/sha256`.
#[derive(Clone, Debug)]
struct Blob {
    /// In hexadecimal digits.
    sha256: String,
    size: u64,
}

impl Blob {
    fn digest(&self) -> String {
        format!("sha256:{}", self.sha256)
    }

    fn path(&self) -> String {
        format!("blobs/sha256/{}", self.sha256)
    }

    fn descriptor(&self, media_type: &str) -> Value {
        json!({"mediaType": media_type, "digest": self.digest(), "size": self.size})
    }
}

struct ArchiveWriter<W: Write> {
    tar: tar::Builder<W>,
    /// Digests of the blobs in the archive.
    written: BTreeSet<String>,
}

impl<W: Write> ArchiveWriter<W> {
    fn add_files(&mut self, image: &Image, folder: &Path) -> Result<Blob> {
        let mut stripped = Vec::new();
        for program in image.programs() {
            let file = temporary_file(folder)?;
            strip(program, file.path()).with_context(|| format!("pack {}", program.display()))?;
            stripped.push(file);
        }
        let mut programs = stripped.iter();
        let mut files = Vec::new();
        for (path, content) in &image.files {
            let entry = match content {
                Content::Program(_) => Entry::File(programs.next().context("a program")?.path()),
                Content::Text(text) => Entry::Text(text),
                Content::Link(target) => Entry::Link(target),
            };
            files.push((&**path, entry));
        }
        self.add_layer(&files, image.user, folder)
    }

    /// Adds a layer with entries at their paths in the image, and the folders above them.
    fn add_layer(
        &mut self,
        files: &[(&Path, Entry<'_>)],
        user: u64,
        folder: &Path,
    ) -> Result<Blob> {
        // The digest is the name in the archive, so the layer is complete before it is added.
        let mut file = tempfile::tempfile_in(folder).context("create a file for a layer")?;
        let mut hashing = HashingWriter {
            writer: &file,
            sha256: Sha256::new(),
            size: 0,
        };
        write_layer(files, user, &mut hashing)?;
        let blob = hashing.blob();
        file.rewind().context("read the layer")?;
        self.add_blob(&blob, file)?;
        Ok(blob)
    }

    fn add_manifest(&mut self, layers: &[Blob], image: &Image) -> Result<Blob> {
        let digests: Vec<_> = layers.iter().map(Blob::digest).collect();
        let configuration = json!({
            "architecture": architecture()?,
            "os": "linux",
            "config": {
                "Entrypoint": image.entrypoint,
                "Cmd": image.arguments,
                "User": format!("{0}:{0}", image.user),
            },
            "rootfs": {"type": "layers", "diff_ids": digests},
        });
        let configuration = self.add_json_blob(&configuration)?;
        let layers = layers.iter().map(|layer| layer.descriptor(LAYER_TYPE));
        self.add_json_blob(&json!({
            "schemaVersion": 2,
            "mediaType": MANIFEST_TYPE,
            "config": configuration.descriptor(CONFIGURATION_TYPE),
            "layers": layers.collect::<Vec<_>>(),
        }))
    }

    fn add_json_blob(&mut self, value: &Value) -> Result<Blob> {
        let bytes = serde_json::to_vec(value).context("write JSON")?;
        let mut hashing = HashingWriter {
            writer: io::sink(),
            sha256: Sha256::new(),
            size: 0,
        };
        hashing.write_all(&bytes).context("hash JSON")?;
        let blob = hashing.blob();
        self.add_blob(&blob, &*bytes)?;
        Ok(blob)
    }

    fn add_blob(&mut self, blob: &Blob, content: impl io::Read) -> Result<()> {
        if self.written.insert(blob.sha256.clone()) {
            let mut header = file_header(blob.size, 0o644, 0);
            let added = self.tar.append_data(&mut header, blob.path(), content);
            added.context("add a blob")?;
        }
        Ok(())
    }

    fn add_json(&mut self, path: &str, value: &Value) -> Result<()> {
        let bytes = serde_json::to_vec(value).context("write JSON")?;
        let mut header = file_header(bytes.len() as u64, 0o644, 0);
        let added = self.tar.append_data(&mut header, path, &*bytes);
        added.with_context(|| format!("add {path}"))
    }
}

#[derive(Clone, Copy)]
enum Entry<'a> {
    File(&'a Path),
    Text(&'a str),
    Link(&'a Path),
}

fn write_layer(files: &[(&Path, Entry<'_>)], user: u64, writer: impl Write) -> Result<()> {
    let mut tar = tar::Builder::new(writer);
    let mut folders = BTreeSet::new();
    for (path, entry) in files {
        let path = path.strip_prefix("/").unwrap_or(path);
        let above: Vec<_> = path.ancestors().skip(1).collect();
        for folder in above.into_iter().rev() {
            if folder != Path::new("") && folders.insert(folder) {
                let mut header = file_header(0, 0o755, user);
                header.set_entry_type(tar::EntryType::Directory);
                let added = tar.append_data(&mut header, folder, io::empty());
                added.with_context(|| format!("add {}", folder.display()))?;
            }
        }
        let added = match *entry {
            Entry::File(source) => File::open(source).and_then(|file| {
                let size = file.metadata()?.len();
                tar.append_data(&mut file_header(size, 0o755, user), path, file)
            }),
            Entry::Text(text) => {
                let mut header = file_header(text.len() as u64, 0o755, user);
                tar.append_data(&mut header, path, text.as_bytes())
            }
            Entry::Link(target) => {
                let mut header = file_header(0, 0o777, user);
                header.set_entry_type(tar::EntryType::Symlink);
                tar.append_link(&mut header, path, target)
            }
        };
        added.with_context(|| format!("add {}", path.display()))?;
    }
    tar.into_inner().context("end a layer")?;
    Ok(())
}

fn file_header(size: u64, mode: u32, user: u64) -> tar::Header {
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(tar::EntryType::Regular);
    header.set_size(size);
    header.set_mode(mode);
    header.set_uid(user);
    header.set_gid(user);
    header.set_mtime(0);
    header
}

/// Writes `program` without symbols to another file: a debug build has ten times the size.
fn strip(program: &Path, stripped: &Path) -> Result<()> {
    let mut command = Command::new("strip");
    command.arg("-o").arg(stripped).arg(program);
    let output = command
        .output()
        .context("run `strip`, which is a part of binutils")?;
    let error = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "`strip` failed: {}", error.trim());
    Ok(())
}

/// The architecture of this machine as OCI names it.
fn architecture() -> Result<&'static str> {
    match std::env::consts::ARCH {
        "x86_64" => Ok("amd64"),
        "aarch64" => Ok("arm64"),
        other => bail!("no images for {other}"),
    }
}

/// Hashes and counts what it passes on.
struct HashingWriter<W> {
    writer: W,
    sha256: Sha256,
    size: u64,
}

impl<W> HashingWriter<W> {
    fn blob(self) -> Blob {
        let digest = self.sha256.finalize();
        let digits = digest.iter().map(|byte| format!("{byte:02x}"));
        Blob {
            sha256: digits.collect(),
            size: self.size,
        }
    }
}

impl<W: Write> Write for HashingWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.writer.write(bytes)?;
        self.sha256.update(&bytes[..written]);
        self.size += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }
}

#[cfg(test)]
mod tests;

/// User and group of the process, as in the images that are published.
const USER: u64 = 65532;

#[derive(Clone, Debug)]
pub struct Image {
    /// Full references, such as `docker.io/plimsoll/updater:dev`.
    pub names: Vec<String>,
    /// Absolute paths in the image, with what is there.
    pub files: Vec<(PathBuf, Content)>,
    /// Program that runs, with its first arguments.
    pub entrypoint: Vec<String>,
    /// Further arguments, which a pod may replace.
    pub arguments: Vec<String>,
    /// User and group of the process and of the files.
    pub user: u64,
}

#[derive(Clone, Debug)]
pub enum Content {
    /// A program of this machine, which is packed without symbols.
    Program(PathBuf),
    /// A text that can be executed.
    Text(String),
    /// A symbolic link to this path.
    Link(PathBuf),
}

impl Image {
    /// An image with one program, as those of `deploy/images/build.sh`: `/NAME` is the entrypoint, and
    /// the user is 65532.
    pub fn of_program(name: &str, program: &Path) -> Result<Self> {
        let file = program.file_name().and_then(|file| file.to_str());
        let file = file.with_context(|| format!("{} has no name in UTF-8", program.display()))?;
        let path = format!("/{file}");
        Ok(Self {
            names: vec![name.to_owned()],
            files: vec![(path.clone().into(), Content::Program(program.to_owned()))],
            entrypoint: vec![path],
            arguments: Vec::new(),
            user: USER,
        })
    }

    /// Programs of this machine that are packed.
    pub(crate) fn programs(&self) -> impl Iterator<Item = &Path> {
        self.files.iter().filter_map(|(_, content)| match content {
            Content::Program(program) => Some(&**program),
            Content::Text(_) | Content::Link(_) => None,
        })
    }
}
