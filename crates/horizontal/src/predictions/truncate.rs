//! Truncation of texts of tenants and stores.

/// Maximum length of a quoted text, in characters.
const MAX_QUOTED: usize = 100;

pub fn truncate(text: &str, most: usize) -> String {
    text.chars().take(most).collect()
}

pub(super) fn quoted(text: &str) -> String {
    let short = truncate(text, MAX_QUOTED);
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
        let cut = format!("\"{}\"...", "ä".repeat(100));
        assert_eq!(quoted(&"ä".repeat(101)), cut);
        assert_eq!(truncate("äöü", 2), "äö");
    }
}
