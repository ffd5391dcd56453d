//! Scaling behaviour: stabilisation windows, policies and tolerance per direction, with the API's
//! defaults.
//!
//! Source: upstream `pkg/apis/autoscaling/v2/defaults.go` and `horizontal.go`.

use jiff::SignedDuration;
use model::Quantity;

use super::Tolerance;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Behavior {
    pub up: Rules,
    pub down: Rules,
}

/// Rules of one direction in the object.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rules {
    pub stabilization_seconds: Option<i32>,
    pub select_policy: Option<SelectPolicy>,
    /// Rate limits; the default ones if empty.
    pub policies: Vec<Policy>,
    /// Tolerance of the ratio in this direction.
    pub tolerance: Option<Quantity>,
}

/// Selection among several policies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SelectPolicy {
    /// The policy with the largest change.
    #[default]
    Max,
    Min,
    Disabled,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    pub kind: PolicyKind,
    pub value: i32,
    pub period_seconds: i32,
}

/// Unit of a policy's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PolicyKind {
    Pods,
    /// Percent of the pods at the start of the period.
    Percent,
}

pub(super) struct CompleteRules {
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
    /// Adds the API's defaults. The stabilisation window of scaling down stays open: a flag of the
    /// controller sets it.
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

    /// The complete rules of scaling up and down; `downscale_window` is the controller's flag.
    pub(super) fn complete(&self, downscale_window: SignedDuration) -> [CompleteRules; 2] {
        let Self { up, down } = self.clone().with_defaults();
        [(up, SignedDuration::ZERO), (down, downscale_window)].map(|(rules, window)| {
            let seconds = |seconds: i32| SignedDuration::from_secs(seconds.into());
            CompleteRules {
                window: rules.stabilization_seconds.map_or(window, seconds),
                select: rules.select_policy.unwrap_or_default(),
                policies: rules.policies,
            }
        })
    }

    /// The tolerance of each direction, with the controller's as default.
    pub fn tolerance(&self, controllers: Tolerance) -> Tolerance {
        let own = |rules: &Rules| rules.tolerance.as_ref().map(Quantity::to_f64);
        Tolerance {
            up: own(&self.up).unwrap_or(controllers.up),
            down: own(&self.down).unwrap_or(controllers.down),
        }
    }
}
