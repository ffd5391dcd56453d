//! Replays of a workload with two autoscalers on the same metric: the native HPA chooses the number
//! of pods by their CPU usage, a sizing policy chooses their CPU requests by the same usage.
//!
//! Each minute:
//!
//! 1. New pods become ready, two minutes after their creation.
//! 2. The ready pods share the demand equally. One pod with the first request has a demand of 1.
//!    There are no limits, so usage may exceed the request.
//! 3. The sizing policy sees the usage of each ready pod.
//! 4. At a full hour, the requests of running pods change in place. Our own policy may also raise
//!    them in between.
//! 5. The HPA makes one pass. New pods have the newest recommendation, as the webhook sets it.

use jiff::{SignedDuration, Timestamp};
use model::{Cpu, Memory, ResourceList, ResourceName};
use replay::horizontal::Demand;
use replay::peers::Vpa;
use replay::{Bounds, Hpa, Policy, Resource, timestamp};
use sizing::price_of_failure::Settings;
use testing::hpa::{
    Container, Metric, PerPodTarget, Phase, Pod, PodMetric, PodMetrics, ReadinessDelays, Reading,
    ReadyCondition, ReadyStatus, Requests, Tolerance, Workload,
};

use crate::price_of_failure::PriceOfFailure;

/// CPU request of the first pods in millicores.
pub(crate) const FIRST_REQUEST: i64 = 1000;
/// Time from a pod's creation until it is ready.
const READY: SignedDuration = SignedDuration::from_mins(2);
/// Minimum relative difference of a changed request, for our own policy.
const DEADBAND: f64 = 0.1;
const MINUTE: SignedDuration = SignedDuration::from_mins(1);
/// Bounds of the HPA. The 99th percentile of a demand needs 50 pods of the first size.
pub(crate) const BOUNDS: Bounds = Bounds { min: 2, max: 500 };

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sizing {
    /// Requests stay, as with `hpa: Respect`.
    Fixed,
    /// Upstream's VPA with its defaults and its updater's rules.
    Vpa,
    PriceOfFailure,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct VpaWithHpa {
    /// Target of the HPA: a share of the request, or an amount per pod as with
    /// `hpa: KeepScalePoint`.
    pub(crate) target: PerPodTarget,
    pub(crate) sizing: Sizing,
}

/// Sums over the minutes of a day.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Day {
    pub(crate) minutes: f64,
    pub(crate) pod_minutes: f64,
    /// Requests of all pods in millicore-minutes.
    pub(crate) requested: f64,
    /// Minutes with usage of the ready pods above the smallest request.
    pub(crate) short_minutes: f64,
    /// Changes of the number of replicas.
    pub(crate) scalings: f64,
    /// Changed requests of running pods.
    pub(crate) resizes: f64,
}

impl Day {
    pub(crate) fn pods(&self) -> f64 {
        self.pod_minutes / self.minutes
    }

    /// Mean request of a pod in millicores.
    pub(crate) fn request(&self) -> f64 {
        self.requested / self.pod_minutes
    }

    /// Mean request of all pods in cores.
    pub(crate) fn cores(&self) -> f64 {
        self.requested / self.minutes / 1000.0
    }

    pub(crate) fn total(days: &[Self]) -> Self {
        days.iter().fold(Self::default(), |sum, day| Self {
            minutes: sum.minutes + day.minutes,
            pod_minutes: sum.pod_minutes + day.pod_minutes,
            requested: sum.requested + day.requested,
            short_minutes: sum.short_minutes + day.short_minutes,
            scalings: sum.scalings + day.scalings,
            resizes: sum.resizes + day.resizes,
        })
    }
}

impl VpaWithHpa {
    /// Replays up to this many days of a demand.
    pub(crate) fn run(&self, demand: &Demand, days: usize) -> Vec<Day> {
        let start = timestamp(demand.start);
        let mut measured = demand.minutes.iter().flatten();
        let mut load = measured.next().copied().unwrap_or(0.0);
        let mut pods = Replicas::new(self, load, start);
        let mut recommender = Recommender::new(self.sizing);
        let metric = Metric::Resource {
            resource: ResourceName::Cpu,
            container: None,
            target: self.target,
        };
        let mut hpa = Hpa::new(BOUNDS, pods.count(), start);
        let minutes = demand.minutes.iter().take(days * 24 * 60);
        let mut result = Vec::new();
        for (minute, value) in minutes.enumerate() {
            load = value.unwrap_or(load);
            let at = demand.start + 60 * minute as i64;
            let is_full_hour = (at + 60) % 3600 == 0;
            let (at, now) = (timestamp(at), timestamp(at + 60));
            pods.serve(load, at);
            if minute % (24 * 60) == 0 {
                result.push(Day::default());
            }
            if let Some(day) = result.last_mut() {
                pods.score(day);
            }
            recommender.observe(at, &pods);
            let resized = recommender.decide(now, is_full_hour, &mut pods);
            let workload = Workload {
                pods: &pods.pods,
                spec_replicas: pods.count(),
                status_replicas: pods.count(),
                tolerance: Tolerance::default(),
                delays: ReadinessDelays::default(),
                now,
            };
            let proposal = workload.propose(&metric, Reading::Pods(&pods.metrics));
            let proposal = proposal.ok().map(|proposal| proposal.replicas);
            let replicas = hpa.pass(pods.count(), now, &[proposal]);
            let scaled = replicas != pods.count();
            pods.scale(replicas, recommender.newest, now);
            if let Some(day) = result.last_mut() {
                day.resizes += resized as f64;
                day.scalings += f64::from(u8::from(scaled));
            }
        }
        result
    }
}

/// A pod's request and its age.
#[derive(Clone, Copy, Debug)]
struct Size {
    millicores: i64,
    /// Creation, or the last change of the request.
    since: Timestamp,
}

