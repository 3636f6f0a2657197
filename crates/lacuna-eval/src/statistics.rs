//! The statistics of a comparison.

/// z for 95%.
const Z: f64 = 1.959_963_984_540_054;

/// The 95% interval of a share of `correct` in `n` (Wilson 1927). It is the whole of 0 to 1 if nothing was seen.
pub fn wilson(correct: usize, n: usize) -> [f64; 2] {
    if n == 0 {
        return [0.0, 1.0];
    }
    let (n, share) = (n as f64, correct as f64 / n as f64);
    let centre = share + Z * Z / (2.0 * n);
    let spread = Z * (share * (1.0 - share) / n + Z * Z / (4.0 * n * n)).sqrt();
    let scale = 1.0 + Z * Z / n;
    [((centre - spread) / scale).max(0.0), ((centre + spread) / scale).min(1.0)]
}

/// Exact two-sided McNemar test (1947): the probability of a difference between `gained` and `lost` at least this large if
/// both are equally likely.
pub fn mcnemar(gained: usize, lost: usize) -> f64 {
    let n = gained + lost;
    let fewer = gained.min(lost);
    // Sums of binomial probabilities in logarithms: 2^-n underflows early.
    let mut term = -(n as f64) * std::f64::consts::LN_2;
    let mut tail = 0.0;
    for k in 0..=fewer {
        tail += term.exp();
        term += ((n - k) as f64).ln() - ((k + 1) as f64).ln();
    }
    (2.0 * tail).min(1.0)
}

/// The p-values corrected for their number (Holm 1979): each is the level at which all true hypotheses together are wrongly
/// rejected with at most that probability.
pub fn holm(values: &[f64]) -> Vec<f64> {
    let mut sorted: Vec<usize> = (0..values.len()).collect();
    sorted.sort_by(|a, b| values[*a].total_cmp(&values[*b]));
    let mut corrected = vec![0.0; values.len()];
    let mut least = 0.0;
    for (rank, at) in sorted.into_iter().enumerate() {
        least = f64::max(least, values[at] * (values.len() - rank) as f64).min(1.0);
        corrected[at] = least;
    }
    corrected
}

/// Spearman's rank correlation of a list with the order it is in; equal values share their mean rank. `None` if there are fewer
/// than three values or all are equal.
pub fn spearman(values: &[f64]) -> Option<f64> {
    let n = values.len();
    let mut sorted: Vec<usize> = (0..n).collect();
    sorted.sort_by(|a, b| values[*a].total_cmp(&values[*b]));
    let mut ranks = vec![0.0; n];
    for group in sorted.chunk_by(|a, b| values[*a] == values[*b]) {
        let first = sorted.partition_point(|&other| values[other] < values[group[0]]);
        group.iter().for_each(|&at| ranks[at] = first as f64 + (group.len() - 1) as f64 / 2.0);
    }
    let mean = (n as f64 - 1.0) / 2.0;
    let product = |(at, rank): (usize, &f64)| (at as f64 - mean) * (rank - mean);
    let covariance: f64 = ranks.iter().enumerate().map(product).sum();
    let of_places: f64 = (0..n).map(|at| (at as f64 - mean).powi(2)).sum();
    let of_values: f64 = ranks.iter().map(|rank| (rank - mean).powi(2)).sum();
    (n >= 3 && of_values > 0.0).then(|| covariance / (of_places * of_values).sqrt())
}

