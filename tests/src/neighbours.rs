//! Programs beside the suite in tests, of pinned versions: helm, checkers, and what users run today.

use sandbox::{CONTROL_PLANE, Module, PROMETHEUS, Program};

/// Programs of a Go module: names, and paths of their main packages there.
macro_rules! programs {
    ($module:literal: $($name:literal = $path:literal),+ $(,)?) => {
        &[$(Program::new($name, concat!($module, "/", $path), $module)),+]
    };
}

/// A module with the `go.mod` and `go.sum` of a folder, and without programs.
macro_rules! pinned {
    ($name:literal) => {
        Module {
            name: $name,
            go_mod: include_str!(concat!("../programs/", $name, "/go.mod")),
            go_sum: include_str!(concat!("../programs/", $name, "/go.sum")),
            ..OF_CONTROL_PLANE
        }
    };
}

/// With the versions of the control plane: what it has in common with others is compiled once.
const OF_CONTROL_PLANE: Module = Module {
    files: &[],
    programs: &[],
    version: None,
    ..CONTROL_PLANE
};

/// The checker of rules and queries of Prometheus.
pub(crate) const PROMTOOL: Module = Module {
    name: "promtool",
    programs: programs!("github.com/prometheus/prometheus": "promtool" = "cmd/promtool"),
    ..PROMETHEUS
};

pub(crate) const HELM: Module = Module {
    name: "helm",
    programs: programs!("helm.sh/helm/v4": "helm" = "cmd/helm"),
    ..OF_CONTROL_PLANE
};

/// Checkers of rendered manifests: against the schemas of Kubernetes, and by rules of good practice.
pub const MANIFEST_CHECKS: Module = Module {
    programs: &[
        Program::new(
            "kubeconform",
            "github.com/yannh/kubeconform/cmd/kubeconform",
            "github.com/yannh/kubeconform",
        ),
        Program::new(
            "kube-score",
            "github.com/zegl/kube-score/cmd/kube-score",
            "github.com/zegl/kube-score",
        ),
    ],
    ..pinned!("manifest-checks")
};

/// The `OpenAPI` document of the control plane's Kubernetes.
pub const OPENAPI: Module = Module {
    name: "openapi",
    files: &[("k8s.io/kubernetes", &["api/openapi-spec/swagger.json"])],
    ..OF_CONTROL_PLANE
};

/// Upstream's VPA. Its admission controller serves on all addresses of the machine, so it runs on a real node
/// only.
pub(crate) const UPSTREAM_VPA: Module = Module {
    name: "upstream-vpa",
    files: &[(
        "k8s.io/autoscaler/vertical-pod-autoscaler",
        &[
            "deploy/vpa-rbac.yaml",
            "deploy/vpa-v1-crd-gen.yaml",
            "deploy/admission-controller-deployment.yaml",
            "deploy/admission-controller-service.yaml",
            "deploy/recommender-deployment.yaml",
            "deploy/updater-deployment.yaml",
        ],
    )],
    programs: programs!(
        "k8s.io/autoscaler/vertical-pod-autoscaler":
        "vpa-recommender" = "pkg/recommender",
        "vpa-updater" = "pkg/updater",
        "vpa-admission-controller" = "pkg/admission-controller",
    ),
    ..OF_CONTROL_PLANE
};

/// Cert-manager's controllers and its CA injector. Its own programs are Go modules that the module proxy
/// does not serve, so a program of this module starts the controllers of cert-manager's library. Its
/// webhook is left out: it serves on all addresses of the machine.
pub(crate) const CERT_MANAGER: Module = Module {
    name: "cert-manager",
    sources: &[(
        "cert-manager/main.go",
        include_str!("../programs/cert-manager.go"),
    )],
    files: &[(
        "github.com/cert-manager/cert-manager",
        &[
            "deploy/crds/cert-manager.io_certificaterequests.yaml",
            "deploy/crds/cert-manager.io_certificates.yaml",
            "deploy/crds/cert-manager.io_clusterissuers.yaml",
            "deploy/crds/cert-manager.io_issuers.yaml",
        ],
    )],
    programs: &[Program::new(
        "cert-manager",
        "plimsoll/sandbox/control-plane/cert-manager",
        "github.com/cert-manager/cert-manager",
    )],
    ..OF_CONTROL_PLANE
};

/// The newest version that Go 1.26.8 builds.
pub(crate) const VICTORIA_METRICS: Module = Module {
    programs: programs!(
        "github.com/VictoriaMetrics/VictoriaMetrics": "victoria-metrics" = "app/victoria-metrics"
    ),
    ..pinned!("victoria-metrics")
};

pub(crate) const PROMETHEUS_ADAPTER: Module = Module {
    programs: programs!("sigs.k8s.io/prometheus-adapter": "prometheus-adapter" = "cmd/adapter"),
    ..pinned!("prometheus-adapter")
};

/// KEDA, and the folder of its manifests.
pub(crate) const KEDA: Module = Module {
    files: &[("github.com/kedacore/keda/v2", &["config"])],
    programs: programs!(
        "github.com/kedacore/keda/v2":
        "keda" = "cmd/operator",
        "keda-adapter" = "cmd/adapter",
        "keda-admission-webhooks" = "cmd/webhooks",
    ),
    ..pinned!("keda")
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_the_tools_of_the_go_mod() {
        for module in [
            PROMTOOL,
            HELM,
            MANIFEST_CHECKS,
            UPSTREAM_VPA,
            CERT_MANAGER,
            VICTORIA_METRICS,
            PROMETHEUS_ADAPTER,
            KEDA,
        ] {
            for program in module.programs {
                let package = program.package;
                let is_tool = |line: &str| line.trim_start_matches("tool").trim() == package;
                assert!(module.go_mod.lines().any(is_tool), "{package}");
            }
        }
    }
}