/// The pods of the workload, oldest first.
struct Replicas {
    pods: Vec<Pod>,
    sizes: Vec<Size>,
    metrics: PodMetrics,
    /// Usage of each ready pod in millicores.
    usage: f64,
}

impl Replicas {
    /// Enough pods for a load.
    fn new(settings: &VpaWithHpa, load: f64, now: Timestamp) -> Self {
        let per_pod = match settings.target {
            PerPodTarget::Utilization(percent) => f64::from(percent) / 100.0,
            PerPodTarget::AverageMilli(milli) => milli as f64 / FIRST_REQUEST as f64,
        };
        let count = ((load / per_pod).ceil() as i32).clamp(BOUNDS.min, BOUNDS.max);
        let mut pods = Self {
            pods: Vec::new(),
            sizes: Vec::new(),
            metrics: PodMetrics::new(),
            usage: 0.0,
        };
        pods.scale(count, FIRST_REQUEST, now - READY);
        pods
    }

    fn count(&self) -> i32 {
        self.pods.len() as i32
    }

    /// Adds pods, or removes the youngest, of which the last may not be ready.
    fn scale(&mut self, replicas: i32, millicores: i64, now: Timestamp) {
        while self.count() > replicas {
            if let Some(pod) = self.pods.pop() {
                self.metrics.remove(&pod.name);
            }
            self.sizes.pop();
        }
        while self.count() < replicas {
            self.pods.push(Pod {
                name: format!("{:04}", self.count()),
                deleted: false,
                phase: Phase::Pending,
                ready: None,
                started: Some(now),
                requests: requests(millicores),
            });
            let since = now;
            self.sizes.push(Size { millicores, since });
        }
    }

    /// Shares the load of the minute that begins at `at` among the pods that are ready.
    fn serve(&mut self, load: f64, at: Timestamp) {
        let window = MINUTE;
        for pod in self.pods.iter_mut().rev() {
            if pod.phase == Phase::Running {
                break;
            }
            let since = pod.started.unwrap_or(at) + READY;
            if since <= at {
                pod.phase = Phase::Running;
                let status = ReadyStatus::True;
                pod.ready = Some(ReadyCondition { status, since });
                let metric = PodMetric {
                    value_milli: 0,
                    at,
                    window,
                };
                self.metrics.insert(pod.name.clone(), metric);
            }
        }
        self.usage = 1000.0 * load / self.metrics.len().max(1) as f64;
        for metric in self.metrics.values_mut() {
            metric.value_milli = self.usage.round() as i64;
            metric.at = at + window;
        }
    }

    fn score(&self, day: &mut Day) {
        let requests = || self.sizes.iter().map(|size| size.millicores);
        let smallest = requests().min().unwrap_or(0) as f64;
        day.minutes += 1.0;
        day.pod_minutes += self.sizes.len() as f64;
        day.requested += requests().sum::<i64>() as f64;
        day.short_minutes += f64::from(u8::from(self.usage > smallest));
    }

    /// Changes the requests of the pods for which `changes` holds, and returns their number.
    fn resize(
        &mut self,
        millicores: i64,
        now: Timestamp,
        changes: impl Fn(&Size) -> bool,
    ) -> usize {
        let mut count = 0;
        for (pod, size) in self.pods.iter_mut().zip(&mut self.sizes) {
            if size.millicores != millicores && changes(size) {
                pod.requests = requests(millicores);
                let since = now;
                *size = Size { millicores, since };
                count += 1;
            }
        }
        count
    }
}

struct Recommender {
    sizing: Sizing,
    vpa: Vpa,
    own: PriceOfFailure,
    newest: i64,
}

impl Recommender {
    fn new(sizing: Sizing) -> Self {
        Self {
            sizing,
            vpa: Vpa::with(Resource::Cpu, sizing::Config::default()),
            own: PriceOfFailure::new(Settings::CPU),
            newest: FIRST_REQUEST,
        }
    }

    fn observe(&mut self, at: Timestamp, pods: &Replicas) {
        match self.sizing {
            Sizing::Fixed => {}
            Sizing::Vpa => {
                for pod in 0..pods.metrics.len() {
                    self.vpa.observe(pod, at, pods.usage);
                }
            }
            Sizing::PriceOfFailure => self.own.observe(0, at, pods.usage),
        }
    }

    /// Changes requests, and returns the number of changed pods.
    fn decide(&mut self, now: Timestamp, is_full_hour: bool, pods: &mut Replicas) -> usize {
        match self.sizing {
            Sizing::Vpa if is_full_hour => {
                let estimate = self.vpa.estimate();
                self.newest = estimate.target.cpu.millicores();
                let vpa = &self.vpa;
                pods.resize(self.newest, now, |size| {
                    vpa.updates(now, size.since, size.millicores as f64, &estimate)
                })
            }
            Sizing::Fixed | Sizing::Vpa => 0,
            Sizing::PriceOfFailure => {
                let before = self.newest as f64;
                let recommended = if is_full_hour {
                    self.own.recommend(now, before)
                } else {
                    let raised = self.own.raise(now, pods.usage, before);
                    raised.filter(|raised| *raised > before)
                };
                let changed = recommended.filter(|new| (new - before).abs() > DEADBAND * before);
                self.newest = changed.map_or(self.newest, |new| new.ceil() as i64);
                pods.resize(self.newest, now, |_| changed.is_some())
            }
        }
    }
}

fn requests(millicores: i64) -> Requests {
    let requests = ResourceList::of(Cpu::from_millicores(millicores), Memory::from_bytes(0));
    Requests {
        pod: ResourceList::new(),
        containers: vec![Container {
            name: "app".to_owned(),
            requests,
        }],
    }
}