/// Accuracy under parallelism, as the d3LLM leaderboard defines it: the area under accuracy in percent over tokens per
/// forward pass, weighted by `exp(-3 (1 - y / best))`, without points more than 5 percent below the slowest.
///
/// `points` are (tokens per forward pass, accuracy in percent) of one method; `best` is the highest accuracy on the task.
pub fn accuracy_under_parallelism(points: &[(f64, f64)], best: f64) -> f64 {
    const PENALTY: f64 = 3.0;
    const SLACK: f64 = 5.0;
    let mut points = points.to_vec();
    points.sort_by(|a, b| a.0.total_cmp(&b.0).then(b.1.total_cmp(&a.1)));
    let Some(&(first, start)) = points.first() else { return 0.0 };
    points.retain(|(_, accuracy)| *accuracy >= start - SLACK);
    let weighted = |accuracy: f64| {
        let weight = if best > 0.0 { (-PENALTY * (1.0 - accuracy / best)).exp().min(1.0) } else { 1.0 };
        accuracy * weight
    };
    let strips =
        points.windows(2).map(|pair| (pair[1].0 - pair[0].0) * (weighted(pair[0].1) + weighted(pair[1].1)) / 2.0);
    first * start + strips.sum::<f64>()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-6
    }

    #[test]
    fn intervals_are_those_of_the_tables() {
        // Computed apart from the formula, in Python; 81 of 263 is the example of Newcombe (1998), 0.2553 to 0.3662.
        for (correct, n, low, high) in
            [(0, 10, 0.0, 0.277_532_8), (5, 10, 0.236_593_1, 0.763_406_9), (81, 263, 0.255_288_5, 0.366_209_6)]
        {
            let [a, b] = wilson(correct, n);
            assert!((a - low).abs() < 1e-6 && (b - high).abs() < 1e-6, "{correct}/{n}: {a} {b}");
        }
        assert_eq!(wilson(0, 0), [0.0, 1.0]);
        assert!(wilson(7, 7)[1] == 1.0);
    }

    #[test]
    fn the_paired_test_is_the_binomial_one() {
        assert!(close(mcnemar(0, 0), 1.0));
        assert!(close(mcnemar(5, 5), 1.0));
        assert!(close(mcnemar(0, 5), 0.0625));
        assert!(close(mcnemar(1, 9), 0.021_484_375));
        assert!(close(mcnemar(9, 1), mcnemar(1, 9)));
        assert!(mcnemar(100, 1000) < 1e-100 && mcnemar(5000, 5000) > 0.98);
    }

    #[test]
    fn corrections_are_those_of_r() {
        // p.adjust(c(0.01, 0.04, 0.03, 0.005), "holm")
        let corrected = holm(&[0.01, 0.04, 0.03, 0.005]);
        assert!(corrected.iter().zip([0.03, 0.06, 0.06, 0.02]).all(|(a, b)| close(*a, b)), "{corrected:?}");
        assert_eq!((holm(&[0.5, 0.9]), holm(&[])), (vec![1.0, 1.0], vec![]));
    }

    #[test]
    fn rank_correlations_are_those_of_scipy() {
        assert_eq!(spearman(&[3.0, 5.0, 9.0]), Some(1.0));
        assert_eq!(spearman(&[9.0, 5.0, 3.0]), Some(-1.0));
        assert!(close(spearman(&[1.0, 1.0, 2.0, 0.0]).unwrap(), -0.316_227_766));
        assert_eq!((spearman(&[1.0, 2.0]), spearman(&[4.0; 5])), (None, None));
    }

    #[test]
    fn accuracy_under_parallelism_follows_the_formula() {
        assert!(close(accuracy_under_parallelism(&[(1.0, 80.0)], 80.0), 80.0));
        assert!(close(accuracy_under_parallelism(&[(2.0, 80.0), (1.0, 80.0)], 80.0), 160.0));
        let weight = (-3.0f64 * (1.0 - 76.0 / 80.0)).exp();
        let expected = 80.0 + (80.0 + 76.0 * weight) / 2.0;
        assert!(close(accuracy_under_parallelism(&[(1.0, 80.0), (2.0, 76.0)], 80.0), expected));
        // A point far below the first does not count.
        assert!(close(accuracy_under_parallelism(&[(1.0, 80.0), (9.0, 10.0)], 80.0), 80.0));
        assert_eq!(accuracy_under_parallelism(&[], 80.0), 0.0);
    }
}
