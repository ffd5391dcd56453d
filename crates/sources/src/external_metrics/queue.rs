//! Order of queries: round-robin over namespaces, so that the pods of one cannot delay those of
//! another.
//!
//! Within a namespace the least recently queried pods come first, and those that failed come last.
//! Namespaces whose next pod failed come after all others, and so do those with only failed pods. A
//! namespace with too many failures is skipped for the rest of the pass.

use std::collections::{BTreeMap, HashMap, VecDeque};

use super::PodQuery;

/// Concurrent queries for the pods of one namespace, while there are others.
pub(super) const NAMESPACE_CONCURRENCY: usize = 5;

/// Last complete query for a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct LastQuery {
    pub(super) failed: bool,
    pub(super) pass: u64,
}

pub(super) struct Queue<'a> {
    /// Namespaces in order of their turns.
    namespaces: VecDeque<Namespace<'a>>,
    max_failures: usize,
}

struct Namespace<'a> {
    name: &'a str,
    /// Indices of pods in the list.
    pods: VecDeque<usize>,
    /// Number of queries already taken for the first pod.
    taken: usize,
    /// Number of first pods queried before failed ones: those whose last query did not fail. Zero
    /// if every known pod failed.
    healthy: usize,
    running: usize,
    failures: usize,
}

impl<'a> Queue<'a> {
    /// `max_failures` is the number of failures after which the rest of a namespace is skipped.
    pub(super) fn new(
        pods: &'a [PodQuery],
        asked: &HashMap<PodQuery, LastQuery>,
        max_failures: usize,
    ) -> Self {
        let last = |pod: &usize| asked.get(&pods[*pod]);
        let mut by_name: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (place, pod) in pods.iter().enumerate() {
            by_name.entry(&pod.namespace).or_default().push(place);
        }
        let mut namespaces: Vec<_> = by_name.into_iter().collect();
        for (_, pods) in &mut namespaces {
            // Pods that were never queried come first.
            pods.sort_by_key(last);
        }
        namespaces.sort_by_key(|(_, pods)| pods.first().and_then(last));
        let namespaces = namespaces.into_iter().map(|(name, pods)| {
            let failed = pods
                .iter()
                .filter_map(last)
                .filter(|asked| asked.failed)
                .count();
            let has_answers =
                failed == 0 || pods.iter().filter_map(last).any(|asked| !asked.failed);
            let healthy = if has_answers { pods.len() - failed } else { 0 };
            Namespace {
                name,
                healthy,
                pods: pods.into(),
                taken: 0,
                running: 0,
                failures: 0,
            }
        });
        Self {
            namespaces: namespaces.collect(),
            max_failures,
        }
    }

    /// The next pod and query index; `questions` is the number of queries per pod.
    pub(super) fn next(&mut self, questions: usize) -> Option<(usize, usize)> {
        let max_failures = self.max_failures;
        let is_open =
            |it: &Namespace| !it.pods.is_empty() && it.failures + it.running < max_failures;
        let has_place = |it: &Namespace| is_open(it) && it.running < NAMESPACE_CONCURRENCY;
        let first = |fits: &dyn Fn(&Namespace) -> bool| self.namespaces.iter().position(fits);
        let place = first(&|it| has_place(it) && it.healthy > 0)
            .or_else(|| first(&has_place))
            .or_else(|| first(&is_open))?;
        let mut namespace = self.namespaces.remove(place)?;
        let found = namespace.pods.front().map(|pod| (*pod, namespace.taken));
        namespace.taken += 1;
        if namespace.taken >= questions {
            namespace.pods.pop_front();
            namespace.healthy = namespace.healthy.saturating_sub(1);
            namespace.taken = 0;
        }
        namespace.running += 1;
        self.namespaces.push_back(namespace);
        found
    }

