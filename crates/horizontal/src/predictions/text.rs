//! Texts of tenants and stores, cut to a length at which they can be kept and repeated.

/// The most characters of a tenant's text that are repeated.
const MOST_QUOTED: usize = 100;

/// The first characters of a text.
pub fn cut(text: &str, most: usize) -> String {
    text.chars().take(most).collect()
}

/// A tenant's text in quotes, cut to 100 characters.
pub(super) fn quoted(text: &str) -> String {
    let short = cut(text, MOST_QUOTED);
    if short.len() < text.len() {
        format!("{short:?}...")
    } else {
        format!("{short:?}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_cut_between_characters() {
        assert_eq!(quoted("a \"b\""), r#""a \"b\"""#);
        assert_eq!(quoted(&"ä".repeat(100)), format!("\"{}\"", "ä".repeat(100)));
        assert_eq!(
            quoted(&"ä".repeat(101)),
            format!("\"{}\"...", "ä".repeat(100))
        );
        assert_eq!(cut("äöü", 2), "äö");
    }
}
