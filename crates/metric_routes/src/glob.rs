//! Name patterns: `*` matches any text, the empty one too, and `?` one character.

use serde::Deserialize;

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub(super) struct Glob(pub(super) String);

impl Glob {
    /// Whether the pattern matches the whole name. The time is at most proportional to the product
    /// of their lengths.
    pub(super) fn matches(&self, name: &str) -> bool {
        let (mut pattern, mut name) = (self.0.chars(), name.chars());
        // The state to resume from if the text matched by the last star is too short.
        let mut retry = None;
        loop {
            let rest = name.clone();
            match (pattern.next(), name.next()) {
                (None, None) => return true,
                (Some('*'), _) => {
                    name = rest;
                    retry = Some((pattern.clone(), name.clone()));
                }
                (Some('?'), Some(_)) => {}
                (Some(one), Some(other)) if one == other => {}
                (_, _) => {
                    let Some((after_star, mut taken)) = retry.take() else {
                        return false;
                    };
                    if taken.next().is_none() {
                        return false;
                    }
                    retry = Some((after_star.clone(), taken.clone()));
                    (pattern, name) = (after_star, taken);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(pattern: &str, name: &str, expected: bool) {
        assert_eq!(
            Glob(pattern.to_owned()).matches(name),
            expected,
            "{pattern} and {name}"
        );
    }

    #[test]
    fn a_star_matches_any_text() {
        check("queue", "queue", true);
        check("queue", "queues", false);
        check("*", "", true);
        check("*", "anything", true);
        check("s*-kafka-*", "s0-kafka-orders", true);
        check("s*-kafka-*", "s0-redis-orders", false);
        check("*-kafka", "a-kafka-kafka", true);
        check("*-kafka", "a-kafka-redis", false);
        check("datadogmetric@*", "datadogmetric@shop:queue", true);
        check("a*b*c", "aXXbYYbZc", true);
        check("a**", "a", true);
        check("", "a", false);
    }

    #[test]
    fn a_question_mark_matches_one_character() {
        check("s?-cron", "s1-cron", true);
        check("s?-cron", "s-cron", false);
        check("?", "é", true);
    }

    #[test]
    fn a_hostile_pattern_takes_bounded_time() {
        check(&"a*".repeat(100), &"a".repeat(10_000), true);
        check(&("a*".repeat(100) + "b"), &"a".repeat(10_000), false);
    }
}
