//! Maximum of each container such that the pods of a workload can be scheduled.
//!
//! Ceilings apply in sequence, the nodes last; each only lowers the results of the previous ones.
//! If the targets of a pod's containers do not fit, they are reduced in proportion. If they fit,
//! the maximum of a container assumes that only this one grows. No number is raised, and none
//! becomes zero: a ceiling that leaves nothing for some container is skipped and reported.

use std::collections::BTreeMap;

use model::{Cap, ContainerRecommendation, Recommendation, ResourceName};

use super::division::{Claim, share};
use super::node_headroom::{CandidateNodes, NodeHeadroom};
use super::{Ceiling, LimitScope, LimitedValues, show};
use crate::amount::Amounts;
use crate::container_policy::{ContainerPolicy, capped_lists, policy_for};

const RESOURCES: [ResourceName; 2] = [ResourceName::Cpu, ResourceName::Memory];

/// Requests of one pod of a workload, by container, apart from the recommendation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodRequests {
    /// Its containers, in no particular order.
    pub containers: Vec<ContainerRequests>,
    /// Requests that are never sized: sidecars among the init containers, and the pod overhead.
    pub fixed_requests: Amounts,
    /// Limits that are never sized.
    pub fixed_limits: Amounts,
}

/// Shape of one container. Unset amounts are 0.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContainerRequests {
    pub name: String,
    pub requests: Amounts,
    pub limits: Amounts,
    /// Whether its limits are proportional to its requests.
    pub limits_follow: bool,
    pub whole_cores: bool,
}

/// Inputs of the computation for the pods of one workload.
#[derive(Clone, Copy, Debug)]
pub struct FitInput<'a> {
    pub pod: &'a PodRequests,
    /// Container policies; a minimum is kept as long as it fits.
    pub policies: &'a [ContainerPolicy],
    pub ceilings: &'a [Ceiling],
    /// Free resources of nodes; `None` if nodes are ignored.
    pub nodes: Option<&'a CandidateNodes>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fit {
    most: BTreeMap<(String, ResourceName), Maximum>,
    skipped: Vec<Cap>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Maximum {
    /// Amount in millicores or bytes.
    pub amount: i64,
    /// Whether the target is cut to this amount.
    pub cuts_target: bool,
    pub ceiling: Ceiling,
}

struct SizedContainer<'a> {
    shape: &'a ContainerRequests,
    amount: i64,
    floor: i64,
    cut_by: Option<Ceiling>,
}

