//! Rows that a step reads, and the read plan.

use std::collections::HashSet;

use lacuna::catalogue::Params;
use lacuna::scripted::Scripted;
use lacuna::{
    Belief, Canvas, Observation, Options, Predictor, ReadPlan, Result, Row, Run, StopRule, Strategy, Target, View,
    Wrapper, decode,
};

use super::cases::*;

/// Counts what a predictor is asked.
struct Counting {
    model: Scripted,
    reads: usize,
    rows: usize,
}

impl Wrapper for Counting {
    fn inner(&self) -> &dyn Predictor {
        &self.model
    }
    fn inner_mut(&mut self) -> &mut dyn Predictor {
        &mut self.model
    }
    fn read(&mut self, rows: &[Row<'_>]) -> Result<Vec<Belief>> {
        self.reads += 1;
        self.rows += rows.len();
        self.model.read(rows)
    }
}

#[test]
fn dos_pays_for_no_row_that_it_does_not_commit() {
    for (strategy, rows) in
        [("dos", 20), ("dos+top3", 20), ("dos+schedule", 20), ("dos+score-threshold", 20), ("confidence", 210)]
    {
        let mut model = Counting { model: model(3), reads: 0, rows: 0 };
        let canvas = Canvas::with_tail(&[4, 5], 20, MASK).unwrap();
        let strategy = parse(strategy, &params([("threshold", 0.3.into())])).unwrap();
        let mut runs = [Run::new(canvas, strategy, Options::default(), model.description()).unwrap()];
        decode(&mut runs, &mut model).unwrap();
        assert_eq!((model.rows, runs[0].rows_read()), (rows, rows));
    }
}

#[test]
fn rows_that_are_certain_are_read_in_one_batch() {
    let mut model = Counting { model: model(3), reads: 0, rows: 0 };
    let start = |(length, strategy): (usize, &str)| {
        let canvas = Canvas::with_tail(&[4, 5], length, MASK).unwrap();
        let strategy = Strategy::parse(strategy, &Params::new()).unwrap();
        Run::new(canvas, strategy, Options::default(), model.description()).unwrap()
    };
    let mut runs = [(20, "dos"), (7, "confidence"), (20, "random+top2"), (12, "entropy+eb")].map(start);
    decode(&mut runs, &mut model).unwrap();
    assert_eq!(model.reads, 20, "one read for each shared step");
}

/// Checks the rows that are read against the read plan.
struct Planned {
    model: Scripted,
    /// Of the last view: what is read whatever it shows; what is ranked, in order; how much of that.
    certain: Vec<Target>,
    ranked: Vec<Target>,
    expected: usize,
    most: usize,
    read: Vec<Target>,
}

impl Planned {
    /// The plan of the step before was right: all that was certain was read, but for what is verified only now and then, and of what is
    /// ranked those in front.
    fn check(&mut self) {
        let read: HashSet<Target> = self.read.drain(..).collect();
        let shadow = |place: &Target| matches!(place, Target::Shadow(_));
        assert!(
            self.certain.iter().all(|place| shadow(place) || read.contains(place)),
            "{:?} of {read:?}",
            self.certain
        );
        let depth = self.ranked.iter().take_while(|place| read.contains(place)).count();
        assert!((self.expected..=self.most).contains(&depth), "{depth} are not {}..={}", self.expected, self.most);
        let planned: HashSet<Target> = self.certain.iter().chain(&self.ranked[..depth]).copied().collect();
        assert!(read.is_subset(&planned), "{read:?} were read, {planned:?} planned");
    }
}

impl Wrapper for Planned {
    fn inner(&self) -> &dyn Predictor {
        &self.model
    }
    fn inner_mut(&mut self) -> &mut dyn Predictor {
        &mut self.model
    }
    fn observe(&mut self, views: &[View<'_>]) -> Result<Vec<Observation>> {
        self.check();
        let seen = self.model.observe(views)?;
        let ReadPlan { certain, ranked, expected, most, stop, rank } = views[0].plan;
        let (sources, temperature) = rank.map_or((0, 0.0), |rank| (rank.sources, rank.temperature));
        let score = |row: &&Row<'_>| -> f64 {
            let scores = seen[0].dependency[..sources].iter().map(|scores| f64::from(scores[row.target.position()]));
            let mean = scores.sum::<f64>() / sources as f64;
            if temperature > 0.0 { mean / temperature + row.draw.order_noise() } else { mean }
        };
        let mut ranked: Vec<&Row<'_>> = ranked.iter().collect();
        if sources > 0 {
            ranked.sort_by(|a, b| score(b).total_cmp(&score(a)));
        }
        self.certain = certain.iter().map(|row| row.target).collect();
        self.ranked = ranked.iter().map(|row| row.target).collect();
        (self.expected, self.most) = (expected, most);
        match stop {
            None => {}
            Some(StopRule::Score(least)) => {
                self.most = ranked.iter().take_while(|row| score(row) >= least).count().max(1);
            }
            Some(StopRule::Sum { bound, .. }) => {
                let rows: Vec<Row<'_>> = ranked.iter().map(|row| **row).collect();
                let entropies: Vec<f64> = self.model.read(&rows)?.iter().map(|belief| belief.entropy).collect();
                let excess = |count: usize| {
                    entropies[..count].iter().sum::<f64>() - entropies[..count].iter().copied().fold(0.0, f64::max)
                };
                let doubled = std::iter::successors(Some(expected), |count| Some(2 * count));
                self.most =
                    doubled.take_while(|count| *count < most).find(|count| excess(*count) > bound).unwrap_or(most);
            }
        }
        Ok(seen)
    }
    fn read(&mut self, rows: &[Row<'_>]) -> Result<Vec<Belief>> {
        self.read.extend(rows.iter().map(|row| row.target));
        self.model.read(rows)
    }
}

#[test]
fn the_rows_read_are_those_of_the_plan() {
    for name in [
        "dos",
        "dos+top3",
        "dos+eb",
        "dos+threshold",
        "random",
        "random+eb",
        "confidence",
        "margin+eb",
        "entropy+schedule",
        "fast-dllm",
        "klass",
        "dos+klass",
        "saber",
        "wino",
        "dos+score-threshold",
        "dos+schedule",
        "dos+threshold+backtrack",
        "dos+eb+backtrack",
        "dos+top3+verify",
        "random+eb+verify",
        "p2",
        "hierarchy-remask",
        "dos+top3+regroup",
        "remdm",
        "dos+top2+remdm",
        "dos+credit",
        "dawn",
        "dos+dawn",
    ] {
        let can_be_drawn = !name.starts_with("random") && !name.ends_with("score-threshold");
        for order_temperature in [0.0, 0.3].into_iter().take(1 + usize::from(can_be_drawn)) {
            let (certain, ranked, read) = Default::default();
            let mut model = Planned { model: model(3), certain, ranked, expected: 0, most: 0, read };
            let canvas = Canvas::with_tail(&[4, 5], 20, MASK).unwrap();
            let drawn = params([("threshold", 0.3.into()), ("order_temperature", order_temperature.into())]);
            let strategy = parse(name, &drawn).unwrap();
            let mut runs = [Run::new(canvas, strategy, Options::default(), model.description()).unwrap()];
            decode(&mut runs, &mut model).unwrap();
            assert!(!(model.certain.is_empty() && model.ranked.is_empty()), "{name}");
            model.check();
        }
    }
}
