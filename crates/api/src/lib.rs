//! Kubernetes objects that Plimsoll reads and writes: those of the upstream Vertical Pod Autoscaler
//! exactly as in 1.8, those of Crane's horizontal autoscaling, and our own.
//!
//! * [`vpa`]: `VerticalPodAutoscaler` of `autoscaling.k8s.io/v1`, its defaults, its conditions and
//!   the patch of its status.
//! * [`checkpoint`]: `VerticalPodAutoscalerCheckpoint` of `autoscaling.k8s.io/v1`.
//! * [`sizing_policy`]: `SizingPolicy` and `ClusterSizingPolicy` of `plimsoll.dev/v1alpha1`.
//! * [`ehpa`]: `EffectiveHorizontalPodAutoscaler` (EHPA) of `autoscaling.crane.io/v1alpha1`, and
//!   [`substitute`]: its `Substitute`.
//! * [`prediction`]: `TimeSeriesPrediction` of `prediction.crane.io/v1alpha1`.
//! * [`condition`]: conditions in the form of `metav1.Condition`.
//! * [`limit_mode`]: annotations about limits.
//! * [`rollback`]: the annotation of a VPA object whose recommendation was rolled back.
//! * [`pod_annotations`]: annotations and labels of pods that several programs read or write.
//! * [`pod_metrics`]: `PodMetrics` and `NodeMetrics` of `metrics.k8s.io/v1beta1`, read only.
//! * [`karpenter`]: `NodePool` and `NodeClaim` of `karpenter.sh/v1`, and [`cluster_autoscaler`]: the
//!   status of cluster-autoscaler; read only.
//! * [`patch`]: common parts of patches.
//! * [`crd`]: the `CustomResourceDefinition`s generated from these types; `make manifests` writes
//!   them into `deploy/crds`.
//!
//! No I/O here, and no decision about sizes: conversions end at neutral values.

#![warn(missing_docs)]
#![allow(
    clippy::duplicated_attributes,
    reason = "every printer column has a type"
)]
#![allow(
    clippy::doc_markdown,
    reason = "doc comments are also the descriptions in the schema, which is no Markdown"
)]

pub mod checkpoint;
pub mod cluster_autoscaler;
pub mod condition;
pub mod crd;
pub mod ehpa;
pub mod external_metrics;
pub mod karpenter;
pub mod limit_mode;
mod parse;
pub mod patch;
pub mod pod_annotations;
pub mod pod_metrics;
pub mod prediction;
pub mod rollback;
mod schema;
pub mod sizing_policy;
pub mod substitute;
pub mod vpa;
mod well_known;

pub use parse::{ParseError, parse_text};
pub use well_known::WellKnown;
