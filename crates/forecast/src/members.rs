//! Simple ensemble members: the last value, the same time yesterday, the same time last week, the
//! median of the last seven days at that time, the mean of those three, and the mean of the seven
//! days times the level of the last hour.

use crate::recent_deviation::Recent;
use crate::regression::FEATURES;
use crate::seasons::{Seasons, SlotPosition};

pub(crate) const MEMBERS: usize = 7;
pub(crate) const REGRESSION: usize = 6;

/// One value per member, in the order last, day, week, median, blend, level, regression; `None` if
/// the history is too short for it.
pub(crate) type MemberForecasts = [Option<f64>; MEMBERS];

/// Values at one time of day on earlier days.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EarlierDays {
    day: f64,
    week: Option<f64>,
    median: f64,
    mean: f64,
}

impl EarlierDays {
    /// For a slot at most a day ahead; `None` without a day before it.
    pub(crate) fn new(seasons: &Seasons, target: SlotPosition) -> Option<Self> {
        let day = seasons.days_before(target, 1)?;
        let profile = seasons.profile(target);
        let week = seasons.days_before(target, 7);
        Some(Self {
            day,
            week,
            median: f64::from(profile.median),
            mean: f64::from(profile.mean),
        })
    }
}

/// Forecasts of all members but the regression, for a slot at most a day ahead.
pub(crate) fn member_forecasts(
    earlier: Option<&EarlierDays>,
    last: f64,
    level: f64,
) -> MemberForecasts {
    let Some(earlier) = earlier else {
        return [Some(last), None, None, None, None, None, None];
    };
    let (day, week, median) = (earlier.day, earlier.week, earlier.median);
    let blend = week.map_or(f64::midpoint(day, median), |week| {
        (day + week + median) / 3.0
    });
    let level = earlier.mean * level;
    [
        Some(last),
        Some(day),
        week,
        Some(median),
        Some(blend),
        Some(level),
        None,
    ]
}

/// Regression features of a slot: change of the profile until then, yesterday and last week against
/// the profile, and the present deviation.
pub(crate) fn features(
    seasons: &Seasons,
    recent: &Recent,
    target: SlotPosition,
) -> Option<[f32; FEATURES]> {
    let now = recent.profile?;
    let yesterday = seasons.asinh_days_before(target, 1)?;
    let then = f64::from(seasons.profile(target).mean_asinh);
    let week = seasons.asinh_days_before(target, 7).unwrap_or(then);
    let [hour, day, yesterday_hour, week_hour] = recent.means();
    let features = [
        then - now,
        yesterday - then,
        week - then,
        recent.deviation,
        hour,
        day,
        yesterday_hour,
        week_hour,
    ];
    Some(features.map(|feature| feature as f32))
}
