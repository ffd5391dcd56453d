//! Starts a control plane: independent components at the same time, and every wait is for a
//! condition.

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use kube::runtime::wait::await_condition;

use crate::client::ready_client;
use crate::component::Component;
use crate::component_commands::CommandContext;
use crate::component_processes::ComponentProcesses;
use crate::initial_objects;
use crate::node;
use crate::node::images;
use crate::startup_protocol::SandboxConfig;

/// Starts the components in the order of their dependencies. Passes each step to `step`.
pub(crate) async fn start(
    config: &SandboxConfig,
    context: CommandContext<'_>,
    processes: &mut ComponentProcesses,
    authority_pem: &str,
    mut step: impl FnMut(&str),
) -> Result<()> {
    start_on_real_node(config, context, processes, &[Component::Containerd]);
    processes.start(context, Component::Etcd);
    processes.start(context, Component::KubeApiserver);
    if let Some(folder) = &config.prometheus {
        let programs = folder.join("bin");
        processes.start(
            CommandContext {
                programs: &programs,
                ..context
            },
            Component::Prometheus,
        );
    }
    let failure = processes.first_failure(context.layout);
    let client = tokio::select! {
        client = ready_client(context.layout) => client?,
        failure = failure => return Err(failure),
    };
    step("etcd and kube-apiserver are ready");
    processes.start(context, Component::KubeControllerManager);
    processes.start(context, Component::KubeScheduler);
    let files = config.control_plane.files();
    let failure = processes.first_failure(context.layout);
    let register = async {
        await_condition(
            Api::<Namespace>::all(client.clone()),
            "kube-system",
            |namespace: Option<&Namespace>| namespace.is_some(),
        )
        .await
        .context("wait for namespace kube-system")?;
        initial_objects::register_metrics_server(&client, context.ports, authority_pem).await
    };
    let fill = async {
        let definitions = [
            files.join("kwok.x-k8s.io_logs.yaml"),
            files.join("kwok.x-k8s.io_portforwards.yaml"),
        ];
        let definitions = definitions.each_ref().map(std::path::PathBuf::as_path);
        tokio::try_join!(
            initial_objects::create_nodes(&client, config.options.nodes, config.options.real_node),
            initial_objects::define(&client, &definitions),
            register,
            import_pause_image(config, context)
        )
        .map(drop)
    };
    tokio::select! {
        filled = fill => filled?,
        failure = failure => return Err(failure),
    }
    let programs = config.control_plane.nodes_and_metrics.join("bin");
    let nodes_and_metrics = CommandContext {
        programs: &programs,
        ..context
    };
    if config.options.nodes > 0 {
        processes.start(nodes_and_metrics, Component::Kwok);
    }
    start_on_real_node(
        config,
        context,
        processes,
        &[Component::Kubelet, Component::KubeProxy],
    );
    processes.start(nodes_and_metrics, Component::MetricsServer);
    step("the controllers run, the nodes are made");
    let failure = processes.first_failure(context.layout);
    let nodes = (0..config.options.nodes).map(initial_objects::node_name);
    let real_node = config.real_node.iter().map(|_| node::NAME.to_owned());
    let ready = async {
        tokio::try_join!(
            initial_objects::await_nodes(&client, nodes.chain(real_node)),
            initial_objects::await_default_service_account(&client)
        )
        .map(drop)
    };
    tokio::select! {
        ready = ready => ready?,
        failure = failure => return Err(failure),
    }
    Ok(())
}

/// Starts programs of the real node, if there is one.
fn start_on_real_node(
    config: &SandboxConfig,
    context: CommandContext<'_>,
    processes: &mut ComponentProcesses,
    components: &[Component],
) {
    let Some(folders) = &config.real_node else {
        return;
    };
    for component in components {
        let folder = match component {
            Component::Containerd => &folders.container_runtime,
            _ => &folders.node,
        };
        let programs = &folder.join("bin");
        processes.start(
            CommandContext {
                programs,
                ..context
            },
            *component,
        );
    }
}

/// Imports the image of pod sandboxes to the real node, if there is one.
async fn import_pause_image(config: &SandboxConfig, context: CommandContext<'_>) -> Result<()> {
    let (Some(folders), Some(init)) = (&config.real_node, context.real_node) else {
        return Ok(());
    };
    let programs = folders.container_runtime.join("bin");
    images::import(context.sandbox, &programs, init, &folders.pause_image).await
}
