//! Time range with a point per step, and the pieces in which it is read.

use jiff::Timestamp;

use promql::Step;

/// Maximum number of points per series in one request. Prometheus refuses more than 11,000.
const MAX_POINTS: i64 = 2000;

/// Points in time, one per step, the last one at the end. Milliseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    pub(super) start: i64,
    pub(super) end: i64,
    /// Distance between points.
    pub step: Step,
}

impl Window {
    /// From `start` or slightly later to `end`; `None` without a point in between.
    pub fn new(start: Timestamp, end: Timestamp, step: Step) -> Option<Self> {
        let (start, end) = (start.as_millisecond(), end.as_millisecond());
        let length = end.checked_sub(start).filter(|length| *length >= 0)?;
        Some(Self {
            start: end - length / step.milliseconds() * step.milliseconds(),
            end,
            step,
        })
    }

    fn first(self, points: i64) -> Self {
        let length = self.step.milliseconds().saturating_mul(points - 1);
        Self {
            end: self.end.min(self.start.saturating_add(length)),
            ..self
        }
    }
}

/// The HTTP API's form of times and steps: seconds.
pub(super) fn seconds(milliseconds: i64) -> String {
    format!(
        "{}.{:03}",
        milliseconds.div_euclid(1000),
        milliseconds.rem_euclid(1000)
    )
}

/// Rest of a window, and the size of the next pieces.
#[derive(Debug)]
pub(super) struct Pieces {
    rest: Option<Window>,
    points: i64,
}

impl Pieces {
    pub(super) fn of(window: Window) -> Self {
        Self {
            rest: Some(window),
            points: MAX_POINTS,
        }
    }

    /// The next piece to read; `None` at the end.
    pub(super) fn next(&self) -> Option<Window> {
        self.rest.map(|rest| rest.first(self.points))
    }

    /// Marks a piece as read.
    pub(super) fn done(&mut self, piece: Window) {
        let start = piece.end + piece.step.milliseconds();
        self.rest = self
            .rest
            .filter(|rest| start <= rest.end)
            .map(|rest| Window { start, ..rest });
    }

    /// Halves the size of pieces. Returns false if that is not possible.
    pub(super) fn halve(&mut self) -> bool {
        let possible = self.points > 1;
        // A window may be shorter than the allowed piece.
        let asked = self.rest.map_or(0, |rest| {
            (rest.end - rest.start) / rest.step.milliseconds() + 1
        });
        self.points = (self.points.min(asked) / 2).max(1);
        possible && asked > 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("in range")
    }

    fn window(start: i64, end: i64, step: &str) -> Window {
        Window::new(at(start), at(end), step.parse().expect("a step")).expect("not empty")
    }

    /// The first and last second of the pieces when responses with more than `limit` points are refused.
    fn check(window: Window, limit: i64, expected: &[(i64, i64)]) {
        let mut pieces = Pieces::of(window);
        let mut asked = Vec::new();
        while let Some(piece) = pieces.next() {
            if (piece.end - piece.start) / piece.step.milliseconds() + 1 > limit {
                assert!(pieces.halve(), "{piece:?}");
                continue;
            }
            asked.push((seconds(piece.start), seconds(piece.end)));
            pieces.done(piece);
        }
        let expected = expected
            .iter()
            .map(|(start, end)| format!("{start}.000 {end}.000"));
        let asked = asked
            .into_iter()
            .map(|(start, end)| format!("{start} {end}"));
        let expected: Vec<_> = expected.collect();
        assert_eq!(asked.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn the_last_point_is_at_the_end() {
        check(window(7, 100, "30s"), 100, &[(10, 100)]);
        check(window(100, 100, "30s"), 100, &[(100, 100)]);
        let none = Window::new(at(2), at(1), "1s".parse().expect("a step"));
        assert_eq!(none, None);
    }

    #[test]
    fn long_windows_are_asked_for_in_pieces_that_share_no_point() {
        let expected = [(0, 1999), (2000, 3999), (4000, 4500)];
        check(window(0, 4500, "1s"), 2000, &expected);
    }

    #[test]
    fn pieces_that_are_too_much_are_halved() {
        let expected = [(0, 1), (2, 3), (4, 5), (6, 7), (8, 9)];
        check(window(0, 9, "1s"), 3, &expected);
    }

    #[test]
    fn a_single_point_cannot_be_halved() {
        let mut pieces = Pieces::of(window(0, 3, "1s"));
        assert!(pieces.halve() && pieces.halve());
        assert!(!pieces.halve());
    }
}
