//! Labels and elements that screen readers need.

use anyhow::{Result, ensure};

/// Checks the elements that screen readers need.
pub(super) fn check_labels(page: &str) -> Result<()> {
    for text in ["<html lang=\"en\">", "<title>", "<main>", "<h1>"] {
        ensure!(page.contains(text), "{text} is missing in {page}");
    }
    for (element, needed) in [
        ("<svg", "aria-label=\""),
        ("<svg", "role=\"img\""),
        ("<th ", "scope=\"col\""),
        ("<nav", "aria-label=\""),
    ] {
        for part in page.split(element).skip(1) {
            let tag = part.split('>').next().unwrap_or_default();
            ensure!(tag.contains(needed), "{element}{tag} has no {needed}");
        }
    }
    let inputs = page.matches("<input").count() - page.matches("type=\"hidden\"").count();
    ensure!(
        inputs == page.matches("<label>").count(),
        "an input has no label: {page}"
    );
    Ok(())
}
