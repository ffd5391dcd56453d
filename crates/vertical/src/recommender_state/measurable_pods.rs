//! The pods to query usage of, for sources that are queried per pod.

use model::Selector;
use view::ObjectKey;

use super::{RecommenderState, Target};

impl RecommenderState {
    /// The pods of every object, each with the object's selector. Finished pods use nothing.
    pub fn measurable_pods(&self) -> impl Iterator<Item = (&ObjectKey, &Selector)> {
        let live = self.pods.iter().filter(|(_, pod)| !pod.is_finished());
        live.flat_map(move |(key, _)| {
            self.vpas_of(key)
                .filter_map(move |vpa| match &self.vpas.get(&vpa)?.target {
                    Target::Known { selector, .. } => Some((key, selector)),
                    Target::Unknown => None,
                })
        })
    }
}
