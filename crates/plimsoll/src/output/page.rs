//! HTML pages for light and dark screens. Those of files are self-contained and have no scripts.

use std::fmt::Write as _;

use super::{Document, Table};

const STYLE: &str = "
:root{color-scheme:light dark;--ink:#1b1f24;--soft:#59636e;--paper:#fff;--rule:#d1d9e0;--usage:#0072b2;
--request:#7f7f7f;--advice:#b34700;--critical:#b3261e;--warning:#8a5a00;--info:#0b5cad;--ok:#1a7f37}
@media(prefers-color-scheme:dark){:root{--ink:#e6edf3;--soft:#9aa5b1;--paper:#0d1117;--rule:#30363d;--usage:#56b4e9;
--request:#a0a0a0;--advice:#f0883e;--critical:#ff8a80;--warning:#e3b341;--info:#79c0ff;--ok:#56d364}}
*{box-sizing:border-box}
body{margin:0 auto;max-width:72rem;padding:1rem;background:var(--paper);color:var(--ink);font:16px/1.45 system-ui,sans-serif}
h1{font-size:1.5rem}h2{font-size:1.2rem;margin-top:2rem}h3{font-size:1rem;margin-bottom:.3rem;overflow-wrap:anywhere}
.wide{overflow-x:auto}
table{border-collapse:collapse;font-size:.9rem;width:100%}
th,td{padding:.25rem .5rem;border-bottom:1px solid var(--rule);text-align:left;vertical-align:bottom}
td{white-space:nowrap;vertical-align:top}td.long{white-space:normal;min-width:24rem;overflow-wrap:anywhere}
td.critical,td.warning,td.info,td.ok{white-space:normal;min-width:13rem}th{color:var(--soft);font-weight:600}.number{text-align:right;font-variant-numeric:tabular-nums}
.critical{color:var(--critical);font-weight:600}.warning{color:var(--warning);font-weight:600}.info{color:var(--info)}.ok{color:var(--ok)}
p.note{color:var(--soft);font-size:.9rem}
pre{padding:.6rem;border:1px solid var(--rule);overflow-x:auto;font-size:.85rem}
svg{width:100%;min-width:44rem;height:auto;display:block}svg text{fill:var(--soft);font:12px system-ui,sans-serif}
.grid{stroke:var(--rule)}.usage{stroke:var(--usage);fill:none;stroke-width:1.5}.mean{stroke:var(--usage);fill:none;opacity:.55}
.request{stroke:var(--request);fill:none;stroke-dasharray:6 4;stroke-width:1.5}.limit{stroke:var(--critical);fill:none;stroke-dasharray:2 3}
.advice{stroke:var(--advice);fill:none;stroke-width:1.5}.oom{fill:var(--critical)}.bar{fill:var(--usage)}
details{margin:.3rem 0}summary{cursor:pointer}
nav{display:flex;flex-wrap:wrap;gap:1rem;align-items:baseline}nav span{color:var(--soft)}
a{color:var(--info)}a[aria-current]{color:var(--ink);font-weight:600;text-decoration:none}";

/// Bytes of a cell above which its text wraps.
const LONG_CELL: usize = 60;

/// The text with the characters of HTML replaced.
pub(crate) fn escape(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;");
    let text = text.replace('>', "&gt;").replace('"', "&quot;");
    let is_hidden = |letter: char| letter.is_control() && letter != '\n';
    text.replace('\'', "&#39;").replace(is_hidden, "\u{fffd}")
}

/// A page with `navigation`, the tables, the notes, and `details`. The first and the last are HTML.
pub(crate) fn page(document: &Document, navigation: &str, details: &str) -> String {
    let title = escape(&document.title);
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{title}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n{navigation}<main>\n<h1>{title}</h1>\n"
    );
    for table in &document.tables {
        add_table(&mut page, table);
    }
    for note in &document.notes {
        let _ = writeln!(page, "<p class=\"note\">{}</p>", escape(note));
    }
    page + details + "</main>\n</body>\n</html>\n"
}

fn add_table(page: &mut String, table: &Table) {
    let class = |column| {
        if table.is_number(column) {
            " class=\"number\""
        } else {
            ""
        }
    };
    let title = escape(&table.title);
    let _ = writeln!(
        page,
        "<h2>{title}</h2>\n<div class=\"wide\" tabindex=\"0\" role=\"region\" aria-label=\"{title}\"><table>\n<thead><tr>"
    );
    for (column, name) in table.names().enumerate() {
        let (class, name) = (class(column), escape(name));
        let _ = write!(page, "<th scope=\"col\"{class}>{name}</th>");
    }
    page.push_str("</tr></thead>\n<tbody>\n");
    for row in &table.rows {
        page.push_str("<tr>");
        let last = row.cells.len().saturating_sub(1);
        for (column, cell) in row.cells.iter().enumerate() {
            let of_severity = row.severity.filter(|_| column == last);
            let class = match of_severity {
                Some(severity) => format!(" class=\"{}\"", severity.as_str()),
                None if cell.len() > LONG_CELL => " class=\"long\"".to_owned(),
                None => class(column).to_owned(),
            };
            let text = escape(cell);
            let _ = match row.link.as_deref().filter(|_| column == 0) {
                Some(link) => write!(page, "<td><a href=\"{}\">{text}</a></td>", escape(link)),
                None => write!(page, "<td{class}>{text}</td>"),
            };
        }
        page.push_str("</tr>\n");
    }
    page.push_str("</tbody>\n</table></div>\n");
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let themes: Vec<&str> = STYLE.split(":root{").skip(1).collect();
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
                (3.0, &["usage", "request", "advice"]),
            ] {
                for name in names {
                    let found = contrast(color(name), color("paper"));
                    assert!(found >= least, "{name} on paper: {found:.1}");
                }
            }
        }
    }
}
