//! Quantities compared with a table recorded by running `k8s.io/apimachinery` v0.36.3 (Go 1.26.8)
//! over edge cases. A row's `plus_previous`, `minus_previous` and `cmp_previous` relate it to the
//! last row before it that has them too (rows with exponents of ten digits have none).

use model::{Quantity, quantity::Format};
use proptest::prelude::*;
use serde::Deserialize;

#[derive(Deserialize)]
struct Row {
    input: String,
    error: Option<String>,
    #[serde(default)]
    text: String,
    value: Option<i64>,
    milli: Option<i64>,
    #[serde(default)]
    format: String,
    plus_previous: Option<String>,
    minus_previous: Option<String>,
    cmp_previous: Option<i32>,
}

/// Compares one row; returns the quantity if the input is valid.
fn check(row: &Row, previous: Option<&Quantity>) -> Option<Quantity> {
    let input = &row.input;
    let parsed = match input.parse::<Quantity>() {
        Ok(quantity) => quantity,
        Err(error) => {
            assert_eq!(Some(error.to_string()), row.error, "{input:?}");
            return None;
        }
    };
    assert_eq!(row.error, None, "{input:?} is accepted");
    assert_eq!(parsed.to_string(), row.text, "text of {input:?}");
    let format = match parsed.format() {
        Format::DecimalSi => "DecimalSI",
        Format::BinarySi => "BinarySI",
        Format::DecimalExponent => "DecimalExponent",
    };
    assert_eq!(format, row.format, "format of {input:?}");
    let (value, milli) = (parsed.value(), parsed.milli_value());
    assert_eq!(row.value.unwrap_or(value), value, "value of {input:?}");
    assert_eq!(row.milli.unwrap_or(milli), milli, "milli of {input:?}");
    if let (Some(previous), Some(plus), Some(minus)) =
        (previous, &row.plus_previous, &row.minus_previous)
    {
        let [sum, difference] = [&parsed + previous, &parsed - previous].map(|it| it.to_string());
        assert_eq!(&sum, plus, "{input:?} + {previous}");
        assert_eq!(&difference, minus, "{input:?} - {previous}");
        let order = Some(parsed.cmp(previous) as i32);
        assert_eq!(order, row.cmp_previous, "{input:?} against {previous}");
    }
    Some(parsed)
}

#[test]
fn every_recorded_quantity_is_read_computed_and_printed_as_kubernetes_does() {
    let rows: Vec<Row> = serde_json::from_str(include_str!("quantities.json")).unwrap();
    assert!(rows.len() > 500);
    let mut previous = None;
    for row in &rows {
        let parsed = check(row, previous.as_ref());
        if previous.is_none() || row.cmp_previous.is_some() {
            previous = parsed.or(previous);
        }
    }
}

#[test]
fn json_may_hold_text_a_number_or_null() {
    let read =
        |json: &str| serde_json::from_str::<Quantity>(json).map(|quantity| quantity.to_string());
    for (json, expected) in [
        (r#"" 1Gi ""#, "1Gi"),
        ("1.5", "1500m"),
        ("-7", "-7"),
        ("18446744073709551615", "18446744073709551615"),
        ("null", "0"),
    ] {
        assert_eq!(read(json).unwrap(), expected);
    }
    assert!(read("true").is_err());
    assert!(read(r#""""#).is_err());
}

#[test]
fn numbers_beyond_64_bits_saturate() {
    let quantity = |text: &str| text.parse::<Quantity>().unwrap();
    assert_eq!(quantity("1e30").value(), i64::MAX);
    assert_eq!(quantity("-1e30").milli_value(), i64::MIN);
    assert_eq!(quantity("9E").milli_value(), i64::MAX);
    assert_eq!(quantity("1e2147483647").value(), i64::MAX);
    let huge = quantity("1e2147483647");
    assert_eq!(&huge + &quantity("1"), huge);
}

#[test]
fn negative_numbers_round_away_from_zero() {
    let quantity: Quantity = "-1.0000000000000000000001".parse().unwrap();
    assert_eq!((quantity.value(), quantity.milli_value()), (-2, -1001));
}

fn any_quantity() -> impl Strategy<Value = Quantity> {
    prop_oneof![
        any::<i64>().prop_map(Quantity::from_milli),
        any::<i64>().prop_map(Quantity::from_bytes),
        "[+-]?[0-9]{1,30}(\\.[0-9]{0,12})?([numkMGTPE]|[KMGTPE]i|e-?[0-9]{1,2})?"
            .prop_map(|text| text.parse().expect("the pattern only makes quantities")),
    ]
}

proptest! {
    #[test]
    fn no_text_panics(text in "\\PC*") {
        let _ = text.parse::<Quantity>();
    }

    #[test]
    fn no_number_like_text_panics(text in "[+-]{0,2}[0-9]{0,40}\\.?[0-9]{0,40}[eEinumkKMGTP]{0,3}[+-]?[0-9]{0,12}") {
        if let Ok(quantity) = text.parse::<Quantity>() {
            prop_assert!(!quantity.to_string().is_empty());
            prop_assert_eq!(&quantity - &quantity, Quantity::ZERO);
            let _ = (quantity.value(), quantity.milli_value(), quantity.to_f64(), quantity.round_up(0));
        }
    }

    #[test]
    fn text_reads_back_to_the_same_value(quantity in any_quantity()) {
        let again: Quantity = quantity.to_string().parse().unwrap();
        // Beyond the suffix `E` Kubernetes omits the suffix, which changes the value; see the
        // table.
        if quantity.value().unsigned_abs() < i64::MAX.unsigned_abs() {
            prop_assert_eq!(&again, &quantity);
        }
        prop_assert_eq!(again.to_string().parse::<Quantity>().unwrap(), again);
    }

    #[test]
    fn millicores_read_back_to_the_same_text(milli in any::<i64>()) {
        let text = Quantity::from_milli(milli).to_string();
        prop_assert_eq!(text.parse::<Quantity>().unwrap().to_string(), text);
    }

    #[test]
    fn addition_is_commutative_and_associative(a in any_quantity(), b in any_quantity(), c in any_quantity()) {
        prop_assert_eq!(&a + &b, &b + &a);
        prop_assert_eq!(&(&a + &b) + &c, &a + &(&b + &c));
        prop_assert_eq!(&(&a + &b) - &b, a);
    }

    #[test]
    fn order_agrees_with_the_sign_of_the_difference(a in any_quantity(), b in any_quantity()) {
        let difference = &a - &b;
        prop_assert_eq!(a > b, !difference.is_zero() && !difference.is_negative());
        prop_assert_eq!(a == b, difference.is_zero());
    }

    #[test]
    fn whole_units_are_the_least_integer_not_nearer_to_zero(milli in any::<i64>()) {
        let away = milli / 1000 + (milli % 1000).signum();
        prop_assert_eq!(Quantity::from_milli(milli).value(), away);
        prop_assert_eq!(Quantity::from_milli(milli).milli_value(), milli);
        prop_assert_eq!(Quantity::from_milli(milli).round_up(0).milli_value(), away.saturating_mul(1000));
    }
}
