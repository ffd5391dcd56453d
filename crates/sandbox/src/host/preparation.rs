//! Everything that a container's start needs, found in its pod, in Secrets and `ConfigMap`s, and on
//! disk.

use k8s_openapi::api::core::v1::Container;
use kube::ResourceExt;

use super::context::PodContext;
use super::launch::{Folders, Launch};
use super::mounts::{Mount, mounts};
use super::objects::References;
use super::probe::Probe;
use super::{Problem, environment};

/// A container whose configuration is complete.
pub(super) struct Prepared {
    /// `None` for an image that is not ours: such a container is played.
    pub(super) launch: Option<Launch>,
    /// Its mount paths.
    pub(super) mounts: Vec<Mount>,
    /// Must succeed before the others are asked.
    pub(super) startup: Option<Probe>,
    /// Restarts the container when it fails.
    pub(super) liveness: Option<Probe>,
    /// Decides about traffic.
    pub(super) readiness: Option<Probe>,
}

impl Prepared {
    /// Reads everything anew.
    pub(super) fn of(context: &PodContext, container: &Container) -> Result<Self, Problem> {
        let config = &context.hosting.config;
        let pod = context.pod();
        if container
            .lifecycle
            .as_ref()
            .is_some_and(|lifecycle| lifecycle.post_start.is_some())
        {
            return Err(Problem::unsupported("lifecycle.postStart"));
        }
        let objects = context
            .hosting
            .objects
            .objects(&pod.namespace().unwrap_or_default(), &References::of(&pod));
        let base = environment::base(&pod, context.address, config.api_server_port);
        let environment =
            environment::environment(base, &pod, container, &objects, context.address)?;
        let mounts = mounts(container, &context.volumes())?;
        let root = context.folder.join("roots").join(&container.name);
        let folders = Folders {
            binaries: &config.binaries,
            root: &root,
            kubeconfig: &context.kubeconfig(),
        };
        let launch = Launch::of(container, &environment, &mounts, folders)?;
        if let Some(launch) = launch.as_ref().filter(|launch| !launch.program.is_file()) {
            return Err(Problem::image(format!(
                "{} does not exist",
                launch.program.display()
            )));
        }
        let probe = |probe: Option<&_>| probe.map(|probe| Probe::of(probe, container)).transpose();
        let startup = probe(container.startup_probe.as_ref())?;
        let liveness = probe(container.liveness_probe.as_ref())?;
        let readiness = probe(container.readiness_probe.as_ref())?;
        Ok(Self {
            launch,
            mounts,
            startup,
            liveness,
            readiness,
        })
    }
}
