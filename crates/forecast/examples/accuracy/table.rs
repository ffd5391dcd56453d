//! Results as Markdown tables.

use crate::calibration::{NEAR, SHARES};
use crate::replay::{HORIZONS, Result, Score};

const CLIP: f64 = 2.0;
const RESAMPLES: u64 = 2000;

pub(crate) fn print(results: &[Result]) {
    println!("| | {} |", HORIZONS.join(" | "));
    println!("|---|---|---|---|");
    let row = |name: &str, cell: &dyn Fn(&[&Score]) -> String| {
        let cells: Vec<String> = (0..HORIZONS.len())
            .map(|which| {
                let scores = results.iter().map(|result| result.scores[which].as_ref());
                cell(&scores.flatten().collect::<Vec<_>>())
            })
            .collect();
        println!("| {name} | {} |", cells.join(" | "));
    };
    row("series", &|scores| scores.len().to_string());
    print_errors(&row);
    print_coverage(&row);
    row("slots without a forecast", &|scores| {
        let slots: u32 = scores.iter().map(|score| score.unforecast).sum();
        slots.to_string()
    });
    print_series(results);
}

/// Prints a row: its name, and its cell from the scores of one horizon.
type Row<'a> = dyn Fn(&str, &dyn Fn(&[&Score]) -> String) + 'a;

/// Rows of the errors relative to the simple methods and to Crane.
fn print_errors(row: &Row) {
    let to_simple = |score: &Score| score.ours / score.best();
    let to_crane = |score: &Score| score.ours / score.crane;
    let to_pinball = |score: &Score| score.pinball / score.best_pinball();
    row(
        "WAPE / best simple method in hindsight [95 % over series]",
        &|scores| interval(scores, to_simple),
    );
    row(
        "the same, with last week also where it could not be judged before",
        &|scores| interval(scores, |score| score.ours / score.best_of_all()),
    );
    row("the first of live series", &|scores| {
        interval(&live(scores), to_simple)
    });
    row("not worse than the best simple method", &|scores| {
        share(scores, |score| to_simple(score) <= 1.0)
    });
    let worse = |scores: &[&Score]| {
        let ratios = scores.iter().map(|score| to_simple(score));
        let worst = ratios.fold(0.0, f64::max);
        let count = share(scores, |score| to_simple(score) > 1.05);
        format!("{count}; {worst:.2}")
    };
    row("more than 5 % worse; the worst", &worse);
    row("the same of live series", &|scores| worse(&live(scores)));
    row(
        "more than 5 % worse, of live series: the simple method that was best before the scored part",
        &|scores| {
            let is_worse = |score: &Score| score.best_before() / score.best() > 1.05;
            share(&live(scores), is_worse)
        },
    );
    row("WAPE / Crane DSP; not worse on", &|scores| {
        format!(
            "{:.3}; {}",
            geometric(scores, to_crane),
            share(scores, |score| to_crane(score) <= 1.0)
        )
    });
    row(
        "pinball loss of p95 / (best simple + its trailing quantile); better on",
        &|scores| {
            format!(
                "{:.3}; {}",
                geometric(scores, to_pinball),
                share(scores, |score| to_pinball(score) < 1.0)
            )
        },
    );
}

/// Rows of the share of slots at most each quantile.
fn print_coverage(row: &Row) {
    for (quantile, target) in SHARES.into_iter().enumerate() {
        let covered = move |score: &Score| score.covered[quantile] / score.count;
        let is_near = move |score: &Score| (covered(score) - target).abs() <= NEAR + 1e-9;
        row(
            &format!(
                "p{:.0} holds within 2 points; mean error in points; mean",
                target * 100.0
            ),
            &|scores| {
                let near = share(scores, is_near);
                let off = mean(scores, |score| (covered(score) - target).abs() * 100.0);
                format!("{near}; {off:.1}; {:.3}", mean(scores, covered))
            },
        );
        row(
            "it holds, or chance of days explains why not; an exact quantile holds",
            &|scores| {
                let explained = share(scores, |score| {
                    is_near(score) || score.chance.explains[quantile]
                });
                let exact = share(scores, |score| score.chance.exact_holds[quantile]);
                format!("{explained}; {exact}")
            },
        );
    }
}

fn print_series(results: &[Result]) {
    println!(
        "\n| series: WAPE (best simple) p95 coverage | {} |",
        HORIZONS.join(" | ")
    );
    println!("|---|---|---|---|");
    for result in results {
        let cell = |score: &Score| {
            let (ours, best) = (score.ours / score.actual, score.best() / score.actual);
            let covered = score.covered[1] / score.count;
            format!("{ours:.3} ({best:.3}) {covered:.3}")
        };
        let cells = result
            .scores
            .iter()
            .map(|score| score.as_ref().map_or("-".to_owned(), cell));
        println!(
            "| {} | {} |",
            result.name,
            cells.collect::<Vec<_>>().join(" | ")
        );
    }
}

fn live<'a>(scores: &[&'a Score]) -> Vec<&'a Score> {
    let scores = scores.iter().copied();
    scores.filter(|score| score.is_live()).collect()
}

fn mean(scores: &[&Score], value: impl Fn(&Score) -> f64) -> f64 {
    scores.iter().map(|score| value(score)).sum::<f64>() / scores.len() as f64
}

fn geometric(scores: &[&Score], ratio: impl Fn(&Score) -> f64) -> f64 {
    mean(scores, |score| ratio(score).min(CLIP).ln()).exp()
}

fn share(scores: &[&Score], is_so: impl Fn(&Score) -> bool) -> String {
    let count = scores.iter().filter(|score| is_so(score)).count();
    format!("{count} of {}", scores.len())
}

/// The geometric mean and its 95 % interval over resampled series.
fn interval(scores: &[&Score], ratio: impl Fn(&Score) -> f64) -> String {
    let mut seed = 7_u64;
    let mut means: Vec<f64> = (0..RESAMPLES)
        .map(|_| {
            let draw = |_| {
                seed = seed
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                scores[(seed >> 33) as usize % scores.len()]
            };
            let drawn: Vec<&Score> = scores.iter().map(draw).collect();
            geometric(&drawn, &ratio)
        })
        .collect();
    means.sort_by(f64::total_cmp);
    let at = |share: f64| means[(share * (means.len() - 1) as f64) as usize];
    let (found, low, high) = (geometric(scores, &ratio), at(0.025), at(0.975));
    format!("{found:.3} [{low:.2}, {high:.2}]")
}
