//! Text of an error and its causes, without repetitions, shortened: it may quote a whole answer.

use std::error::Error;

const MAX_CHARACTERS: usize = 1000;

/// The text of an error followed by its causes, at most 1,000 characters.
pub fn with_causes(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = error.source();
    }
    if let Some((end, _)) = text.char_indices().nth(MAX_CHARACTERS) {
        text.truncate(end);
    }
    text
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{text}")]
    struct Outer {
        text: &'static str,
        source: io::Error,
    }

    fn check(text: &'static str, cause: &str, expected: &str) {
        assert_eq!(
            with_causes(&Outer {
                text,
                source: io::Error::other(cause)
            }),
            expected
        );
    }

    #[test]
    fn causes_are_added_unless_the_error_contains_them() {
        check("no answer", "it is down", "no answer: it is down");
        check(
            "no answer: it is down",
            "it is down",
            "no answer: it is down",
        );
    }

    #[test]
    fn a_long_text_is_shortened() {
        let expected = format!("no answer: {}", "ü".repeat(989));
        check("no answer", &"ü".repeat(5000), &expected);
    }
}
