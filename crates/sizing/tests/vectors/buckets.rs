//! Bucket boundaries, and the bucket of a value.

use serde::Deserialize;
use sizing::{Buckets, EPSILON};
use testing::vectors::{Double, each_case};

#[derive(Deserialize)]
#[serde(untagged)]
enum Case {
    Find {
        resource: String,
        find_bucket: Vec<Find>,
    },
    Starts {
        resource: String,
        num_buckets: usize,
        epsilon: f64,
        bucket_starts: Vec<Double>,
    },
    Options {
        options: Options,
        num_buckets: usize,
        stride: usize,
        bucket_starts: Vec<Double>,
        values: Vec<Double>,
        buckets: Vec<usize>,
    },
}

#[derive(Deserialize)]
struct Find {
    value: Double,
    bucket: usize,
}

#[derive(Deserialize)]
struct Options {
    max_value: f64,
    first_bucket_size: f64,
    ratio: f64,
}

fn of(resource: &str) -> &'static Buckets {
    match resource {
        "cpu" => Buckets::cpu(),
        "memory" => Buckets::memory(),
        other => panic!("no resource {other}"),
    }
}

fn check_starts(buckets: &Buckets, count: usize, stride: usize, starts: &[Double]) {
    assert_eq!(buckets.count(), count);
    for (index, start) in (0..).step_by(stride).zip(starts) {
        let ours = buckets.start(index);
        assert_eq!(ours.to_bits(), start.0.to_bits(), "start of bucket {index}");
    }
}

fn check(case: &Case) {
    match case {
        Case::Find {
            resource,
            find_bucket,
        } => {
            for Find { value, bucket } in find_bucket {
                let found = of(resource).find(value.0);
                assert_eq!(found, *bucket, "bucket of {value:?} {resource}");
            }
        }
        Case::Starts {
            resource,
            num_buckets,
            epsilon,
            bucket_starts,
        } => {
            assert_eq!(epsilon.to_bits(), EPSILON.to_bits());
            assert_eq!(bucket_starts.len(), *num_buckets);
            check_starts(of(resource), *num_buckets, 1, bucket_starts);
        }
        Case::Options {
            options,
            num_buckets,
            stride,
            bucket_starts,
            values,
            buckets,
        } => {
            let ours =
                Buckets::exponential(options.max_value, options.first_bucket_size, options.ratio)
                    .unwrap();
            check_starts(&ours, *num_buckets, *stride, bucket_starts);
            assert_eq!(values.len(), buckets.len());
            for (value, bucket) in values.iter().zip(buckets) {
                assert_eq!(ours.find(value.0), *bucket, "bucket of {value:?}");
            }
        }
    }
}

#[test]
fn vectors_buckets() {
    each_case("vpa/buckets", |_, case| check(&case));
}
