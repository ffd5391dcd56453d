//! The Kubernetes objects that Plimsoll reads and writes: those of the upstream Vertical Pod Autoscaler exactly as 1.8 defines
//! them, and our own.
//!
//! * [`vpa`]: `VerticalPodAutoscaler` of `autoscaling.k8s.io/v1`, its defaults, its conditions and the patch of its status.
//! * [`checkpoint`]: `VerticalPodAutoscalerCheckpoint` of `autoscaling.k8s.io/v1`.
//! * [`sizing_policy`]: `SizingPolicy` and `ClusterSizingPolicy` of `plimsoll.dev/v1alpha1`.
//! * [`metrics`]: `PodMetrics` of `metrics.k8s.io/v1beta1`, read only.
//! * [`crd`]: the `CustomResourceDefinition`s made from these types; `make manifests` writes them into `deploy/crds`.
//!
//! No I/O here, and no decision about sizes: conversions end at neutral values.

#![allow(clippy::duplicated_attributes, reason = "every printer column has a type")]
#![allow(clippy::doc_markdown, reason = "doc comments are also the descriptions in the schema, which is no Markdown")]

pub mod checkpoint;
pub mod crd;
pub mod external_metrics;
pub mod metrics;
mod parse;
mod patch;
mod schema;
pub mod sizing_policy;
pub mod vpa;

pub use parse::ParseError;
