//! The schedulers of the tables.

use placement::{
    Allocation, LoadVariationRiskBalancing, LowRiskOverCommitment, Policy, PressureTargets,
    Prioritizer, TargetLoadPacking,
};

use super::packing::{Scheduler, Scoring};

pub(crate) fn peers() -> Vec<(String, Scheduler)> {
    let trimaran = Scheduler::trimaran;
    [
        (
            "LeastAllocated",
            Scheduler::plain(Scoring::Allocated(Allocation::Least)),
        ),
        (
            "MostAllocated",
            Scheduler::plain(Scoring::Allocated(Allocation::Most)),
        ),
        ("crane-scheduler", Scheduler::plain(Scoring::Crane)),
        (
            "TargetLoadPacking 40 %",
            trimaran(Policy::TargetLoadPacking(TargetLoadPacking::default())),
        ),
        (
            "LoadVariationRiskBalancing",
            trimaran(Policy::LoadVariationRiskBalancing(
                LoadVariationRiskBalancing::default(),
            )),
        ),
        (
            "LowRiskOverCommitment",
            trimaran(Policy::LowRiskOverCommitment(
                LowRiskOverCommitment::default(),
            )),
        ),
    ]
    .map(|(name, scheduler)| (name.to_owned(), scheduler))
    .to_vec()
}

/// Our own way: target load packing with settings that were chosen on the first half, the load of a
/// new pod from its recommendation, and reservations.
pub(crate) fn ours() -> (String, Scheduler) {
    let prioritizer = Prioritizer {
        policy: Policy::TargetLoadPacking(TargetLoadPacking::with_target(Some(90))),
        targets: PressureTargets {
            memory_percent: Some(80),
            ..PressureTargets::default()
        },
    };
    let scheduler = Scheduler {
        scoring: Scoring::Load(prioritizer),
        multiplier: 1.0,
        reserves: true,
    };
    ("plimsoll".to_owned(), scheduler)
}
