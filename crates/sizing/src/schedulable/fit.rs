//! The most that each container of a workload may get so that its pods can be scheduled.
//!
//! Ceilings are taken one after the other, the nodes last; each only lowers what the ones before
//! left. Where the targets of a pod's containers do not fit, they share in proportion. Where they
//! fit, a container's most is what there would be if it alone grew. No number is raised, and none
//! becomes zero: a ceiling under which some container would get nothing is left out and said so.

use std::collections::BTreeMap;

use model::{
    Bound, Cap, ContainerExplanation, ContainerRecommendation, Cpu, Memory, Recommendation,
    ResourceName,
};

use super::ceiling::{Ceiling, Per, Values, show};
use super::node_room::{NodeRooms, Room};
use super::pod_shape::{ContainerShape, PodShape, of};
use super::share::{Stake, share};
use crate::estimate::Amounts;
use crate::policy::{ContainerPolicy, policy_for};

const RESOURCES: [ResourceName; 2] = [ResourceName::Cpu, ResourceName::Memory];

/// What the pods of one workload have to fit into.
#[derive(Clone, Copy, Debug)]
pub struct Fitting<'a> {
    /// One of its pods.
    pub pod: &'a PodShape,
    /// What its owner allows; a minimum is kept as long as it fits.
    pub policies: &'a [ContainerPolicy],
    /// What its namespace allows.
    pub ceilings: &'a [Ceiling],
    /// What nodes have left; none where nodes do not count.
    pub nodes: Option<&'a NodeRooms>,
}

/// The most that each container may get.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fit {
    most: BTreeMap<(String, ResourceName), Most>,
    unmet: Vec<(ResourceName, String)>,
}

/// The most of one resource that one container may get.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Most {
    /// In millicores or bytes.
    pub amount: i64,
    /// Whether the target is cut to this.
    pub cuts_target: bool,
    /// The ceiling that it comes from.
    pub ceiling: Ceiling,
}

/// A container that is sized, with one resource.
struct Part<'a> {
    shape: &'a ContainerShape,
    amount: i64,
    floor: i64,
    /// The ceiling that cut it last.
    cut_by: Option<Ceiling>,
}

