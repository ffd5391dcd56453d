//! How fast a workload may grow and shrink: windows, policies and tolerance per direction, with the
//! defaults of the API.
//!
//! Source: upstream `pkg/apis/autoscaling/v2/defaults.go` and `horizontal.go`.

use jiff::SignedDuration;
use model::Quantity;

use super::Tolerance;

/// The behaviour as a user may write it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Behavior {
    /// On the way up.
    pub up: Rules,
    /// On the way down.
    pub down: Rules,
}

/// The rules of one direction as a user may write them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rules {
    /// Seconds that are looked back.
    pub stabilization_seconds: Option<i32>,
    /// Which of the policies holds.
    pub select_policy: Option<SelectPolicy>,
    /// How much may change in how long; the default ones when there are none.
    pub policies: Vec<Policy>,
    /// How far a ratio may be from one in this direction.
    pub tolerance: Option<Quantity>,
}

/// Which of several policies holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SelectPolicy {
    /// The one that changes most.
    #[default]
    Max,
    /// The one that changes least.
    Min,
    /// None: nothing may change.
    Disabled,
}

/// How much may change within a period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// What the value counts.
    pub kind: PolicyKind,
    /// How much.
    pub value: i32,
    /// Within how many seconds.
    pub period_seconds: i32,
}

/// What a policy's value counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PolicyKind {
    /// Pods.
    Pods,
    /// Percent of the pods there were when the period began.
    Percent,
}

/// Rules of growth with nothing left open.
#[derive(Clone, Debug, PartialEq)]
pub struct ScaleUp {
    pub(super) window: SignedDuration,
    pub(super) select: SelectPolicy,
    pub(super) policies: Vec<Policy>,
}

/// Rules of shrinking with nothing left open.
#[derive(Clone, Debug, PartialEq)]
pub struct ScaleDown {
    pub(super) window: SignedDuration,
    pub(super) select: SelectPolicy,
    pub(super) policies: Vec<Policy>,
}

const DOUBLE: Policy = Policy {
    kind: PolicyKind::Percent,
    value: 100,
    period_seconds: 15,
};
const FOUR_PODS: Policy = Policy {
    kind: PolicyKind::Pods,
    value: 4,
    period_seconds: 15,
};

impl Behavior {
    /// What the API fills in for what the user left open. The window on the way down stays open: a
    /// flag of the controller says it.
    #[must_use]
    pub fn with_defaults(self) -> Self {
        let filled = |rules: Rules, policies: &[Policy]| Rules {
            select_policy: Some(rules.select_policy.unwrap_or_default()),
            policies: if rules.policies.is_empty() {
                policies.to_vec()
            } else {
                rules.policies
            },
            ..rules
        };
        let mut up = filled(self.up, &[FOUR_PODS, DOUBLE]);
        up.stabilization_seconds = Some(up.stabilization_seconds.unwrap_or(0));
        Self {
            up,
            down: filled(self.down, &[DOUBLE]),
        }
    }

    /// The rules with nothing left open; `downscale_window` is the controller's flag.
    pub(super) fn complete(&self, downscale_window: SignedDuration) -> (ScaleUp, ScaleDown) {
        let Self { up, down } = self.clone().with_defaults();
        let seconds =
            |written: Option<i32>| written.map(|seconds| SignedDuration::from_secs(seconds.into()));
        (
            ScaleUp {
                window: seconds(up.stabilization_seconds).unwrap_or_default(),
                select: up.select_policy.unwrap_or_default(),
                policies: up.policies,
            },
            ScaleDown {
                window: seconds(down.stabilization_seconds).unwrap_or(downscale_window),
                select: down.select_policy.unwrap_or_default(),
                policies: down.policies,
            },
        )
    }

    /// The tolerance of each direction; what is not said is the controller's.
    pub fn tolerance(&self, controllers: Tolerance) -> Tolerance {
        let own = |rules: &Rules| rules.tolerance.as_ref().map(Quantity::to_f64);
        Tolerance {
            up: own(&self.up).unwrap_or(controllers.up),
            down: own(&self.down).unwrap_or(controllers.down),
        }
    }
}
