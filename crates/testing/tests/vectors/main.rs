//! Comparison with inputs and outputs recorded by running the Kubernetes HPA controller.

mod hpa_behavior;
mod hpa_metrics;
mod hpa_objects;
mod hpa_replicas;
