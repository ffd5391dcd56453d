//! The Go toolchain that builds the control plane, or one sentence about what to install.

use std::io::ErrorKind;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

/// Checks that `go`, run in the folder of a `go.mod`, is new enough for it. Go may download a newer
/// toolchain by itself.
pub(crate) fn check(module: &Path, go_mod: &str) -> Result<()> {
    let wanted = wanted_version(go_mod).context("the go.mod names no Go version")?;
    let output = match Command::new("go")
        .args(["env", "GOVERSION"])
        .current_dir(module)
        .env("GOWORK", "off")
        .output()
    {
        Ok(output) => output,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            bail!(
                "the sandbox builds its control plane with Go: install Go {wanted} or newer from https://go.dev/dl and have `go` in PATH"
            )
        }
        Err(error) => return Err(error).context("run `go env GOVERSION`"),
    };
    let found = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    if !output.status.success() || !is_at_least(&found, wanted) {
        let found = if found.is_empty() {
            String::from_utf8_lossy(&output.stderr).trim().to_owned()
        } else {
            found
        };
        bail!(
            "the Go toolchain is too old ({found}): install Go {wanted} or newer from https://go.dev/dl and have `go` in PATH"
        );
    }
    Ok(())
}

fn wanted_version(go_mod: &str) -> Option<&str> {
    go_mod
        .lines()
        .find_map(|line| line.strip_prefix("go "))
        .map(str::trim)
}

fn is_at_least(found: &str, wanted: &str) -> bool {
    match (parts(found.trim_start_matches("go")), parts(wanted)) {
        (Some(found), Some(wanted)) => found >= wanted,
        // Development versions of Go ("devel ...") are newer than any release.
        (None, _) => found.starts_with("devel"),
        (_, None) => false,
    }
}

/// Parses `1.26.4`, `1.26`, `1.26rc1` and `1.26.4-vendor`.
fn parts(version: &str) -> Option<[u32; 3]> {
    let mut parts = [0; 3];
    for (part, text) in parts.iter_mut().zip(version.split('.')) {
        let digits = text
            .find(|letter: char| !letter.is_ascii_digit())
            .map_or(text, |end| &text[..end]);
        *part = digits.parse().ok()?;
    }
    Some(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(found: &str, enough: bool) {
        assert_eq!(is_at_least(found, "1.26.4"), enough, "{found}");
    }

    #[test]
    fn versions_compare_by_number() {
        check("go1.26.4", true);
        check("go1.26.10", true);
        check("go1.27rc1", true);
        check("go1.100", true);
        check("go1.26.8 X:nodwarf5", true);
        check("devel go1.28-abcdef", true);
        check("go1.26.3", false);
        check("go1.9.9", false);
        check("", false);
    }

    #[test]
    fn the_wanted_version_is_the_go_line() {
        assert_eq!(
            wanted_version("module m\n\ngo 1.26.4\n\ntoolchain go1.27.0\n"),
            Some("1.26.4")
        );
    }
}
