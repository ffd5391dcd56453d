//! Unused part of a `ResourceQuota` per pod of a workload: the quota less the usage of other pods,
//! divided by all replicas.
//!
//! Running pods are never reduced for replicas that the quota does not admit: then the maximum is
//! the current average of the workload's pods. So a replaced pod can always be recreated.

use model::{Cap, Cpu, Memory, ResourceList, ResourceName};

use super::{Ceiling, LimitScope, LimitedValues};
use crate::amount::Amounts;

/// One quota for the pods of one workload. Sums are over the pods that the quota counts.
#[derive(Clone, Debug)]
pub struct QuotaUsage<'a> {
    pub name: &'a str,
    /// Its hard limits by Kubernetes' names: `cpu` or `requests.cpu`, `limits.cpu`, and the same
    /// for memory.
    pub hard: &'a ResourceList,
    pub others: (Amounts, Amounts),
    pub own: (Amounts, Amounts),
    /// Current number of pods of the workload.
    pub pods: u32,
    /// Desired number of pods, if greater.
    pub replicas: u32,
}

impl QuotaUsage<'_> {
    pub fn ceilings(&self) -> Vec<Ceiling> {
        let prefixes = [
            (LimitedValues::Requests, &["", "requests."][..]),
            (LimitedValues::Limits, &["limits."]),
        ];
        let of = |resource: ResourceName| {
            prefixes.map(|(values, prefixes)| self.ceiling(resource.clone(), values, prefixes))
        };
        let both = [ResourceName::Cpu, ResourceName::Memory].map(of);
        both.into_iter().flatten().flatten().collect()
    }

    fn ceiling(
        &self,
        resource: ResourceName,
        values: LimitedValues,
        prefixes: &[&str],
    ) -> Option<Ceiling> {
        let name = |prefix: &&str| ResourceName::from(&*format!("{prefix}{resource}"));
        let listed = prefixes.iter().filter_map(|it| self.hard.get(&name(it)));
        let hard = listed.min().map(|hard| match resource {
            ResourceName::Cpu => Cpu::from(hard).millicores(),
            _ => Memory::from(hard).bytes(),
        })?;
        let (others, own) = match values {
            LimitedValues::Requests => (&self.others.0, &self.own.0),
            LimitedValues::Limits => (&self.others.1, &self.own.1),
        };
        let shares = i64::from(self.replicas.max(self.pods).max(1));
        let left = (hard - others.of(&resource)).max(0) / shares;
        let now = own.of(&resource).checked_div(self.pods.into());
        Some(Ceiling {
            resource,
            values,
            per: LimitScope::Pod,
            most: left.max(now.unwrap_or(0)),
            by: Cap::Quota,
            object: self.name.to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cpu(millicores: i64) -> Amounts {
        Amounts {
            cpu: Cpu::from_millicores(millicores),
            memory: Memory::from_bytes(0),
        }
    }

    /// Expects the ceiling under a quota of 10 cores, given the usage of other and own pods, pods
    /// and replicas.
    fn check(others: i64, own: i64, pods: u32, replicas: u32, expected: i64) {
        let ten = "10".parse().expect("a quantity");
        let hard = ResourceList::from_iter([(ResourceName::from("requests.cpu"), ten)]);
        let (others, own) = ((cpu(others), cpu(0)), (cpu(own), cpu(0)));
        let ceilings = QuotaUsage {
            name: "compute",
            hard: &hard,
            others,
            own,
            pods,
            replicas,
        }
        .ceilings();
        let [ceiling] = ceilings.as_slice() else {
            panic!("one ceiling: {ceilings:?}")
        };
        assert_eq!(ceiling.most, expected, "{ceiling:?}");
        assert_eq!(
            (ceiling.values, ceiling.per),
            (LimitedValues::Requests, LimitScope::Pod)
        );
    }

    #[test]
    fn replicas_share_what_others_leave() {
        check(0, 0, 0, 0, 10_000);
        check(4000, 2000, 2, 2, 3000);
        check(4000, 2000, 2, 3, 2000);
        check(4000, 2000, 3, 1, 2000);
    }

    #[test]
    fn pods_are_not_made_smaller_for_replicas_that_cannot_start() {
        check(4000, 6000, 3, 12, 2000);
        check(12_000, 3000, 3, 3, 1000);
        check(12_000, 0, 0, 3, 0);
    }

    #[test]
    fn the_smaller_of_two_names_for_requests_counts_and_limits_are_apart() {
        let hard = [
            ("cpu", "4"),
            ("requests.cpu", "2"),
            ("limits.memory", "1Gi"),
            ("pods", "3"),
        ];
        let hard =
            hard.map(|(name, text)| (ResourceName::from(name), text.parse().expect("a quantity")));
        let none = (cpu(0), cpu(0));
        let hard = hard.into_iter().collect();
        let facts = QuotaUsage {
            name: "compute",
            hard: &hard,
            others: none,
            own: none,
            pods: 0,
            replicas: 2,
        };
        let ceilings = facts.ceilings().into_iter();
        let found = ceilings.map(|found| (found.resource, found.values, found.most));
        let expected = [
            (ResourceName::Cpu, LimitedValues::Requests, 1000),
            (ResourceName::Memory, LimitedValues::Limits, 1 << 29),
        ];
        assert_eq!(found.collect::<Vec<_>>(), expected);
    }
}