impl FitInput<'_> {
    pub fn fit(&self, recommendation: &Recommendation) -> Fit {
        let mut fit = Fit::default();
        let mut parts = RESOURCES.map(|resource| self.parts(recommendation, &resource));
        let mut used: [Vec<&Ceiling>; 2] = Default::default();
        for ((resource, parts), used) in RESOURCES.iter().zip(&mut parts).zip(&mut used) {
            let ceilings = self.ceilings.iter();
            for ceiling in ceilings.filter(|ceiling| ceiling.resource == *resource) {
                self.lower(parts, ceiling, used, &mut fit);
            }
        }
        let nodes = self.node_ceilings(&parts, &mut fit);
        let resources = RESOURCES.iter().zip(&mut parts).zip(&mut used).zip(&nodes);
        for (((resource, parts), used), node) in resources {
            if let Some(ceiling) = node.as_ref().filter(|_| !parts.is_empty()) {
                self.lower(parts, ceiling, used, &mut fit);
            }
            fit.most.extend(parts.iter().filter_map(|part| {
                let most = self.most(parts, part, used)?;
                Some(((part.shape.name.clone(), resource.clone()), most))
            }));
        }
        fit
    }

    /// The containers of the pod with a target for the resource.
    fn parts(
        &self,
        recommendation: &Recommendation,
        resource: &ResourceName,
    ) -> Vec<SizedContainer<'_>> {
        let part = |container: &ContainerRecommendation| {
            let name = container.container_name.as_str();
            let mut shapes = self.pod.containers.iter();
            let shape = shapes.find(|shape| shape.name == name)?;
            let amount = whole(resource, container.target.get(resource)?);
            let policy = policy_for(self.policies, name);
            let least = policy.and_then(|policy| policy.min_allowed.get(resource));
            Some(SizedContainer {
                shape,
                amount,
                floor: least.map_or(0, |least| whole(resource, least)),
                cut_by: None,
            })
        };
        recommendation.containers.iter().filter_map(part).collect()
    }

    /// Cuts amounts above the ceiling, or skips it if that is impossible.
    fn lower<'c>(
        &self,
        parts: &mut [SizedContainer],
        ceiling: &'c Ceiling,
        used: &mut Vec<&'c Ceiling>,
        fit: &mut Fit,
    ) {
        let cut = match ceiling.per {
            LimitScope::Container => each_under(parts, ceiling),
            LimitScope::Pod => self.together_under(parts, ceiling),
        };
        let Some(cut) = cut else {
            fit.skipped.push(ceiling.by);
            return;
        };
        for (part, amount) in parts.iter_mut().zip(cut) {
            let amount = part.rounded(ceiling, amount);
            if amount < part.amount {
                part.amount = amount;
                part.cut_by = Some(ceiling.clone());
            }
        }
        used.push(ceiling);
    }

    fn together_under(&self, parts: &[SizedContainer], ceiling: &Ceiling) -> Option<Vec<i64>> {
        let stakes: Vec<Option<Claim>> = parts.iter().map(|part| part.stake(ceiling)).collect();
        let counted: Vec<Claim> = stakes.iter().copied().flatten().collect();
        let asked: i128 = counted.iter().map(|stake| stake.cost(stake.amount)).sum();
        let room = i128::from(ceiling.most) - self.fixed(parts, ceiling);
        if counted.is_empty() || asked <= room {
            return Some(parts.iter().map(|part| part.amount).collect());
        }
        let mut shares = share(&counted, room)?.into_iter();
        Some(
            parts
                .iter()
                .zip(&stakes)
                .map(|(part, stake)| stake.and_then(|_| shares.next()).unwrap_or(part.amount))
                .collect(),
        )
    }

    /// Part of the ceiling used independently of the recommendation.
    fn fixed(&self, parts: &[SizedContainer], ceiling: &Ceiling) -> i128 {
        let resource = &ceiling.resource;
        let fixed = match ceiling.values {
            LimitedValues::Requests => self.pod.fixed_requests.of(resource),
            LimitedValues::Limits => self.pod.fixed_limits.of(resource),
        };
        let varies = |shape: &ContainerRequests| {
            let mut parts = parts.iter();
            parts.any(|part| std::ptr::eq(part.shape, shape) && part.weight(ceiling).is_some())
        };
        let others = self.pod.containers.iter().filter(|shape| !varies(shape));
        let others = others.map(|shape| match ceiling.values {
            LimitedValues::Requests => shape.requests.of(resource),
            LimitedValues::Limits => shape.limits.of(resource),
        });
        others.map(i128::from).sum::<i128>() + i128::from(fixed)
    }

    /// Ceilings of the best node for CPU and memory. Records in `fit` that no node fits.
    fn node_ceilings(
        &self,
        parts: &[Vec<SizedContainer>; 2],
        fit: &mut Fit,
    ) -> [Option<Ceiling>; 2] {
        let has_any = parts.iter().any(|parts| !parts.is_empty());
        let Some(nodes) = self.nodes.filter(|_| has_any) else {
            return [None, None];
        };
        let fixed = |(resource, parts): (&ResourceName, &Vec<SizedContainer>)| {
            let sized = |shape: &ContainerRequests| {
                parts.iter().any(|part| std::ptr::eq(part.shape, shape))
            };
            let others = self.pod.containers.iter().filter(|shape| !sized(shape));
            let others = others.map(|shape| shape.requests.of(resource));
            others.sum::<i64>() + self.pod.fixed_requests.of(resource)
        };
        let [cpu, memory] = parts;
        let fixed = Amounts::new(
            fixed((&ResourceName::Cpu, cpu)),
            fixed((&ResourceName::Memory, memory)),
        );
        let wanted = |parts: &[SizedContainer]| parts.iter().map(|part| part.amount).sum();
        let wanted = Amounts::new(wanted(cpu), wanted(memory));
        if let Some((cpu, memory)) = nodes.choose(fixed, wanted) {
            return [
                Some(node_ceiling(ResourceName::Cpu, cpu)),
                Some(node_ceiling(ResourceName::Memory, memory)),
            ];
        }
        fit.skipped.push(Cap::Node);
        [None, None]
    }

    /// Maximum of one container: its share if it was cut, else the rest left by the others.
    fn most(
        &self,
        parts: &[SizedContainer],
        part: &SizedContainer,
        used: &[&Ceiling],
    ) -> Option<Maximum> {
        if let Some(ceiling) = &part.cut_by {
            return Some(Maximum {
                amount: part.amount,
                cuts_target: true,
                ceiling: ceiling.clone(),
            });
        }
        let others = |ceiling: &Ceiling| -> i128 {
            let others = parts.iter().filter(|other| !std::ptr::eq(*other, part));
            others
                .filter_map(|other| Some(other.stake(ceiling)?.cost(other.amount)))
                .sum()
        };
        let left = used.iter().filter_map(|ceiling| {
            let stake = part.stake(ceiling)?;
            let room = match ceiling.per {
                LimitScope::Container => i128::from(ceiling.most),
                LimitScope::Pod => {
                    i128::from(ceiling.most) - self.fixed(parts, ceiling) - others(ceiling)
                }
            };
            let amount = part.rounded(ceiling, stake.affords(room));
            Some((amount.max(part.amount), *ceiling))
        });
        let (amount, ceiling) = left.min_by_key(|(amount, _)| *amount)?;
        Some(Maximum {
            amount,
            cuts_target: false,
            ceiling: ceiling.clone(),
        })
    }
}