impl Fitting<'_> {
    /// The most of everything, given the targets.
    pub fn fit(&self, recommendation: &Recommendation) -> Fit {
        let mut fit = Fit::default();
        let mut parts = RESOURCES.map(|resource| self.parts(recommendation, &resource));
        let mut used: [Vec<&Ceiling>; 2] = Default::default();
        for ((resource, parts), used) in RESOURCES.iter().zip(&mut parts).zip(&mut used) {
            for ceiling in self
                .ceilings
                .iter()
                .filter(|ceiling| ceiling.resource == *resource)
            {
                if self.lower(parts, ceiling) {
                    used.push(ceiling);
                } else {
                    fit.unmet.push((resource.clone(), ceiling.because.clone()));
                }
            }
        }
        let nodes = self.node_ceilings(&parts, &mut fit);
        for ((resource, parts), (mut used, node)) in RESOURCES
            .iter()
            .zip(&mut parts)
            .zip(used.into_iter().zip(&nodes))
        {
            if let Some(ceiling) = node.as_ref().filter(|_| !parts.is_empty()) {
                if self.lower(parts, ceiling) {
                    used.push(ceiling);
                } else {
                    fit.unmet.push((resource.clone(), ceiling.because.clone()));
                }
            }
            fit.most.extend(parts.iter().filter_map(|part| {
                let most = self.most(parts, part, &used)?;
                Some(((part.shape.name.clone(), resource.clone()), most))
            }));
        }
        fit
    }

    /// The containers that the pod has and that have a target for the resource.
    fn parts(&self, recommendation: &Recommendation, resource: &ResourceName) -> Vec<Part<'_>> {
        let part = |container: &ContainerRecommendation| {
            let name = container.container_name.as_str();
            let shape = self
                .pod
                .containers
                .iter()
                .find(|shape| shape.name == name)?;
            let amount = whole(resource, container.target.get(resource)?);
            let policy = policy_for(self.policies, name);
            let least = policy.and_then(|policy| policy.min_allowed.get(resource));
            Some(Part {
                shape,
                amount,
                floor: least.map_or(0, |least| whole(resource, least)),
                cut_by: None,
            })
        };
        recommendation.containers.iter().filter_map(part).collect()
    }

    /// Cuts what is above the ceiling; false if that cannot be done.
    fn lower(&self, parts: &mut [Part], ceiling: &Ceiling) -> bool {
        let Some(cut) = (match ceiling.per {
            Per::Container => each_under(parts, ceiling),
            Per::Pod => self.together_under(parts, ceiling),
        }) else {
            return false;
        };
        for (part, amount) in parts.iter_mut().zip(cut) {
            let amount = if part.shape.whole_cores {
                whole_cores(ceiling, amount)
            } else {
                amount
            };
            if amount < part.amount {
                part.amount = amount;
                part.cut_by = Some(ceiling.clone());
            }
        }
        true
    }

    fn together_under(&self, parts: &[Part], ceiling: &Ceiling) -> Option<Vec<i64>> {
        let stakes: Vec<Option<Stake>> = parts.iter().map(|part| part.stake(ceiling)).collect();
        let counted: Vec<Stake> = stakes.iter().copied().flatten().collect();
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

    /// What the pod takes under the ceiling whatever is recommended.
    fn fixed(&self, parts: &[Part], ceiling: &Ceiling) -> i128 {
        let resource = &ceiling.resource;
        let fixed = match ceiling.values {
            Values::Requests => of(&self.pod.fixed_requests, resource),
            Values::Limits => of(&self.pod.fixed_limits, resource),
        };
        let varies = |shape: &ContainerShape| {
            parts
                .iter()
                .any(|part| std::ptr::eq(part.shape, shape) && part.weight(ceiling).is_some())
        };
        let others = self
            .pod
            .containers
            .iter()
            .filter(|shape| !varies(shape))
            .map(|shape| match ceiling.values {
                Values::Requests => shape.request(resource),
                Values::Limits => shape.limit(resource),
            });
        others.map(i128::from).sum::<i128>() + i128::from(fixed)
    }

    /// What the best node has left, for CPU and memory; tells when there is none.
    fn node_ceilings(&self, parts: &[Vec<Part>; 2], fit: &mut Fit) -> [Option<Ceiling>; 2] {
        let Some(nodes) = self
            .nodes
            .filter(|_| parts.iter().any(|parts| !parts.is_empty()))
        else {
            return [None, None];
        };
        let amounts = |amount: &dyn Fn(&ResourceName, &[Part]) -> i64| Amounts {
            cpu: Cpu::from_millicores(amount(&ResourceName::Cpu, &parts[0])),
            memory: Memory::from_bytes(amount(&ResourceName::Memory, &parts[1])),
        };
        let fixed = amounts(&|resource, parts| {
            let sized =
                |shape: &ContainerShape| parts.iter().any(|part| std::ptr::eq(part.shape, shape));
            let others = self
                .pod
                .containers
                .iter()
                .filter(|shape| !sized(shape))
                .map(|shape| shape.request(resource));
            others.sum::<i64>() + of(&self.pod.fixed_requests, resource)
        });
        let wanted = amounts(&|_, parts| parts.iter().map(|part| part.amount).sum());
        if let Some((cpu, memory)) = nodes.choose(fixed, wanted) {
            return [
                Some(node_ceiling(ResourceName::Cpu, cpu)),
                Some(node_ceiling(ResourceName::Memory, memory)),
            ];
        }
        let why = match nodes {
            NodeRooms::One(rooms) if rooms.is_empty() => {
                "no node is known that these pods may run on"
            }
            _ => "no node has room for these pods, whatever is recommended",
        };
        fit.unmet
            .extend(RESOURCES.map(|resource| (resource, why.to_owned())));
        [None, None]
    }

    /// The most for one container: its share where it was cut, otherwise what the others leave.
    fn most(&self, parts: &[Part], part: &Part, used: &[&Ceiling]) -> Option<Most> {
        if let Some(ceiling) = &part.cut_by {
            return Some(Most {
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
                Per::Container => i128::from(ceiling.most),
                Per::Pod => i128::from(ceiling.most) - self.fixed(parts, ceiling) - others(ceiling),
            };
            let amount = stake.affords(room);
            let amount = if part.shape.whole_cores {
                whole_cores(ceiling, amount)
            } else {
                amount
            };
            Some((amount.max(part.amount), *ceiling))
        });
        let (amount, ceiling) = left.min_by_key(|(amount, _)| *amount)?;
        Some(Most {
            amount,
            cuts_target: false,
            ceiling: ceiling.clone(),
        })
    }
}

