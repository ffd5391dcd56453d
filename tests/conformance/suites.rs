//! Upstream's suites of specs, and what each of them needs.

use anyhow::{Context as _, Result};

use crate::cluster::Nodes;

#[derive(Debug)]
pub(crate) struct Suite {
    pub(crate) name: &'static str,
    /// Programs that must run, by upstream's names.
    pub(crate) programs: &'static [&'static str],
    /// Time between two loops of recommender and updater on simulated nodes. Upstream's default of a
    /// minute stays where the first recommendation must not come before the second sample.
    interval: &'static str,
    /// Specs that run at the same time on a real node. With more of them on two cores, each holds CPU for
    /// some of its pods and waits for the rest.
    on_real_node: usize,
    /// Whether it runs alone on a real node: two to four pods of a spec use 0.6 cores each, and request what
    /// they use.
    pub(crate) needs_all_cores: bool,
    /// Whether the recommender reads usage as external metrics.
    pub(crate) external_metrics: bool,
}

impl Suite {
    /// Time between two loops of recommender and updater. On a real node it is upstream's default: a pod
    /// that is OOM-killed at its start must not be evicted before its spec has seen it.
    pub(crate) fn interval(&self, nodes: Nodes) -> &'static str {
        match nodes {
            Nodes::Real | Nodes::Kind => "1m",
            Nodes::Simulated => self.interval,
        }
    }

    /// Number of specs that run at the same time.
    pub(crate) fn processes(&self, nodes: Nodes) -> usize {
        match nodes {
            Nodes::Real | Nodes::Kind => self.on_real_node,
            // Its specs start the same program.
            Nodes::Simulated if self.name == INTEGRATION => 1,
            Nodes::Simulated => SIMULATED,
        }
    }
}

/// Specs that run at the same time on simulated nodes; most of them wait.
const SIMULATED: usize = 8;

/// The longest first, and last the one that needs all cores.
static SUITES: [Suite; 7] = [
    Suite {
        name: "actuation",
        programs: &["updater", "admission-controller"],
        interval: "10s",
        on_real_node: 4,
        needs_all_cores: false,
        external_metrics: false,
    },
    Suite {
        name: "recommender",
        programs: &["recommender"],
        interval: "1m",
        on_real_node: 5,
        needs_all_cores: false,
        external_metrics: false,
    },
    Suite {
        name: "updater",
        programs: &["updater"],
        interval: "10s",
        on_real_node: 4,
        needs_all_cores: false,
        external_metrics: false,
    },
    // Its specs are those of the recommender.
    Suite {
        name: "recommender-externalmetrics",
        programs: &["recommender"],
        interval: "1m",
        on_real_node: 5,
        needs_all_cores: false,
        external_metrics: true,
    },
    Suite {
        name: "admission-controller",
        programs: &["admission-controller"],
        interval: "10s",
        on_real_node: 2,
        needs_all_cores: false,
        external_metrics: false,
    },
    // Its specs start the recommender themselves.
    Suite {
        name: INTEGRATION,
        programs: &[],
        interval: "10s",
        on_real_node: 1,
        needs_all_cores: false,
        external_metrics: false,
    },
    Suite {
        name: "full-vpa",
        programs: &["recommender", "updater", "admission-controller"],
        interval: "1m",
        on_real_node: 1,
        needs_all_cores: true,
        external_metrics: false,
    },
];

const INTEGRATION: &str = "integration";

/// Suites and specs that together take minutes: whole suites where the specs are quick, and else a spec
/// that fails if the program does nothing.
const FAST: [(&str, &str); 5] = [
    ("admission-controller", ""),
    (INTEGRATION, ""),
    (
        "updater",
        "evicts pods when Admission Controller status available",
    ),
    ("recommender", "is loaded correctly on recommender restart"),
    ("full-vpa", "OOMing pods"),
];

/// Specs that pass with no program at all, since they expect that nothing happens. Seen in a cluster
/// without any of upstream's programs.
const PASS_WITHOUT_PROGRAMS: [&str; 14] = [
    "by default does not evict pods in a 1-Pod CronJob",
    "by default does not evict pods in a 1-Pod Deployment",
    "by default does not evict pods in a 1-Pod Job",
    "by default does not evict pods in a 1-Pod ReplicaSet",
    "by default does not evict pods in a 1-Pod ReplicationController",
    "by default does not evict pods in a 1-Pod StatefulSet",
    "observes container max in LimitRange",
    "observes container min in LimitRange",
    "observes pod max in LimitRange",
    "observes pod min in LimitRange",
    "never applies recommendations when update mode is Off",
    "does not evict pods for downscaling when EvictionRequirement prevents it",
    "doesn't evict pods when Admission Controller status unavailable",
    "does not evicts pods for downscaling with InPlace mode",
];

#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) suite: &'static Suite,
    /// A regular expression that the names of the specs match.
    focus: String,
}

impl Run {
    pub(crate) fn program(&self) -> &'static str {
        if self.suite.name == INTEGRATION {
            "integration.test"
        } else {
            "v1.test"
        }
    }

    /// A regular expression for ginkgo.
    pub(crate) fn focus(&self) -> String {
        let suite = match self.suite.name {
            INTEGRATION => "Flags".to_owned(),
            _ if self.suite.external_metrics => r"\[VPA\] \[recommender\]".to_owned(),
            name => format!(r"\[VPA\] \[{name}\]"),
        };
        format!("{suite}.*{}", self.focus)
    }
}

/// Whether a spec tells nothing about the programs unless another one of its suite passes.
pub(crate) fn passes_without_programs(spec: &str) -> bool {
    PASS_WITHOUT_PROGRAMS
        .iter()
        .any(|known| spec.contains(known))
}

/// The specs that `suite` and `focus` name.
pub(crate) fn selected(suite: Option<&str>, focus: Option<&str>) -> Result<Vec<Run>> {
    let focus = focus.unwrap_or_default();
    let of = |suite, focus: &str| Run {
        suite,
        focus: focus.to_owned(),
    };
    let found = |name: &str| SUITES.iter().find(|suite| suite.name == name);
    match suite {
        None => Ok(SUITES.iter().map(|suite| of(suite, focus)).collect()),
        Some("fast") => Ok(FAST
            .iter()
            .filter_map(|(name, focus)| Some(of(found(name)?, focus)))
            .collect()),
        Some(name) => {
            let names: Vec<_> = SUITES.iter().map(|suite| suite.name).collect();
            let names = names.join(", ");
            let suite = found(name)
                .with_context(|| format!("SUITE={name}: it is `fast` or one of {names}"))?;
            Ok(vec![of(suite, focus)])
        }
    }
}