impl SizedContainer<'_> {
    /// Units of the ceiling per unit of the request; `None` for a ceiling on limits that are not
    /// proportional.
    fn weight(&self, ceiling: &Ceiling) -> Option<(i64, i64)> {
        let resource = &ceiling.resource;
        let (request, limit) = (
            self.shape.requests.of(resource),
            self.shape.limits.of(resource),
        );
        match ceiling.values {
            LimitedValues::Requests => Some((1, 1)),
            LimitedValues::Limits if !self.shape.limits_follow || limit <= 0 => None,
            LimitedValues::Limits if request <= 0 => Some((1, 1)),
            LimitedValues::Limits => Some((limit, request)),
        }
    }

    /// The amount, in whole cores if the container needs them and at least one is left.
    fn rounded(&self, ceiling: &Ceiling, amount: i64) -> i64 {
        let is_cpu = ceiling.resource == ResourceName::Cpu;
        if self.shape.whole_cores && is_cpu && amount >= 1000 {
            amount - amount % 1000
        } else {
            amount
        }
    }

    fn stake(&self, ceiling: &Ceiling) -> Option<Claim> {
        Some(Claim {
            amount: self.amount,
            floor: self.floor,
            weight: self.weight(ceiling)?,
        })
    }
}

impl Fit {
    /// Lowers all numbers to the maximum of their container. Returns whether any target changed.
    pub fn apply(&self, recommendation: &mut Recommendation) -> bool {
        let mut cuts_target = false;
        for container in &mut recommendation.containers {
            let name = container.container_name.clone();
            for list in capped_lists(container) {
                for (resource, quantity) in list.iter_mut() {
                    let most = self.of(&name, resource);
                    if let Some(most) = most.filter(|it| whole(resource, quantity) > it.amount) {
                        *quantity = show(resource, most.amount);
                        cuts_target |= most.cuts_target;
                    }
                }
            }
        }
        cuts_target
    }

    /// The maximum of a container's resource; `None` if unlimited.
    pub fn of(&self, container: &str, resource: &ResourceName) -> Option<&Maximum> {
        self.most.get(&(container.to_owned(), resource.clone()))
    }

    /// Sources of the skipped ceilings, which would leave nothing for some container.
    pub fn skipped(&self) -> &[Cap] {
        &self.skipped
    }

    pub fn cuts(&self) -> impl Iterator<Item = (&str, &ResourceName, &Maximum)> {
        let cut = self.most.iter().filter(|(_, most)| most.cuts_target);
        cut.map(|((container, resource), most)| (container.as_str(), resource, most))
    }
}

fn each_under(parts: &[SizedContainer], ceiling: &Ceiling) -> Option<Vec<i64>> {
    let under = |part: &SizedContainer| match part.stake(ceiling) {
        None => Some(part.amount),
        Some(stake) => Some(stake.affords(i128::from(ceiling.most)).min(part.amount))
            .filter(|amount| *amount > 0 || part.amount == 0),
    };
    parts.iter().map(under).collect()
}

/// Millicores or bytes, rounded up.
fn whole(resource: &ResourceName, quantity: &model::Quantity) -> i64 {
    match resource {
        ResourceName::Cpu => quantity.milli_value(),
        _ => quantity.value(),
    }
}

fn node_ceiling(resource: ResourceName, room: &NodeHeadroom) -> Ceiling {
    Ceiling {
        most: room.left.of(&resource),
        resource,
        values: LimitedValues::Requests,
        per: LimitScope::Pod,
        by: Cap::Node,
        object: room.node.clone(),
    }
}
