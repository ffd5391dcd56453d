//! The namespaces that a program handles, and their turns.
//!
//! Each namespace belongs to one of `count` shards. Its name is hashed with FNV-1a (64 bits), and the
//! hash is placed by jump consistent hashing (Lamping and Veach, "A Fast, Minimal Memory, Consistent
//! Hash Algorithm", 2014), in integer arithmetic so that every machine gives the same result. From `n`
//! to `n + 1` shards one namespace in `n + 1` moves, and always to the new shard.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::num::NonZeroU16;
use std::str::FromStr;

use model::fnv1a;

use crate::table::ObjectKey;

/// One namespace or all, without the ignored ones and those of other shards.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Scope {
    /// The only watched namespace; `None` for all.
    pub namespace: Option<String>,
    pub ignored: BTreeSet<String>,
    /// Shard of this process; namespaces of other shards are ignored.
    pub shard: Shard,
}

impl Scope {
    /// Whether objects of this namespace count. Cluster-scoped ones count in every shard.
    pub fn includes(&self, namespace: &str) -> bool {
        let is_wanted = self
            .namespace
            .as_deref()
            .is_none_or(|only| only == namespace);
        let is_ours = namespace.is_empty() || self.shard.includes(namespace);
        is_wanted && is_ours && !self.ignored.contains(namespace)
    }
}

/// Upper bound of the number of shards.
const MAX_COUNT: u16 = 256;

/// One of `count` shards, counted from zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shard {
    index: u16,
    count: NonZeroU16,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ShardError {
    #[error("expected INDEX/COUNT, such as 0/2 and 1/2")]
    Form,
    #[error("there must be 1 to {MAX_COUNT} shards")]
    Count,
    #[error("shards are counted from zero: the last of {0} is {last}/{0}", last = .0 - 1)]
    Index(u16),
}

impl Default for Shard {
    fn default() -> Self {
        Self {
            index: 0,
            count: NonZeroU16::MIN,
        }
    }
}

/// Parses `INDEX/COUNT`.
impl FromStr for Shard {
    type Err = ShardError;

    fn from_str(text: &str) -> Result<Self, ShardError> {
        let number = |text: &str| text.parse::<u16>().map_err(|_| ShardError::Form);
        let (index, count) = text.split_once('/').ok_or(ShardError::Form)?;
        let (index, count) = (number(index)?, number(count)?);
        if count > MAX_COUNT {
            return Err(ShardError::Count);
        }
        let size = NonZeroU16::new(count).ok_or(ShardError::Count)?;
        if index < count {
            Ok(Self { index, count: size })
        } else {
            Err(ShardError::Index(count))
        }
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.index, self.count)
    }
}

impl Shard {
    /// Index, from zero.
    pub fn index(self) -> u16 {
        self.index
    }

    pub fn count(self) -> u16 {
        self.count.get()
    }

    /// Whether there is a single shard.
    pub fn is_whole(self) -> bool {
        self.count.get() == 1
    }

    pub fn includes(self, namespace: &str) -> bool {
        self.is_whole() || place(fnv1a(namespace.as_bytes()), self.count) == self.index
    }
}

/// Jump consistent hash. Replays the growth from one shard to `count`: each random number gives the
/// number of shards at which the key moves next.
fn place(hash: u64, count: NonZeroU16) -> u16 {
    const STEP: u64 = 2_862_933_555_777_941_757;
    let (mut random, mut place, mut next) = (hash, 0, 0);
    while next < u64::from(count.get()) {
        place = next;
        random = random.wrapping_mul(STEP).wrapping_add(1);
        next = ((place + 1) << 31) / ((random >> 33) + 1);
    }
    place as u16
}

