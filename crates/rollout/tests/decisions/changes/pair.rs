//! Two updaters before the same cluster: one decides about what changed, the other one always about
//! everything.

use rollout::{Act, Memory, Outcome, Plan, RESIZED_FROM, REVERTED_AT, What};
use std::sync::Arc;
use std::time::Duration;

use super::super::world::World;

pub(super) struct Pair {
    pub(super) world: World,
    pub(super) plan: Plan,
    memory: Memory,
    /// The memory that always decides about everything.
    whole: Memory,
}

impl Pair {
    pub(super) fn new(world: World) -> Self {
        Self {
            world,
            plan: Plan::default(),
            memory: Memory::default(),
            whole: Memory::default(),
        }
    }

    /// One pass of each, which decide the same. Returns what they decide.
    pub(super) fn pass(&mut self) -> Vec<String> {
        self.whole.forget_decisions();
        let expected = outline(&self.world.decide(&mut self.whole));
        self.plan = self.world.decide(&mut self.memory);
        let plan = outline(&self.plan);
        let differs = |line: &&String| !plan.contains(line) || !expected.contains(line);
        let differing: Vec<_> = plan.iter().chain(&expected).filter(differs).collect();
        assert!(
            plan == expected,
            "at {}: {differing:#?}",
            self.world.now.wall
        );
        plan
    }

    pub(super) fn begin(&mut self, act: &Act) {
        self.memory.begin(act, self.world.now);
        self.whole.begin(act, self.world.now);
    }

    pub(super) fn end(&mut self, act: &Act, outcome: &Outcome) {
        self.memory.end(act, outcome, self.world.now);
        self.whole.end(act, outcome, self.world.now);
    }

    /// Time passes by both clocks.
    pub(super) fn wait(&mut self, pause: Duration) {
        self.world.now.wall += pause;
        self.world.now.steady += pause;
    }
}

/// What is decided, without the times in it.
fn outline(plan: &Plan) -> Vec<String> {
    let act = |act: &Arc<Act>| {
        let mut act = act.as_ref().clone();
        if let What::Resize { annotate, .. } = &mut act.what {
            let times = annotate
                .iter_mut()
                .filter(|(key, _)| [RESIZED_FROM, REVERTED_AT].contains(&key.as_str()));
            times.for_each(|(_, value)| *value = None);
        }
        format!("{act:?}")
    };
    let held = plan.held.iter().map(|held| {
        format!(
            "{} {:?}",
            held.autoscaler,
            std::mem::discriminant(&held.hold)
        )
    });
    let skips = plan.skips.iter().map(|skip| format!("{skip:?}"));
    let tallies = plan.tallies.iter().map(|tally| format!("{tally:?}"));
    plan.acts
        .iter()
        .map(act)
        .chain(held)
        .chain(skips)
        .chain(tallies)
        .collect()
}
