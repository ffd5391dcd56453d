//! The objects of a cluster: given ones, or the largest that a tenant can write of each kind. What is
//! in etcd is at most 1.5 MB of each.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

/// Bytes of the large part of an object.
const LARGE: usize = 1_400_000;
/// The API server takes annotations of this size together.
const ANNOTATIONS: usize = 250_000;
/// Points of a prediction: as many as the recommender itself writes.
const POINTS: usize = 10_000;
/// Tenants whose objects these are.
const NAMESPACES: usize = 2;
/// Kinds of the cluster, which no tenant writes, are small and few.
const OF_THE_CLUSTER: [&str; 3] = ["nodes", "namespaces", "clustersizingpolicies"];

pub(crate) enum Population {
    /// This number of large objects of each kind that tenants write, or of one kind.
    Large(usize, Option<&'static str>),
    /// Objects by the plural of their kind, and the usage of all pods.
    Given(BTreeMap<&'static str, Vec<Value>>),
}

impl Population {
    pub(crate) fn count(&self, plural: &str) -> usize {
        match self {
            Self::Large(objects, only) if is_known(plural) => match only {
                Some(only) if *only != plural => 0,
                _ => count(plural, *objects),
            },
            Self::Large(..) => 0,
            Self::Given(objects) => objects.get(plural).map_or(0, Vec::len),
        }
    }

    /// The parts of an object's text.
    pub(crate) fn object(&self, plural: &str, number: usize) -> Vec<String> {
        match self {
            Self::Large(..) => object(plural, number),
            Self::Given(objects) => vec![objects[plural][number].to_string()],
        }
    }

    /// The answer of a metrics server.
    pub(crate) fn usage(&self) -> Value {
        let pods = match self {
            Self::Large(..) => &[],
            Self::Given(objects) => objects.get("pods").map_or(&[][..], Vec::as_slice),
        };
        let now = format!("{:.0}", Timestamp::now());
        let items = pods.iter().map(|pod| {
            let containers = pod["spec"]["containers"].as_array().into_iter().flatten();
            let usage = json!({"cpu": "200m", "memory": "100Mi"});
            let usage = containers.map(|one| json!({"name": one["name"], "usage": usage}));
            let (name, namespace) = (&pod["metadata"]["name"], &pod["metadata"]["namespace"]);
            json!({
                "metadata": {"name": name, "namespace": namespace}, "timestamp": now, "window": "15s",
                "containers": usage.collect::<Vec<_>>(),
            })
        });
        let items: Vec<_> = items.collect();
        json!({"kind": "PodMetricsList", "metadata": {}, "items": items})
    }
}

/// Repeats `one` up to a size; `#` in it is a number.
fn repeated(one: &str, bytes: usize) -> String {
    let mut all = String::with_capacity(bytes + 100);
    for number in 0.. {
        if all.len() >= bytes {
            break;
        }
        if number > 0 {
            all.push(',');
        }
        all.push_str(&one.replace('#', &number.to_string()));
    }
    all
}

fn annotations(bytes: usize) -> String {
    format!(
        r#""annotations":{{{}}}"#,
        repeated(r#""plimsoll.dev/a#":"""#, bytes)
    )
}

static ANNOTATION: LazyLock<String> = LazyLock::new(|| annotations(ANNOTATIONS));
/// Not too large for one object, but for many.
static FEWER: LazyLock<String> = LazyLock::new(|| annotations(ANNOTATIONS / 3));
static POD_SPEC: LazyLock<String> = LazyLock::new(|| {
    let env = repeated(r#"{"name":"A#","value":"b"}"#, LARGE);
    format!(r#"{{"containers":[{{"name":"a","image":"b","env":[{env}]}}]}}"#)
});
static MANY_CONTAINERS: LazyLock<String> = LazyLock::new(|| {
    format!(
        r#"{{"containers":[{}]}}"#,
        repeated(r#"{"name":"a#","image":"b"}"#, LARGE)
    )
});
static LABELS: LazyLock<String> = LazyLock::new(|| repeated(r#""l#":"""#, LARGE));
static VALUES: LazyLock<String> = LazyLock::new(|| repeated(r#""v#""#, LARGE));
static POLICIES: LazyLock<String> = LazyLock::new(|| repeated(r#"{"containerName":"c#"}"#, LARGE));
static BUCKETS: LazyLock<String> = LazyLock::new(|| repeated(r##""#":1"##, LARGE));
static DATA: LazyLock<String> = LazyLock::new(|| "x".repeat(LARGE));
static METRICS: LazyLock<String> = LazyLock::new(|| {
    repeated(
        r#"{"type":"Resource","resource":{"name":"cpu","target":{"type":"Utilization"}}}"#,
        LARGE,
    )
});
static LIMITS: LazyLock<String> = LazyLock::new(|| repeated(r#"{"type":"Container"}"#, LARGE));
static QUANTITIES: LazyLock<String> = LazyLock::new(|| repeated(r#""r#":"1""#, LARGE));
static SAMPLES: LazyLock<String> = LazyLock::new(|| {
    let sample = |number: usize| {
        format!(
            r#"{{"value":"{number}.00000","timestamp":{}}}"#,
            1_700_000_000 + 60 * number
        )
    };
    (0..POINTS).map(sample).collect::<Vec<_>>().join(",")
});

/// The fields after the metadata, and whether labels rather than annotations are large.
fn rest(plural: &str, number: usize) -> Option<(bool, Vec<&'static str>)> {
    let (selector, template) = (
        r#","spec":{"selector":{"matchLabels":{"app":"a"}},"replicas":0,"template":{"spec":"#,
        "}}",
    );
    // Some of them are large where it is read.
    let is_odd = number % 2 == 1;
    let labels = (is_odd, vec![selector, "{}", template]);
    let target = r#","spec":{"targetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"a"}"#;
    let scaled = r#","spec":{"scaleTargetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"a"},"maxReplicas":3"#;
    let rest = match plural {
        "deployments" | "replicasets" | "statefulsets" | "daemonsets" | "jobs" if is_odd => {
            let spec: &'static [&'static str] = &[
                r#","spec":{"template":{},"selector":{"matchExpressions":[{"key":"a","operator":"In","values":["#,
            ];
            if number % 4 == 1 {
                return Some(labels);
            }
            vec![spec[0], &VALUES, "]}]}}"]
        }
        "deployments"
        | "replicasets"
        | "statefulsets"
        | "daemonsets"
        | "jobs"
        | "replicationcontrollers" => {
            vec![
                if plural == "replicationcontrollers" {
                    r#","spec":{"replicas":0,"template":{"spec":"#
                } else {
                    selector
                },
                &POD_SPEC,
                template,
            ]
        }
        "cronjobs" => vec![
            r#","spec":{"schedule":"* * * * *","suspend":true,"jobTemplate":{"spec":{"template":{"spec":"#,
            &POD_SPEC,
            "}}}}",
        ],
        "pods" if number % 4 == 1 => {
            return Some((
                true,
                vec![r#","spec":{"containers":[]},"status":{"phase":"Running"}"#],
            ));
        }
        "pods" if is_odd => vec![r#","status":{"phase":"Running"},"spec":"#, &MANY_CONTAINERS],
        "pods" => vec![r#","status":{"phase":"Running"},"spec":"#, &POD_SPEC],
        "events" => vec![
            r#","reason":"Evicted","involvedObject":{"kind":"Pod","namespace":"t0","name":"a"},"message":""#,
            &DATA,
            "\"",
        ],
        "verticalpodautoscalers" if is_odd => {
            vec![
                target,
                r#","resourcePolicy":{"containerPolicies":["#,
                &POLICIES,
                "]}}",
            ]
        }
        "verticalpodautoscalers" => vec![target, "}"],
        "verticalpodautoscalercheckpoints" => {
            vec![
                r#","spec":{"vpaObjectName":"a","containerName":"a"},"status":{"cpuHistogram":{"bucketWeights":{"#,
                &BUCKETS,
                "}}}",
            ]
        }
        "horizontalpodautoscalers" if is_odd => vec![scaled, r#","metrics":["#, &METRICS, "]}"],
        "horizontalpodautoscalers" | "effectivehorizontalpodautoscalers" => vec![scaled, "}"],
        "substitutes" => {
            vec![r#","spec":{"substituteTargetRef":{"kind":"Deployment","name":"a"}}"#]
        }
        "timeseriespredictions" => vec![
            r#","spec":{"targetRef":{"kind":"Deployment","name":"a"},"predictionWindowSeconds":3600,"predictionMetrics":[]},"status":{"predictionMetrics":[{"resourceIdentifier":"a","ready":true,"prediction":[{"samples":["#,
            &SAMPLES,
            "]}]}]}",
        ],
        "limitranges" => vec![r#","spec":{"limits":["#, &LIMITS, "]}"],
        "resourcequotas" => vec![r#","spec":{"hard":{"#, &QUANTITIES, "}}"],
        "poddisruptionbudgets" => {
            vec![
                r#","spec":{"selector":{"matchExpressions":[{"key":"a","operator":"In","values":["#,
                &VALUES,
                "]}]}}",
            ]
        }
        "configmaps" => vec![r#","data":{"a":""#, &DATA, "\"}"],
        "leases" => vec![r#","spec":{"holderIdentity":""#, &DATA, "\"}"],
        "sizingpolicies" => vec![r#","spec":{"kinds":["Job"]}"#],
        "nodes" | "namespaces" => vec![""],
        "clustersizingpolicies" => {
            vec![r#","spec":{"namespaceSelector":{"matchLabels":{"a":"b"}},"kinds":["Job"]}"#]
        }
        _ => return None,
    };
    Some((false, rest))
}

/// Whether objects of this kind are known.
pub(crate) fn is_known(plural: &str) -> bool {
    rest(plural, 0).is_some()
}

/// Number of objects of a kind, for this number of each kind that tenants write.
fn count(plural: &str, objects: usize) -> usize {
    match plural {
        _ if OF_THE_CLUSTER.contains(&plural) => objects.min(10),
        // One is asked for, by its name.
        "configmaps" => 1,
        _ => objects,
    }
}

fn object(plural: &str, number: usize) -> Vec<String> {
    let (is_labelled, rest) = rest(plural, number).expect("a known kind");
    let namespace = if OF_THE_CLUSTER.contains(&plural) {
        String::new()
    } else {
        format!(r#""namespace":"t{}","#, number % NAMESPACES)
    };
    let large: &str = match is_labelled {
        _ if OF_THE_CLUSTER.contains(&plural) => r#""labels":{}"#,
        true => return labelled(&namespace, number, &rest),
        false if number.is_multiple_of(3) => &FEWER,
        false => &ANNOTATION,
    };
    let head = format!(
        r#"{{"metadata":{{{namespace}"name":"o{number:05}","uid":"u{number}","resourceVersion":"1","creationTimestamp":"2026-01-01T00:00:00Z",{large}}}"#
    );
    std::iter::once(head)
        .chain(rest.into_iter().map(str::to_owned))
        .chain(["}".to_owned()])
        .collect()
}

fn labelled(namespace: &str, number: usize, rest: &[&str]) -> Vec<String> {
    let head = format!(
        r#"{{"metadata":{{{namespace}"name":"o{number:05}","uid":"u{number}","resourceVersion":"1","labels":{{{}}}}}"#,
        LABELS.as_str()
    );
    std::iter::once(head)
        .chain(rest.iter().map(|part| (*part).to_owned()))
        .chain(["}".to_owned()])
        .collect()
}
