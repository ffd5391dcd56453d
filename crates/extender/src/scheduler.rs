//! The extender protocol of kube-scheduler: filter and prioritize.
