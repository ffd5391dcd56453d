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
const NAME_SERVER: &str = "localhost/coredns:1.15.0";
const TEST_IMAGES: &str = "registry.k8s.io/e2e-test-images";
/// A static program, of a package of that name.
const BUSYBOX: &str = "/bin/busybox";
/// Names of busybox in its image.
const APPLETS: [&str; 24] = [
    "sh", "sleep", "yes", "cat", "echo", "true", "false", "ls", "date", "kill", "ps", "env", "mv",
    "rm", "touch", "mkdir", "mktemp", "wget", "httpd", "test", "expr", "grep", "id", "stat",
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

/// The images that upstream's specs start.
pub(crate) fn of_specs(built: &Path) -> Result<Vec<Image>> {
    let agnhost = || built_at("/agnhost", built, "agnhost");
    let script = "/without-old-flag.sh";
    let old_agnhost = vec![
        agnhost(),
        (script.into(), Content::Text(WITHOUT_OLD_FLAG.to_owned())),
        busybox(),
        applet("sh"),
    ];
    Ok(vec![
        pause()?,
        image(
            &["agnhost:2.53", "agnhost:2.66.1"],
            vec![agnhost()],
            &["/agnhost"],
            &["pause"],
        ),
        image(
            &["agnhost:2.40"],
            old_agnhost,
            &["/bin/sh", script],
            &["pause"],
        ),
        resource_consumer(built)?,
        image(&["busybox:1.37.0-2"], shell()?, &["/bin/sh"], &[]),
    ])
}

pub(crate) fn of_kubernetes_specs(built: &Path) -> Result<Vec<Image>> {
    // Its web server serves the certificate, which probes ask for and commands in the container move away.
    let certificate = Content::Text("no certificate\n".to_owned());
    let mut agnhost = shell()?;
    agnhost.push(built_at("/agnhost", built, "agnhost"));
    agnhost.push(("/localhost.crt".into(), certificate));
    agnhost.push(("/tmp/.keep".into(), Content::Text(String::new())));
    let web_server = ["/bin/httpd", "-f", "-p", "80", "-h", "/"];
    Ok(vec![
        pause()?,
        image(
            &["agnhost:2.66.1", "agnhost:2.55"],
            agnhost,
            &["/agnhost"],
            &["pause"],
        ),
        resource_consumer(built)?,
        Image::of_program(NAME_SERVER, &built.join("coredns"))?,
        image(&["busybox:1.37.0-2"], shell()?, &["/bin/sh"], &[]),
        image(
            &["nginx:1.27.0-2", "nginx:1.28.0-2"],
            shell()?,
            &web_server,
            &[],
        ),
    ])
}

fn pause() -> Result<Image> {
    let mut pause = Image::of_program("registry.k8s.io/pause:3.1", &sandbox::pause_program()?)?;
    pause.names.push("registry.k8s.io/pause:3.10.2".to_owned());
    Ok(pause)
}

fn resource_consumer(built: &Path) -> Result<Image> {
    let stress = Content::Program(program("stress")?);
    let files = vec![
        built_at("/consumer", built, "resource-consumer"),
        built_at("/consume-cpu/consume-cpu", built, "consume-cpu"),
        ("/bin/stress".into(), stress),
    ];
    Ok(image(
        &["resource-consumer:1.14"],
        files,
        &["/consumer"],
        &[],
    ))
}

/// An image under its names in the registry of Kubernetes' tests.
fn image(
    names: &[&str],
    files: Vec<(PathBuf, Content)>,
    entrypoint: &[&str],
    arguments: &[&str],
) -> Image {
    let texts = |texts: &[&str]| texts.iter().map(ToString::to_string).collect();
    let names = names.iter().map(|name| format!("{TEST_IMAGES}/{name}"));
    Image {
        names: names.collect(),
        files,
        entrypoint: texts(entrypoint),
        arguments: texts(arguments),
        user: 0,
    }
}

fn built_at(path: &str, built: &Path, name: &str) -> (PathBuf, Content) {
    (path.into(), Content::Program(built.join(name)))
}

fn busybox() -> (PathBuf, Content) {
    (BUSYBOX.into(), Content::Program(BUSYBOX.into()))
}

fn applet(name: &str) -> (PathBuf, Content) {
    let path = format!("/bin/{name}");
    (path.into(), Content::Link(BUSYBOX.into()))
}

fn shell() -> Result<Vec<(PathBuf, Content)>> {
    ensure!(
        Path::new(BUSYBOX).is_file(),
        "there is no {BUSYBOX}: install busybox-static"
    );
    Ok([busybox()].into_iter().chain(APPLETS.map(applet)).collect())
}

pub(crate) fn image_name(manifest: &str) -> Result<&str> {
    let line = manifest
        .lines()
        .find_map(|line| line.trim().strip_prefix("image:"));
    line.map(str::trim).context("a manifest without an image")
}
