//! Figure 2 of the paper: only the order that follows the dependencies recovers the joint distribution.

#[allow(unreachable_pub, reason = "written as an example, whose items no other crate can reach")]
#[path = "../examples/figure2.rs"]
mod figure2;

use figure2::{chosen_sets, completions, distance, factorizations, joint};

#[test]
fn the_joint_is_a_distribution() {
    let total: f64 = completions().map(|full| joint(&full)).sum();
    assert!((total - 1.0).abs() < 1e-12);
}

#[test]
fn only_factorization_d_recovers_the_joint() {
    let [a, b, c, d] = factorizations().map(|(_, sets)| distance(&sets));
    assert!(a > 0.01 && b > 0.01 && c > 0.01, "{a} {b} {c}");
    assert!(d < 1e-12, "{d}");
}

#[test]
fn dos_finds_factorization_d_and_confidence_finds_c() {
    let [_, _, (_, c), (_, d)] = factorizations();
    assert_eq!(chosen_sets("dos+top2").unwrap(), d);
    assert_eq!(chosen_sets("confidence+top2").unwrap(), c);
}

#[test]
fn one_token_at_a_time_is_exact_in_any_order() {
    for order in [[1, 2, 3, 4], [4, 3, 2, 1], [3, 1, 4, 2]] {
        assert!(distance(&order.map(|position| vec![position])) < 1e-12);
    }
}