/// The first object of each namespace, then the second of each, and so on; each in its order.
pub fn interleave_namespaces<T>(objects: Vec<T>, key: impl Fn(&T) -> &ObjectKey) -> Vec<T> {
    let mut counts: HashMap<String, usize> = HashMap::new();
    let mut ranked = Vec::with_capacity(objects.len());
    for object in objects {
        let count = counts.entry(key(&object).namespace.clone()).or_default();
        *count += 1;
        ranked.push((*count, object));
    }
    ranked.sort_by_key(|(rank, _)| *rank);
    ranked.into_iter().map(|(_, object)| object).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_scope(only: Option<&str>, ignored: &[&str], namespace: &str, expected: bool) {
        let scope = Scope {
            namespace: only.map(str::to_owned),
            ignored: ignored.iter().map(|&ignored| ignored.to_owned()).collect(),
            ..Scope::default()
        };
        assert_eq!(scope.includes(namespace), expected, "{scope:?} {namespace}");
    }

    #[test]
    fn one_namespace_excludes_the_others() {
        check_scope(None, &[], "a", true);
        check_scope(Some("a"), &[], "a", true);
        check_scope(Some("a"), &[], "b", false);
    }

    #[test]
    fn ignored_namespaces_do_not_count() {
        check_scope(None, &["a"], "a", false);
        check_scope(None, &["a"], "b", true);
    }

    #[test]
    fn namespaces_of_other_shards_do_not_count() {
        let scope = |shard: &str| Scope {
            shard: shard.parse().expect(shard),
            ..Scope::default()
        };
        assert!(scope("0/2").includes("shop") && !scope("1/2").includes("shop"));
        assert!(!scope("0/2").includes("mail") && scope("1/2").includes("mail"));
        assert!(scope("0/2").includes("") && scope("1/2").includes(""));
        let both = Scope {
            ignored: ["shop".to_owned()].into(),
            ..scope("0/2")
        };
        assert!(!both.includes("shop") && !both.includes("mail"));
    }

    fn owner(namespace: &str, count: u16) -> u16 {
        let owners = (0..count).filter(|index| shard(*index, count).includes(namespace));
        let owners: Vec<_> = owners.collect();
        let [owner] = owners[..] else {
            panic!("{namespace} belongs to {owners:?} of {count}")
        };
        owner
    }

    fn shard(index: u16, count: u16) -> Shard {
        format!("{index}/{count}").parse().expect("a shard")
    }

    fn names() -> impl Iterator<Item = String> {
        (0..10_000).map(|number| format!("team-{number}"))
    }

    /// Checks the shard of a namespace among 1, 2, 3, 4, 8, 16 and 256. These must never change:
    /// recommenders and their history are divided by them.
    fn check(namespace: &str, expected: [u16; 7]) {
        let found = [1, 2, 3, 4, 8, 16, 256].map(|count| owner(namespace, count));
        assert_eq!(found, expected, "{namespace}");
    }

    #[test]
    fn the_shard_of_a_namespace_never_changes() {
        check("default", [0, 0, 2, 3, 4, 4, 48]);
        check("kube-system", [0, 1, 1, 1, 1, 15, 179]);
        check("shop", [0, 0, 0, 0, 7, 11, 132]);
        check("search", [0, 0, 0, 0, 7, 7, 182]);
        check("billing", [0, 1, 2, 2, 2, 12, 202]);
        check("mail", [0, 1, 1, 1, 5, 5, 5]);
        check("bow", [0, 1, 2, 3, 4, 4, 254]);
        check(&"x".repeat(63), [0, 1, 1, 1, 4, 11, 122]);
    }

    #[test]
    fn shards_are_of_like_size() {
        for count in [2, 3, 5, 16] {
            let mut sizes = vec![0; usize::from(count)];
            names().for_each(|name| sizes[usize::from(owner(&name, count))] += 1);
            let mean = 10_000 / i32::from(count);
            let is_like = |size: &i32| (size - mean).abs() * 5 < mean;
            assert!(sizes.iter().all(is_like), "{sizes:?}");
        }
    }

    #[test]
    fn one_more_shard_takes_its_share_and_moves_nothing_else() {
        for count in [1, 2, 7] {
            let mut moved = 0;
            for name in names() {
                let (before, after) = (owner(&name, count), owner(&name, count + 1));
                assert!(
                    [before, count].contains(&after),
                    "{name} moved from {before} to {after}"
                );
                moved += u32::from(after != before);
            }
            let share = 10_000 / u32::from(count + 1);
            assert!(
                moved.abs_diff(share) * 10 < share,
                "{moved} of 10000 moved from {count}"
            );
        }
    }

    #[test]
    fn a_shard_is_written_as_its_number_from_zero_and_how_many_there_are() {
        for text in ["0/1", "0/2", "1/2", "255/256"] {
            let shard: Shard = text.parse().expect("a shard");
            assert_eq!(shard.to_string(), text);
        }
        assert_eq!("0/1".parse(), Ok(Shard::default()));
        for (text, expected) in [
            ("", ShardError::Form),
            ("1", ShardError::Form),
            ("a/b", ShardError::Form),
            ("-1/2", ShardError::Form),
            ("1/2/3", ShardError::Form),
            ("0/0", ShardError::Count),
            ("0/257", ShardError::Count),
            ("2/2", ShardError::Index(2)),
        ] {
            assert_eq!(text.parse::<Shard>(), Err(expected), "{text}");
        }
        let message = "shards are counted from zero: the last of 2 is 1/2";
        assert_eq!(ShardError::Index(2).to_string(), message);
    }

    #[test]
    fn namespaces_alternate_and_keep_their_order() {
        let many = (0..1000).map(|number| ("a", number));
        let objects = many.chain([("b", 7), ("c", 5), ("b", 3)]);
        let objects = objects.map(|(namespace, name)| ObjectKey::new(namespace, name.to_string()));
        let found = interleave_namespaces(objects.collect(), |key| key);
        let found: Vec<_> = found.iter().map(ToString::to_string).collect();
        let (first, rest) = found.split_at(5);
        assert_eq!(first, ["a/0", "b/7", "c/5", "a/1", "b/3"]);
        let others = (2..1000).map(|number| format!("a/{number}"));
        assert_eq!(rest, others.collect::<Vec<_>>());
    }
}
