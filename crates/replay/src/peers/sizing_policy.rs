//! A policy that production selects by annotations: ours, Crane's and Autopilot's.

use jiff::Timestamp;
use model::{Cpu, Memory};
use sizing::{
    MemoryRules, MethodHistory, MethodSettings, Observation, SIZING_PREFIX, SizingMethod,
};

use crate::policy::{MIB, Policy, Resource};

#[derive(Clone, Debug)]
pub struct AnnotatedPolicy {
    resource: Resource,
    policy: MethodSettings,
    history: Option<MethodHistory>,
}

impl AnnotatedPolicy {
    /// The policy of annotations without their prefix, such as `("policy", "crane")`; `None` if
    /// they select none.
    pub fn new(resource: Resource, settings: &[(&str, &str)]) -> Option<Self> {
        let keys = settings
            .iter()
            .map(|(key, _)| format!("{SIZING_PREFIX}{key}"));
        let keys: Vec<String> = keys.collect();
        let annotations = keys.iter().map(String::as_str);
        let annotations = annotations.zip(settings.iter().map(|(_, value)| *value));
        Some(Self {
            resource,
            policy: MethodSettings::from_annotations(annotations).ok()??,
            history: None,
        })
    }

    fn add(&mut self, pod: usize, at: Timestamp, seen: Observation) {
        let policy = &self.policy;
        let history = self
            .history
            .get_or_insert_with(|| MethodHistory::new(policy, at.into()));
        history.observe(policy, pod as u64, seen, at.into());
    }
}

impl Policy for AnnotatedPolicy {
    fn observe(&mut self, pod: usize, at: Timestamp, usage: f64) {
        // The recommenders wait for both resources: the other one is tiny.
        let (millicores, bytes) = match self.resource {
            Resource::Cpu => (usage, MIB),
            Resource::Memory => (1.0, usage * MIB),
        };
        let cpu = Some(Cpu::from_millicores(millicores.round() as i64));
        let memory = Some(Memory::from_bytes(bytes as i64));
        self.add(pod, at, Observation::Usage { cpu, memory });
    }

    fn oom(&mut self, at: Timestamp, request: f64) {
        let request = Memory::from_bytes((request * MIB) as i64);
        let rules = MemoryRules::default();
        self.add(0, at, Observation::Oom { request, rules });
    }

    fn recommend(&mut self, _now: Timestamp, _request: f64) -> Option<f64> {
        let amounts = self.history.as_ref()?.recommend(&self.policy)?;
        Some(self.resource.amount(amounts))
    }

    fn raise(&mut self, now: Timestamp, usage: f64, request: f64) -> Option<f64> {
        // Ours chooses anew with every sample.
        let chooses = matches!(self.policy.method, SizingMethod::PriceOfFailure(_));
        if chooses || usage > request {
            self.recommend(now, request)
        } else {
            None
        }
    }
}
