//! Plots of known numbers.

use super::*;

const FROM_ZERO: Scale = Scale::FromZero(Unit::NUMBER);

fn plot(x: Scale, y: Scale, shape: Shape) -> Plot {
    Plot {
        title: "a < b".to_owned(),
        x,
        y,
        layers: vec![Layer::new("<script>", "c0", shape)],
    }
}

#[test]
fn axes_have_round_ticks() {
    for (least, expected) in [
        (0.0, 1.0),
        (0.3, 0.5),
        (1.0, 1.0),
        (37.0, 50.0),
        (501.0, 1000.0),
    ] {
        assert!((round_step(least) - expected).abs() < 1e-9, "{least}");
    }
}

#[test]
fn ticks_of_the_caller_span_the_plot() {
    let points = Shape::Line(vec![(0.0, 1.0), (10.0, 100.0), (5.0, 10.0)]);
    let x = Scale::Ticks(vec![0.0, 5.0, 10.0], std::convert::identity);
    let y = Scale::Ticks(vec![1.0, 100.0], f64::ln);
    let html = plot(x, y, points).figure().into_string();
    assert!(
        html.contains("d=\"M0 1000l2000 -1000l-1000 500\""),
        "{html}"
    );
    for part in [
        "<b>a &lt; b</b>",
        "> &lt;script&gt;<",
        ">5</text>",
        ">100</text>",
    ] {
        assert!(html.contains(part), "{part} is not in {html}");
    }
}

#[test]
fn few_and_equal_numbers_have_a_plot() {
    for points in [&[][..], &[(0.0, 0.0)], &[(5.0, 5.0), (5.0, 5.0)]] {
        for x in [FROM_ZERO, Scale::Time] {
            let html = plot(x, FROM_ZERO, Shape::Line(points.to_vec()))
                .figure()
                .into_string();
            assert!(!html.contains("NaN") && !html.contains("inf"), "{html}");
        }
    }
}

#[test]
fn times_are_hours_or_days() {
    let lasting = |seconds: f64| {
        let shape = Shape::Line(vec![(0.0, 1.0), (seconds, 3.0)]);
        plot(Scale::Time, FROM_ZERO, shape).figure().into_string()
    };
    let hours = lasting(9000.0);
    assert!(hours.contains(">00:30</text>") && hours.contains(">02:30</text>"));
    assert!(lasting(4.0 * 86_400.0).contains(">Jan 2</text>"));
}

#[test]
fn areas_are_closed_and_labels_of_marks_keep_their_distance() {
    let area = Shape::Area(vec![(0.0, 1.0), (1.0, 4.0), (1.0, 2.0)]);
    let svg = plot(FROM_ZERO, FROM_ZERO, area).figure().into_string();
    assert!(svg.contains("d=\"M0 750l2000 -750l0 500z\""), "{svg}");
    let mark = |label: &str| Mark {
        at: (0.0, 4.0),
        title: "<b>".to_owned(),
        label: label.to_owned(),
    };
    let near = Shape::Marks(vec![mark("one"), mark("two"), Mark::default()]);
    let near = plot(FROM_ZERO, FROM_ZERO, near).figure().into_string();
    for part in [
        "cx=\"0%\" cy=\"0\" r=\"4\"><title>&lt;b&gt;</title>",
        "y=\"4\" dx=\"9\" text-anchor=\"start\">one<",
        "y=\"19\" dx=\"9\" text-anchor=\"start\">two<",
        "cx=\"0%\" cy=\"180\"",
    ] {
        assert!(near.contains(part), "{part} is not in {near}");
    }
}

#[test]
fn bars_have_a_width_and_a_label() {
    let html = bars("<b>", &[("request", 0.0, 0.5), ("advice", 0.0, 0.0)]).into_string();
    assert!(html.contains("aria-label=\"&lt;b&gt;\""), "{html}");
    assert!(
        html.contains("width=\"50%\"") && html.contains("width=\"0.3%\""),
        "{html}"
    );
}
