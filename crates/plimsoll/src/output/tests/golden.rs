//! Golden files in `tests/golden`; `UPDATE_GOLDEN=1 cargo test -p plimsoll` writes them.

use std::path::Path;

use crate::output::{Document, Format, OutputArgs, render};

#[track_caller]
pub(crate) fn check(name: &str, text: &str) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let path = folder.join(name);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, text).expect("a written file");
    }
    let expected = std::fs::read_to_string(&path).expect(name);
    assert!(
        text == expected,
        "the output differs from {}",
        path.display()
    );
}

#[track_caller]
pub(crate) fn check_forms(name: &str, document: &Document) {
    for (output, ending) in [
        (Format::Table, "txt"),
        (Format::Json, "json"),
        (Format::Yaml, "yaml"),
        (Format::Csv, "csv"),
        (Format::Md, "md"),
        (Format::Html, "html"),
    ] {
        check_form(name, document, output, ending);
    }
}

#[track_caller]
pub(crate) fn check_form(name: &str, document: &Document, output: Format, ending: &str) {
    let args = OutputArgs {
        output,
        no_color: true,
    };
    let text = render(document, &args, None).expect("a text");
    check(&format!("{name}.{ending}"), &text);
}