impl Part<'_> {
    /// What a unit of the request takes under the ceiling; none where the ceiling is about limits
    /// and these do not follow.
    fn weight(&self, ceiling: &Ceiling) -> Option<(i64, i64)> {
        let (request, limit) = (
            self.shape.request(&ceiling.resource),
            self.shape.limit(&ceiling.resource),
        );
        match ceiling.values {
            Values::Requests => Some((1, 1)),
            Values::Limits if !self.shape.limits_follow || limit <= 0 => None,
            Values::Limits if request <= 0 => Some((1, 1)),
            Values::Limits => Some((limit, request)),
        }
    }

    fn stake(&self, ceiling: &Ceiling) -> Option<Stake> {
        Some(Stake {
            amount: self.amount,
            floor: self.floor,
            weight: self.weight(ceiling)?,
        })
    }
}

impl Fit {
    /// Lowers every number that is above the most of its container; gives whether any target was.
    pub fn apply(&self, recommendation: &mut Recommendation) -> bool {
        let mut cuts_target = false;
        for container in &mut recommendation.containers {
            let ContainerRecommendation {
                container_name,
                target,
                lower_bound,
                upper_bound,
                uncapped_target: _,
            } = container;
            for list in [target, lower_bound, upper_bound] {
                for (resource, quantity) in list.iter_mut() {
                    if let Some(most) = self
                        .of(container_name, resource)
                        .filter(|most| whole(resource, quantity) > most.amount)
                    {
                        *quantity = show(resource, most.amount);
                        cuts_target |= most.cuts_target;
                    }
                }
            }
        }
        cuts_target
    }

    /// Adds this last step to how the numbers of a container came about.
    pub fn explain(&self, container: &str, explanation: &mut ContainerExplanation) {
        for number in &mut explanation.numbers {
            if let Some(most) = self
                .of(container, &number.resource)
                .filter(|most| whole(&number.resource, &number.capped) > most.amount)
            {
                number.capped = show(&number.resource, most.amount);
                number.capped_by = Some(most.ceiling.by);
                number.capped_because = Some(most.ceiling.because.clone());
            } else if number.bound == Bound::Target && number.capped_by.is_none() {
                let unmet = self
                    .unmet
                    .iter()
                    .find(|(resource, _)| *resource == number.resource);
                number.capped_because = unmet
                    .map(|(_, why)| format!("not capped, since it would leave nothing: {why}"));
            }
        }
    }

    /// The most of a resource that a container may get; none where nothing limits it.
    pub fn of(&self, container: &str, resource: &ResourceName) -> Option<&Most> {
        self.most.get(&(container.to_owned(), resource.clone()))
    }

    /// The ceilings under which some container would get nothing, and that are left out therefore.
    pub fn unmet(&self) -> impl Iterator<Item = &str> {
        self.unmet.iter().map(|(_, why)| why.as_str())
    }

    /// The targets that are cut: container, resource and the most that it may get.
    pub fn cuts(&self) -> impl Iterator<Item = (&str, &ResourceName, &Most)> {
        let cut = self.most.iter().filter(|(_, most)| most.cuts_target);
        cut.map(|((container, resource), most)| (container.as_str(), resource, most))
    }
}

fn each_under(parts: &[Part], ceiling: &Ceiling) -> Option<Vec<i64>> {
    let under = |part: &Part| match part.stake(ceiling) {
        None => Some(part.amount),
        Some(stake) => Some(stake.affords(i128::from(ceiling.most)).min(part.amount))
            .filter(|amount| *amount > 0 || part.amount == 0),
    };
    parts.iter().map(under).collect()
}

/// Whole cores where there is at least one.
fn whole_cores(ceiling: &Ceiling, amount: i64) -> i64 {
    if ceiling.resource == ResourceName::Cpu && amount >= 1000 {
        amount - amount % 1000
    } else {
        amount
    }
}

/// Millicores or bytes, rounded up.
fn whole(resource: &ResourceName, quantity: &model::Quantity) -> i64 {
    match resource {
        ResourceName::Cpu => quantity.milli_value(),
        _ => quantity.value(),
    }
}

fn node_ceiling(resource: ResourceName, room: &Room) -> Ceiling {
    let most = of(&room.left, &resource);
    let Room { node, daemons, .. } = room;
    let because = format!(
        "node {node} has {} {resource} left for one pod beside {daemons} DaemonSet pods",
        show(&resource, most)
    );
    Ceiling {
        resource,
        values: Values::Requests,
        per: Per::Pod,
        most,
        by: Cap::Node,
        object: node.clone(),
        because,
    }
}
