//! Properties of plans on random objects: applying one leaves nothing to do, VPA objects without a
//! policy are unchanged, and no workload has two VPAs.

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

/// Number of the tier that is selected; none for all workloads. Then: of the cluster, second of
/// creation, mode, cannot be used.
type DrawnPolicy = (Option<u8>, bool, u8, bool, bool);
/// A VPA's state, its workload, and its policy; one of them is gone.
type DrawnObject = (u8, u8, u8);

const TIERS: [&str; 2] = ["front", "back"];

fn drawn_policy(
    index: usize,
    (tier, is_cluster, second, is_initial, is_broken): DrawnPolicy,
) -> Policy {
    let name = format!("p{index}");
    let mut drawn = policy(&name);
    if is_cluster {
        drawn = cluster_policy(&name, &[]);
    }
    drawn.created = Timestamp::from_second(i64::from(second)).ok();
    drawn.spec = SizingPolicySpec {
        selector: tier.map(|tier| labels(&[("tier", TIERS[usize::from(tier)])])),
        update_mode: is_initial.then_some(api::vpa::UpdateMode::Initial),
        sizing: is_broken.then(|| Sizing {
            policy: Some(SizingMethod::Crane),
            caution: None,
            settings: map(&[("nonsense", "1")]),
        }),
        ..SizingPolicySpec::default()
    };
    drawn
}

fn fixture(tiers: &[u8], policies: &[DrawnPolicy], objects: &[DrawnObject]) -> Fixture {
    let policies = policies.iter().copied().enumerate();
    let policies: Vec<Policy> = policies
        .map(|(index, policy)| drawn_policy(index, policy))
        .collect();
    let mut fixture = Fixture::new();
    for (index, tier) in tiers.iter().enumerate() {
        let label = ("tier", TIERS[usize::from(*tier)]);
        fixture = fixture.workload("shop", &format!("w{index}"), &[label]);
    }
    let gone = policy("gone");
    for (fate, workload, maker) in objects {
        let workload = format!("w{workload}");
        let maker = policies.get(usize::from(*maker)).unwrap_or(&gone);
        fixture = match fate {
            0 => fixture.by_hand(&format!("mine-{workload}"), &workload),
            1 => fixture.made(maker, &workload, |object| {
                object["spec"]["updatePolicy"]["updateMode"] = "Recreate".into();
            }),
            2 => fixture.made(maker, &workload, |object| {
                object["spec"]["targetRef"]["name"] = "w0".into();
            }),
            3 => fixture.made(maker, &workload, |object| {
                object["metadata"]["ownerReferences"] = json!([]);
            }),
            _ => fixture.made(maker, &workload, |_| ()),
        };
    }
    policies.into_iter().fold(fixture, Fixture::has)
}

/// Applies the plan as the API server would.
pub(super) fn carry_out(mut fixture: Fixture, plan: Plan) -> Fixture {
    for write in plan.writes {
        match write.action {
            Action::Remove => {
                let change = fixture.view.vpas.delete(&write.key);
                let there = change.and_then(|change| change.old);
                let uid = &plan.summaries[write.summary].policy.uid;
                assert_eq!(
                    there.as_deref().and_then(desired::owner),
                    Some(uid.as_str())
                );
            }
            Action::Change(patch) => {
                let there = fixture.view.vpas.get(&write.key);
                let mut object = json!(there.expect("what is changed is there").object);
                json_patch::patch(&mut object, &patch).expect("it is the object that was seen");
                fixture = fixture.object(object);
            }
            Action::Create(mut object) => {
                object.metadata.uid = Some(write.key.name.clone());
                let there = fixture.view.vpas.get(&write.key);
                assert!(there.is_none(), "{} is there", write.key);
                fixture = fixture.object(json!(object));
            }
        }
    }
    fixture
}

fn by_hand(fixture: &Fixture) -> Vec<Arc<Vpa>> {
    let objects = fixture.view.vpas.iter();
    let by_hand = objects.filter(|object| desired::owner(object).is_none());
    by_hand.cloned().collect()
}

/// Of each workload, how many VPAs by hand and of parsed policies it has.
fn counts(fixture: &Fixture, is_usable: impl Fn(&str) -> bool) -> Vec<(usize, usize)> {
    let pointing = |name: &str, is_counted: &dyn Fn(Option<&str>) -> bool| {
        let all = fixture.view.vpas.iter();
        all.filter(|object| {
            object.object.spec.target_ref.name == name && is_counted(desired::owner(object))
        })
        .count()
    };
    let count = |controller: &Arc<Controller>| {
        let name = &controller.key.name;
        (
            pointing(name, &|owner| owner.is_none()),
            pointing(name, &|owner| owner.is_some_and(&is_usable)),
        )
    };
    let deployments = fixture.view.controllers(WellKnown::Deployment);
    deployments.map(count).collect()
}

proptest! {
    #[test]
    fn one_plan_settles_everything(
        tiers in vec(0..2_u8, 0..5),
        policies in vec((proptest::option::of(0..2_u8), any::<bool>(), 0..3_u8, any::<bool>(), proptest::bool::weighted(0.2)), 0..4),
        objects in vec((0..8_u8, 0..5_u8, 0..4_u8), 0..8),
    ) {
        let before = fixture(&tiers, &policies, &objects);
        let others = by_hand(&before);
        let plan = before.plan();
        let after = carry_out(before, plan);
        prop_assert_eq!(by_hand(&after), others);
        let again = after.plan();
        prop_assert!(again.writes.is_empty(), "{:?}", again.writes);
        let parsed: Vec<String> = (0..policies.len()).filter(|index| !policies[*index].4).map(|index| format!("p{index}")).collect();
        for (by_hand, ours) in counts(&after, |owner| parsed.iter().any(|parsed| parsed == owner)) {
            prop_assert!(ours <= usize::from(by_hand == 0), "{ours} beside {by_hand}");
        }
        for summary in &again.summaries {
            let counts = &summary.counts;
            let accounted = counts.managed + counts.conflicts + counts.overridden;
            prop_assert_eq!(counts.selected, accounted, "{}", summary.policy.key);
        }
    }
}
