//! Kills for want of memory, and the objects whose numbers they change.

use cluster::{ObjectKey, OomKill, View};
use jiff::Timestamp;
use model::{ContainerRef, Selector};
use sizing::SampleError;

use super::{State, selectors};

/// The container that was killed.
pub(crate) fn container(kill: &OomKill) -> ContainerRef {
    let (namespace, pod) = (kill.pod.namespace.clone(), kill.pod.name.clone());
    ContainerRef { namespace, pod, container: kill.container.clone() }
}

impl State {
    /// Adds a kill; false if it is too old to matter. Its pod is looked up in `view` if it is not known yet.
    pub fn add_kill(&mut self, kill: &OomKill, view: &View, now: Timestamp) -> Result<bool, SampleError> {
        self.load_pod_of(kill, view, now);
        self.fleet.record_oom(&container(kill), kill.at, kill.memory_request, now)
    }

    /// The objects that this recommender is in charge of and that size a pod.
    pub fn autoscalers_of(&self, pod: &ObjectKey) -> impl Iterator<Item = ObjectKey> {
        let ids = self.fleet.autoscalers_of(&pod.namespace, &pod.name);
        ids.into_iter().map(|id| ObjectKey::new(id.namespace, id.name))
    }

    /// New pods are taken over when changes have settled, which a kill does not wait for.
    fn load_pod_of(&mut self, kill: &OomKill, view: &View, now: Timestamp) {
        if self.pods.contains_key(&kill.pod) {
            return;
        }
        let Some(pod) = view.pods.get(&kill.pod) else { return };
        let selects =
            |(namespace, selector): (&str, &Selector)| namespace == pod.key.namespace && selector.matches(&pod.labels);
        if !self.charge.memory_saver || selectors(&self.autoscalers).any(selects) {
            self.load_pod(pod, now);
        }
    }
}
