//! Labels and elements that screen readers need.

use anyhow::{Result, ensure};

/// Checks the elements that screen readers need.
pub(super) fn check_labels(page: &str) -> Result<()> {
    for text in ["<html lang=\"en\">", "<title>", "<main>", "<h1>"] {
        ensure!(page.contains(text), "{text} is missing in {page}");
    }
    for (element, needed) in [("<th ", "scope=\""), ("<nav", "aria-label=\"")] {
        for part in page.split(element).skip(1) {
            let tag = part.split('>').next().unwrap_or_default();
            ensure!(tag.contains(needed), "{element}{tag} has no {needed}");
        }
    }
    for part in page.split("<svg").skip(1) {
        let tag = part.split('>').next().unwrap_or_default();
        let is_named = tag.contains("role=\"img\"") && tag.contains("aria-label=\"");
        ensure!(
            is_named || tag.contains("aria-hidden=\"true\""),
            "<svg{tag} has no name"
        );
    }
    let inputs = page.matches("<input").count() - page.matches("type=\"hidden\"").count();
    ensure!(
        inputs == page.matches("<label>").count(),
        "an input has no label: {page}"
    );
    Ok(())
}
