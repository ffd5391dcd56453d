//! Plots of known numbers.

use super::{Axis, Line, Plot};

fn plot(points: &[(f64, f64)]) -> Plot {
    Plot {
        title: "a < b".to_owned(),
        x: Axis::linear("x"),
        y: Axis::logarithmic("y"),
        lines: vec![Line {
            name: "line".to_owned(),
            points: points.to_vec(),
        }],
    }
}

fn path(svg: &str) -> &str {
    let line = svg.split("class=\"line\"").nth(1).expect("a line");
    let path = line.split("d=\"").nth(1).expect("a path");
    path.split("M594").next().expect("a legend")
}

fn labels(svg: &str) -> Vec<&str> {
    let texts = svg
        .split("</text>")
        .filter_map(|text| text.rsplit_once('>'));
    texts.map(|(_, text)| text).collect()
}

#[test]
fn lines_span_the_ticks_and_numbers_without_a_place_are_left_out() {
    let svg = plot(&[(0.0, 1.0), (6.0, 10.0), (3.0, 0.0), (2.0, f64::NAN)]).svg();
    assert_eq!(
        labels(&svg),
        [
            "a &lt; b", "y", "x", "0", "1", "2", "3", "4", "5", "6", "7", "1", "2", "5", "10",
            "20", "line", "\n"
        ]
    );
    // The two points that have a place: at the lower left, and at 6/7 and log 10 / log 20.
    assert_eq!(path(&svg), "M64.0 372.0L506.3 119.9");
    assert_eq!(svg.matches("<circle").count(), 2);
    assert_eq!(svg, plot(&[(0.0, 1.0), (6.0, 10.0)]).svg());
}

#[test]
fn few_and_equal_numbers_have_a_plot() {
    for points in [&[][..], &[(0.0, 0.0)], &[(5.0, 5.0), (5.0, 5.0)]] {
        let svg = plot(points).svg();
        assert!(
            svg.starts_with("<svg ") && svg.ends_with("</svg>\n"),
            "{svg}"
        );
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        assert!(!svg.contains("MM"), "{svg}");
    }
}

#[test]
fn many_points_have_a_line_without_marks() {
    let points: Vec<(f64, f64)> = (1..60).map(|x| (f64::from(x), f64::from(x))).collect();
    let svg = plot(&points).svg();
    assert!(!svg.contains("<circle"), "{svg}");
    assert_eq!(path(&svg).matches('L').count(), 58);
}
