//! An image of a real node, made of programs of this machine.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

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
