//! Value types of the suite: usage, quantities, recommendations; no Kubernetes, clocks or I/O.
//!
//! | formula | file |
//! |---|---|
//! | quantities: parsing, rounding, canonical text | `quantity.rs`, `quantity/` |
//! | durations as Go programs read them | `go_duration.rs` |
//! | node constraints of a pod | `constraints.rs` |
//! | combined limit ranges of a namespace | `namespace_limits.rs` |
//! | slots and time, shared fairly among namespaces | `fair_slots.rs` |

pub mod quantity;

mod constraints;
mod fair_slots;
mod fnv1a;
mod forecast;
mod go_duration;
mod labels;
mod limit_mode;
mod namespace_limits;
mod recommendation;
mod resources;
mod unit_slip;
mod usage;
mod workload;

pub use constraints::{Effect, NodeConstraints, NodeTerm, NodeTraits, Taint, Toleration};
pub use fair_slots::FairSlots;
pub use fnv1a::fnv1a;
pub use forecast::{Forecast, ForecastSeries, MetricForecast};
pub use go_duration::{GoDurationError, parse_go_duration};
pub use labels::{
    Labels, ParseSelectorError, Requirement, Selector, is_label_name, is_label_value,
};
pub use limit_mode::{LimitMode, LimitModes};
pub use namespace_limits::{LimitRangeItem, LimitType, Limits, NamespaceLimits};
pub use quantity::{ParseQuantityError, Quantity};
pub use recommendation::{
    Allowed, Cap, ContainerRecommendation, ControlledValues, Explanation, MethodStep,
    Recommendation, WHOLE_POD, shown_name,
};
pub use resources::{Cpu, Memory, ResourceList, ResourceName};
pub use unit_slip::unit_slip;
pub use usage::{ContainerUsage, Sample, Series};
pub use workload::{ContainerRef, Workload, WorkloadRef};