    /// Records the result of a query in this namespace. Returns the namespace's failures so far.
    pub(super) fn answered(&mut self, namespace: &str, failed: bool) -> usize {
        let Some(namespace) = self.namespaces.iter_mut().find(|it| it.name == namespace) else {
            return 0;
        };
        namespace.running = namespace.running.saturating_sub(1);
        namespace.failures += usize::from(failed);
        namespace.failures
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pods(names: &[&str]) -> Vec<PodQuery> {
        let pod = |name: &&str| {
            let (namespace, pod) = name.split_once('/').expect("a namespace and a name");
            PodQuery::new(namespace, pod, &"app=web".parse().expect("a selector"))
        };
        names.iter().map(pod).collect()
    }

    /// `asked`: pods with the pass, and whether they failed. `answer` returns whether a query
    /// fails, or `None` if it hangs.
    fn check(
        names: &[&str],
        asked: &[(&str, u64, bool)],
        answer: impl Fn(&str) -> Option<bool>,
        expected: &[&str],
    ) {
        let all = pods(names);
        let asked = asked.iter().map(|&(name, pass, failed)| {
            let last = LastQuery { failed, pass };
            (pods(&[name]).remove(0), last)
        });
        let asked = asked.collect();
        let mut queue = Queue::new(&all, &asked, 3);
        let mut order = Vec::new();
        while let Some((pod, _)) = queue.next(1) {
            order.push(names[pod]);
            if let Some(failed) = answer(names[pod]) {
                queue.answered(&all[pod].namespace, failed);
            }
        }
        assert_eq!(order, expected);
    }

    /// The order of queries that do not fail.
    fn check_order(names: &[&str], asked: &[(&str, u64, bool)], expected: &[&str]) {
        check(names, asked, |_| Some(false), expected);
    }

    #[test]
    fn namespaces_have_their_turns() {
        let names = ["a/1", "a/2", "a/3", "b/1", "c/1", "c/2"];
        check_order(&names, &[], &["a/1", "b/1", "c/1", "a/2", "c/2", "a/3"]);
    }

    #[test]
    fn those_that_wait_longest_come_first_and_those_that_failed_come_last() {
        let names = ["a/1", "a/2", "a/3", "b/1", "b/2"];
        let asked = [("a/1", 2, false), ("a/2", 1, false), ("b/1", 1, true)];
        check_order(&names, &asked, &["a/3", "a/2", "a/1", "b/2", "b/1"]);
        let asked = [
            ("a/1", 1, true),
            ("a/2", 2, true),
            ("a/3", 3, false),
            ("b/1", 1, false),
            ("b/2", 2, false),
        ];
        check_order(&names, &asked, &["b/1", "a/3", "b/2", "a/1", "a/2"]);
    }

    #[test]
    fn one_pod_that_failed_does_not_make_the_others_of_its_namespace_come_last() {
        let names = ["a/1", "a/2", "a/3", "b/1", "b/2", "b/3"];
        let asked = [
            ("a/1", 1, true),
            ("a/2", 1, false),
            ("b/1", 1, false),
            ("b/2", 1, false),
            ("b/3", 1, false),
        ];
        check_order(&names, &asked, &["a/3", "b/1", "a/2", "b/2", "b/3", "a/1"]);
    }

    #[test]
    fn a_namespace_whose_questions_fail_is_left_alone() {
        let names = ["a/1", "a/2", "a/3", "a/4", "a/5", "b/1", "b/2"];
        let order = ["a/1", "b/1", "a/2", "b/2", "a/3"];
        check(&names, &[], |name| Some(name.starts_with('a')), &order);
    }

    #[test]
    fn hanging_queries_of_a_namespace_leave_slots_to_others() {
        let all: Vec<_> = (0..9)
            .flat_map(|number| [format!("a/{number}"), format!("b/{number}")])
            .collect();
        let all = pods(&all.iter().map(String::as_str).collect::<Vec<_>>());
        let mut queue = Queue::new(&all, &HashMap::new(), 100);
        let (mut hanging, mut answered) = (0, 0);
        for _ in 0..14 {
            let (pod, question) = queue.next(1).expect("there are more");
            assert_eq!(question, 0);
            match all[pod].namespace.as_str() {
                "a" => hanging += 1,
                other => {
                    answered += 1;
                    queue.answered(other, false);
                }
            }
        }
        assert_eq!((hanging, answered), (5, 9));
        assert!(queue.next(1).is_some(), "no other namespace waits by now");
    }

    #[test]
    fn the_questions_of_a_pod_follow_each_other() {
        let all = pods(&["a/1", "a/2"]);
        let mut queue = Queue::new(&all, &HashMap::new(), 3);
        let order = std::iter::from_fn(|| {
            let next = queue.next(2);
            queue.answered("a", false);
            next
        });
        let order: Vec<_> = order.collect();
        assert_eq!(order, [(0, 0), (0, 1), (1, 0), (1, 1)]);
    }
}
