//! Text of an error and its causes, without repetitions.

use std::error::Error;

/// The text of an error followed by its causes.
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
}
