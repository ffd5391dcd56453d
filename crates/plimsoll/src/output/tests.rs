//! All forms of a document.

pub(crate) mod golden;

use serde_json::json;

use super::*;

fn document() -> Document {
    let row = |cells: [&str; 2], severity| Row {
        cells: cells.map(str::to_owned).to_vec(),
        severity,
        link: None,
    };
    Document {
        title: "Sizes".to_owned(),
        tables: vec![Table {
            title: "Containers".to_owned(),
            columns: vec!["name", " cpu"],
            rows: vec![
                row(["<script>", "1"], Some(Severity::Critical)),
                row(["a|b,c", "250m"], None),
            ],
        }],
        notes: vec!["One note.".to_owned()],
        data: json!({"containers": []}),
    }
}

fn check(output: Format, expected: &str) {
    let args = OutputArgs {
        output,
        no_color: true,
    };
    let text = render(&document(), &args, None).expect("a text");
    assert_eq!(text, expected);
}

#[test]
fn every_form_has_all_rows() {
    check(
        Format::Table,
        "Containers\nNAME       CPU\n<script>     1\na|b,c     250m\n\nOne note.\n",
    );
    check(
        Format::Md,
        "### Containers\n\n| name | cpu |\n|---|--:|\n| &lt;script> | 1 |\n| a\\|b,c | 250m |\n\nOne note.\n",
    );
    check(Format::Csv, "name,cpu\n<script>,1\n\"a|b,c\",250m\n");
    check(Format::Json, "{\n  \"containers\": []\n}\n");
    check(Format::Yaml, "containers: []\n");
}

#[test]
fn names_are_text_in_html_and_control_characters_are_not_printed() {
    let mut document = document();
    document.tables[0].rows[1].cells[0] = "\u{1b}[31mred".to_owned();
    let args = |output| OutputArgs {
        output,
        no_color: true,
    };
    let page = render(&document, &args(Format::Html), None).expect("a page");
    assert!(!page.contains('\u{1b}'), "{page:?}");
    assert!(page.contains("&lt;script&gt;") && !page.contains("<script>"));
    let text = render(&document, &args(Format::Table), None).expect("a text");
    assert!(!text.contains('\u{1b}'), "{text:?}");
}

#[test]
fn a_table_is_not_wider_than_the_terminal() {
    let mut document = document();
    document.tables[0].rows[1].cells[0] = "cpu: 81 % of the request unused".to_owned();
    let args = OutputArgs {
        output: Format::Table,
        no_color: true,
    };
    let text = render(&document, &args, Some(24)).expect("a text");
    let expected = "Containers\nNAME               CPU\n<script>             1\n\
                    cpu: 81 % of the  250m\nrequest unused\n\nOne note.\n";
    assert_eq!(text, expected);
    let narrow = render(&document, &args, Some(12)).expect("a text");
    let lines = || narrow.lines().map(|line| line.chars().count());
    assert!(lines().max() <= Some(12), "{narrow}");
}

#[test]
fn a_cluster_without_rows_does_not_change_the_columns_of_others() {
    let full = document().tables.remove(0);
    let empty = Table::new("Containers", "name| cpu|more", []);
    let tables = [("a", empty.clone()), ("b", full), ("c", empty)];
    let table = Table::of_clusters("Containers", tables);
    assert_eq!(table.columns, ["Cluster", "name", " cpu"]);
    let widths = table.rows.iter().map(|row| row.cells.len());
    assert_eq!(widths.collect::<Vec<_>>(), [3, 3]);
}
