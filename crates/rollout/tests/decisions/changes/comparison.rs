//! Two updaters before the same cluster: one makes incremental passes, the other one full passes.

use std::sync::Arc;
use std::time::Duration;

use rollout::{
    Action, ActionKind, ActionOutcome, OOM_RESIZE, Plan, RESIZED_FROM, REVERTED_AT, RolloutState,
};

use super::super::fixture::Fixture;

pub(super) struct Comparison {
    pub(super) fixture: Fixture,
    pub(super) plan: Plan,
    /// The memory that always decides about everything.
    full: RolloutState,
}

impl Comparison {
    pub(super) fn new(fixture: Fixture) -> Self {
        Self {
            fixture,
            plan: Plan::default(),
            full: RolloutState::default(),
        }
    }

    /// One pass of each, which decide the same. Returns what they decide.
    pub(super) fn pass(&mut self) -> Vec<String> {
        self.full.forget_decisions();
        let expected = outline(&self.fixture.decide(&mut self.full));
        self.plan = self.fixture.pass();
        let plan = outline(&self.plan);
        let differs = |line: &&String| !plan.contains(line) || !expected.contains(line);
        let differing: Vec<_> = plan.iter().chain(&expected).filter(differs).collect();
        assert!(
            plan == expected,
            "at {}: {differing:#?}",
            self.fixture.now.wall
        );
        plan
    }

    pub(super) fn begin(&mut self, action: &Action) {
        self.fixture.state.begin(action, self.fixture.now);
        self.full.begin(action, self.fixture.now);
    }

    pub(super) fn end(&mut self, action: &Action, outcome: &ActionOutcome) {
        self.fixture.state.end(action, outcome, self.fixture.now);
        self.full.end(action, outcome, self.fixture.now);
    }

    /// Time passes by both clocks.
    pub(super) fn wait(&mut self, pause: Duration) {
        self.fixture.now.wall += pause;
        self.fixture.now.monotonic += pause;
    }
}

/// A plan in lines, without the times in it.
fn outline(plan: &Plan) -> Vec<String> {
    let action = |action: &Arc<Action>| {
        let mut action = action.as_ref().clone();
        if let ActionKind::Resize { annotations, .. } = &mut action.kind {
            let times = annotations
                .iter_mut()
                .filter(|(key, _)| [RESIZED_FROM, REVERTED_AT, OOM_RESIZE].contains(&key.as_str()));
            times.for_each(|(_, value)| *value = None);
        }
        format!("{action:?}")
    };
    let held = plan
        .paused
        .iter()
        .map(|held| format!("{} {:?}", held.vpa, std::mem::discriminant(&held.reason)));
    let skips = plan.skips.iter().map(|skip| format!("{skip:?}"));
    let refutations = plan.refutations.iter().map(|it| format!("{it:?}"));
    let pod_counts = plan.pod_counts.iter().map(|counts| format!("{counts:?}"));
    plan.actions
        .iter()
        .map(action)
        .chain(held)
        .chain(skips)
        .chain(refutations)
        .chain(pod_counts)
        .collect()
}
