//! Images of the programs under test, and those that upstream's specs name, packed from what was built.

use std::fmt;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use e2e::program;
use sandbox::{Content, Image};

/// Upstream's names of the programs.
pub(crate) const COMPONENTS: [&str; 3] = ["recommender", "updater", "admission-controller"];
/// Registry of images that the integration specs name.
const LOCAL: &str = "localhost:5001";
const TEST_IMAGES: &str = "registry.k8s.io/e2e-test-images";
/// A static program, of a package of that name.
const BUSYBOX: &str = "/bin/busybox";
/// Names of busybox in its image.
const APPLETS: [&str; 12] = [
    "sh", "sleep", "yes", "cat", "echo", "true", "false", "ls", "date", "kill", "ps", "env",
];
/// The specs start agnhost 2.40 with a flag that the agnhost of today does not have.
const WITHOUT_OLD_FLAG: &str = r#"#!/bin/sh
n=$#
for argument; do
  [ "$argument" = --alsologtostderr ] || set -- "$@" "$argument"
done
shift "$n"
exec /agnhost "$@"
"#;

/// Programs under test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Programs {
    Ours,
    Upstream,
}

impl fmt::Display for Programs {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Ours => "our programs",
            Self::Upstream => "upstream's programs",
        })
    }
}

impl Programs {
    /// The path of a program by upstream's name. `built` has upstream's.
    fn path(self, component: &str, built: &Path) -> Result<PathBuf> {
        match (self, component) {
            (Self::Upstream, component) => Ok(built.join(component)),
            (Self::Ours, "admission-controller") => program("webhook"),
            (Self::Ours, component) => program(component),
        }
    }

    /// The image of a program, under the names in upstream's manifest and in the specs, with upstream's
    /// path of the program.
    pub(crate) fn image(self, component: &str, name: &str, built: &Path) -> Result<Image> {
        let path = format!("/{component}");
        let program = Content::Program(self.path(component, built)?);
        Ok(Image {
            names: vec![name.to_owned(), format!("{LOCAL}/vpa-{component}:latest")],
            files: vec![(path.clone().into(), program)],
            entrypoint: vec![path],
            arguments: Vec::new(),
            user: 0,
        })
    }
}

/// The images that the specs start.
pub(crate) fn of_specs(built: &Path) -> Result<Vec<Image>> {
    ensure!(
        Path::new(BUSYBOX).is_file(),
        "there is no {BUSYBOX}: install busybox-static"
    );
    let busybox = || (PathBuf::from(BUSYBOX), Content::Program(BUSYBOX.into()));
    let applet = |name: &str| (format!("/bin/{name}").into(), Content::Link(BUSYBOX.into()));
    let built_at = |path: &str, name: &str| (path.into(), Content::Program(built.join(name)));
    let image = |names: &[&str], files, entrypoint: &[&str], arguments: &[&str]| Image {
        names: names
            .iter()
            .map(|name| format!("{TEST_IMAGES}/{name}"))
            .collect(),
        files,
        entrypoint: entrypoint.iter().map(ToString::to_string).collect(),
        arguments: arguments.iter().map(ToString::to_string).collect(),
        user: 0,
    };
    let agnhost = || built_at("/agnhost", "agnhost");
    let script = "/without-old-flag.sh";
    let mut pause = Image::of_program("registry.k8s.io/pause:3.1", &sandbox::pause_program()?)?;
    pause.names.push("registry.k8s.io/pause:3.10.2".to_owned());
    let shell = [busybox()].into_iter().chain(APPLETS.map(applet));
    Ok(vec![
        pause,
        image(
            &["agnhost:2.53", "agnhost:2.66.1"],
            vec![agnhost()],
            &["/agnhost"],
            &["pause"],
        ),
        image(
            &["agnhost:2.40"],
            vec![
                agnhost(),
                (script.into(), Content::Text(WITHOUT_OLD_FLAG.to_owned())),
                busybox(),
                applet("sh"),
            ],
            &["/bin/sh", script],
            &["pause"],
        ),
        image(
            &["resource-consumer:1.14"],
            vec![
                built_at("/consumer", "resource-consumer"),
                built_at("/consume-cpu/consume-cpu", "consume-cpu"),
                ("/bin/stress".into(), Content::Program(program("stress")?)),
            ],
            &["/consumer"],
            &[],
        ),
        image(&["busybox:1.37.0-2"], shell.collect(), &["/bin/sh"], &[]),
    ])
}

/// The name of the image in a manifest of a Deployment.
pub(crate) fn image_name(manifest: &str) -> Result<&str> {
    let line = manifest
        .lines()
        .find_map(|line| line.trim().strip_prefix("image:"));
    line.map(str::trim).context("a manifest without an image")
}
