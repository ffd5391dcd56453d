//! Six forecasts that anyone would recognise: the last value, the same time yesterday, the same
//! time last week, the median of the last seven days at that time, the mean of those three, and the
//! mean of the seven days times the level of the last hour.

use crate::recent::Recent;
use crate::regression::FEATURES;
use crate::seasons::{Place, Seasons};

/// How many forecasts there are, with the regression.
pub(crate) const EXPERTS: usize = 7;
/// Where the regression stands among them.
pub(crate) const REGRESSION: usize = 6;

/// One value for each, in the order last, day, week, median, blend, level, regression; none where
/// the history is too short for it.
pub(crate) type Opinions = [Option<f64>; EXPERTS];

/// What was at a time of day on the days before.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Earlier {
    day: f64,
    week: Option<f64>,
    median: f64,
    mean: f64,
}

impl Earlier {
    /// For a slot at most a day ahead; none where there was no day before.
    pub(crate) fn new(seasons: &Seasons, target: Place) -> Option<Self> {
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

/// What each says of a slot at most a day ahead, all but the regression.
pub(crate) fn opinions(earlier: Option<&Earlier>, last: f64, level: f64) -> Opinions {
    let mut opinions = [None; EXPERTS];
    opinions[0] = Some(last);
    let Some(&Earlier {
        day,
        week,
        median,
        mean,
    }) = earlier
    else {
        return opinions;
    };
    opinions[1] = Some(day);
    opinions[2] = week;
    opinions[3] = Some(median);
    opinions[4] = Some(week.map_or(f64::midpoint(day, median), |week| {
        (day + week + median) / 3.0
    }));
    opinions[5] = Some(mean * level);
    opinions
}

/// What the regression is told of a slot: profile now and then, yesterday and last week against the
/// profile, and how the present deviates.
pub(crate) fn features(
    seasons: &Seasons,
    recent: &Recent,
    target: Place,
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
