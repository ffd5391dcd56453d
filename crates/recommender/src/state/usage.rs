//! Whose usage is wanted, for a source that must be asked for each pod.

use sources::external_metrics::PodQuery;

use super::{State, Target};

impl State {
    /// The pods of every object, each with the object's selector. Pods that have ended use nothing.
    pub(crate) fn usage_questions(&self) -> Vec<PodQuery> {
        let live = self.pods.iter().filter(|(_, pod)| !pod.is_finished());
        live.flat_map(|(key, _)| {
            self.autoscalers_of(key).filter_map(|autoscaler| {
                let tracked = self.autoscalers.get(&autoscaler)?;
                let Target::Known { selector, .. } = &tracked.target else {
                    return None;
                };
                Some(PodQuery::new(&key.namespace, &key.name, selector))
            })
        })
        .collect()
    }
}
