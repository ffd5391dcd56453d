//! The complete configuration of a container, from its pod, Secrets, `ConfigMap`s and files.

use k8s_openapi::api::core::v1::Container;
use kube::ResourceExt;

use super::config_objects::References;
use super::mounts::mounts;
use super::pod_context::PodContext;
use super::probe::Probe;
use super::process_spec::{Folders, ProcessSpec};
use super::{WaitingReason, environment};

/// A container whose configuration is complete.
pub(super) struct ContainerConfig {
    /// The process; `None` for an image that is not ours, whose container is simulated.
    pub(super) launch: Option<ProcessSpec>,
    /// Must succeed before the others start.
    pub(super) startup: Option<Probe>,
    /// Restarts the container when it fails.
    pub(super) liveness: Option<Probe>,
    /// Decides about traffic.
    pub(super) readiness: Option<Probe>,
}

impl ContainerConfig {
    /// Reads the current configuration of a container.
    pub(super) fn of(context: &PodContext, container: &Container) -> Result<Self, WaitingReason> {
        let config = &context.hosting.config;
        let pod = context.pod();
        let lifecycle = container.lifecycle.as_ref();
        if lifecycle.is_some_and(|lifecycle| lifecycle.post_start.is_some()) {
            return Err(WaitingReason::unsupported("lifecycle.postStart"));
        }
        let objects = context
            .hosting
            .objects
            .objects(&pod.namespace().unwrap_or_default(), &References::of(&pod));
        let base = environment::base(&pod, context.address, context.hosting.api_server_port);
        let environment =
            environment::environment(base, &pod, container, &objects, context.address)?;
        let mounts = mounts(container, &context.volumes())?;
        let root = context.folder.join("roots").join(&container.name);
        let folders = Folders {
            binaries: &config.options.hosted_programs,
            root: &root,
            kubeconfig: &context.kubeconfig(),
        };
        let launch = ProcessSpec::of(container, &environment, mounts, folders)?;
        if let Some(launch) = launch.as_ref().filter(|launch| !launch.program.is_file()) {
            return Err(WaitingReason::image(format!(
                "{} does not exist",
                launch.program.display()
            )));
        }
        let probe = |probe: Option<&_>| probe.map(|probe| Probe::of(probe, container)).transpose();
        Ok(Self {
            launch,
            startup: probe(container.startup_probe.as_ref())?,
            liveness: probe(container.liveness_probe.as_ref())?,
            readiness: probe(container.readiness_probe.as_ref())?,
        })
    }
}
