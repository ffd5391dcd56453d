//! Ends of runs, for histories of sizing methods that count in runs.

use std::collections::HashSet;

use model::fnv1a;

use super::ClusterState;
use super::namespace::Namespace;
use super::vpa::Vpa;

impl ClusterState {
    /// Ends the runs of pods that have finished or are gone. It may be called at any time: the pods
    /// as they are now decide.
    pub fn end_runs(&mut self) {
        for namespace in self.namespaces.values_mut() {
            namespace.end_runs();
        }
    }
}

impl Namespace {
    fn end_runs(&mut self) {
        let counts_runs = |vpa: &Vpa| vpa.own.iter().any(|own| own.counts_runs());
        if self.per_vpa_policies == 0 || !self.vpas.values().any(counts_runs) {
            return;
        }
        let running = self.pods.iter().filter(|(_, pod)| !pod.phase.is_finished());
        let running = running.map(|(name, _)| fnv1a(name.as_bytes()));
        let running: HashSet<u64> = running.collect();
        let vpas = self.vpas.values_mut();
        for histories in vpas.filter_map(|vpa| vpa.own.as_deref_mut()) {
            histories.end_runs(|pod| running.contains(&pod));
        }
    }
}
