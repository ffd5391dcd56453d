//! HTML pages for light and dark screens and for paper. Those of files are self-contained and have no
//! scripts.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::{Document, Table};

const STYLE: &str = include_str!("page.css");
/// Bytes of a cell above which its text wraps.
const LONG_CELL: usize = 60;

/// The end of a line of the file.
pub(crate) const LINE: PreEscaped<&str> = PreEscaped("\n");

/// The text of HTML or XML, without control characters.
pub(crate) fn markup_text(markup: Markup) -> String {
    let is_hidden = |letter: char| letter.is_control() && letter != '\n';
    markup.into_string().replace(is_hidden, "\u{fffd}")
}

/// A page with its title, the navigation above the main part, and that.
pub(crate) fn page(title: &str, navigation: &Markup, main: &Markup) -> String {
    markup_text(html! {
        (DOCTYPE) (LINE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (title) } (LINE)
                style { (PreEscaped(plot::STYLE)) (PreEscaped(STYLE)) } (LINE)
            }
            body { (navigation) main { (LINE) (main) } } (LINE)
        }
    })
}

impl Document {
    /// The title, the tables and the notes.
    pub(crate) fn html(&self) -> Markup {
        html! {
            h1 { (self.title) } (LINE)
            @for table in &self.tables {
                h2 { (table.title) } (LINE)
                @if table.rows.is_empty() { p { "None." } (LINE) } @else { (table.html()) }
            }
            @for note in &self.notes { p.note { (note) } (LINE) }
        }
    }
}

impl Table {
    /// The table without its title.
    pub(crate) fn html(&self) -> Markup {
        let class = |column: usize| self.is_number(column).then_some("number");
        html! {
            div.wide tabindex="0" role="region" aria-label=(self.title) {
                table { (LINE)
                    thead { tr { @for (column, name) in self.names().enumerate() {
                        th scope="col" class=[class(column)] { (name) }
                    } } } (LINE)
                    tbody { (LINE) @for row in &self.rows { tr {
                        @for (column, cell) in row.cells.iter().enumerate() {
                            @let severity = row.severity.filter(|_| column + 1 == row.cells.len());
                            @let long = (cell.len() > LONG_CELL).then_some("long");
                            @match row.link.as_deref().filter(|_| column == 0) {
                                Some(link) => { td { a href=(link) { (cell) } } }
                                None => {
                                    td class=[severity.map(crate::severity::Severity::as_str).or(long).or(class(column))] { (cell) }
                                }
                            }
                        }
                    } (LINE) } }
                }
            } (LINE)
        }
    }
}

#[cfg(test)]
mod tests {
    /// Relative luminance of a colour, by WCAG 2.
    fn luminance(color: &str) -> f64 {
        let digits = color.trim_start_matches('#');
        let digits = match digits.len() {
            3 => digits.chars().flat_map(|digit| [digit, digit]).collect(),
            _ => digits.to_owned(),
        };
        let part = |index: usize| {
            let part = u8::from_str_radix(&digits[2 * index..2 * index + 2], 16).expect(color);
            let share = f64::from(part) / 255.0;
            if share <= 0.040_45 {
                share / 12.92
            } else {
                ((share + 0.055) / 1.055).powf(2.4)
            }
        };
        0.2126 * part(0) + 0.7152 * part(1) + 0.0722 * part(2)
    }

    fn contrast(a: &str, b: &str) -> f64 {
        let [a, b] = [luminance(a), luminance(b)];
        (a.max(b) + 0.05) / (a.min(b) + 0.05)
    }

    #[test]
    fn texts_and_lines_have_enough_contrast_on_light_and_dark_screens() {
        let themes: Vec<&str> = plot::STYLE.split(":root{").skip(1).collect();
        assert_eq!(themes.len(), 2);
        for theme in themes {
            let theme = theme.split('}').next().expect("a rule");
            let color = |name: &str| {
                let (_, rest) = theme.split_once(&format!("--{name}:")).expect(name);
                rest.split(';').next().expect("a value").trim()
            };
            for (least, names) in [
                (
                    4.5,
                    &["ink", "soft", "critical", "warning", "info", "ok"][..],
                ),
                (3.0, &["c0", "c1", "c2", "c3", "c4", "c5", "c6", "c7"]),
            ] {
                for name in names {
                    for paper in ["paper", "raised"] {
                        let found = contrast(color(name), color(paper));
                        assert!(found >= least, "{name} on {paper}: {found:.1}");
                    }
                }
            }
        }
    }
}
