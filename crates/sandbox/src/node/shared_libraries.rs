//! Shared libraries that a program needs to start.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

/// Paths of the libraries and of the dynamic loader, as `ldd` finds them on this machine; none for
/// a statically linked program.
pub(crate) fn shared_libraries(program: &Path) -> Result<Vec<PathBuf>> {
    let output = Command::new("ldd")
        .arg(program)
        .env("LC_ALL", "C")
        .output()
        .context("run `ldd`")?;
    let errors = String::from_utf8_lossy(&output.stderr);
    if errors.contains("not a dynamic executable") {
        return Ok(Vec::new());
    }
    let name = program.display();
    ensure!(
        output.status.success(),
        "`ldd {name}` failed: {}",
        errors.trim()
    );
    paths(&String::from_utf8_lossy(&output.stdout)).with_context(|| format!("libraries of {name}"))
}

/// Parses lines `NAME => PATH (ADDRESS)`, `PATH (ADDRESS)` and those without a path.
fn paths(output: &str) -> Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for line in output.lines().map(str::trim) {
        ensure!(!line.ends_with("=> not found"), "{line}");
        let target = line.split_once(" => ").map_or(line, |(_, target)| target);
        let path = target.rsplit_once(" (").map_or(target, |(path, _)| path);
        if path.starts_with('/') {
            paths.push(PathBuf::from(path));
        }
    }
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(output: &str, expected: &[&str]) {
        let expected: Vec<_> = expected.iter().map(PathBuf::from).collect();
        assert_eq!(paths(output).expect("all are found"), expected);
    }

    #[test]
    fn paths_are_those_that_ldd_prints() {
        check(
            "\tlinux-vdso.so.1 (0x00007fcae075b000)\n\
             \tlibgcc_s.so.1 => /lib/x86_64-linux-gnu/libgcc_s.so.1 (0x00007fcae072a000)\n\
             \tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007fcadc13e000)\n\
             \t/lib64/ld-linux-x86-64.so.2 (0x00007fcae075d000)\n",
            &[
                "/lib/x86_64-linux-gnu/libgcc_s.so.1",
                "/lib/x86_64-linux-gnu/libc.so.6",
                "/lib64/ld-linux-x86-64.so.2",
            ],
        );
        check("\tstatically linked\n", &[]);
    }

    #[test]
    fn a_missing_library_is_an_error() {
        let error = paths("\tlibssl.so.3 => not found\n").expect_err("it is missing");
        assert!(error.to_string().contains("libssl.so.3"), "{error}");
    }
}
