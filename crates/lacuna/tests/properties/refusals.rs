//! Refused requests, and parts that break their promises.

use lacuna::catalogue::{Params, Value};
use lacuna::scripted::Scripted;
use lacuna::{
    Canvas, Changes, Description, Error, Options, Pace, Predictor, Ranked, Reads, Result, Revision, Run, StepContext,
    Strategy, Target, decode,
};

use super::cases::*;

#[test]
fn requests_that_cannot_work_are_refused_at_the_start() {
    let start = |strategy: &str, params: Params, length: usize, model: &Description| {
        let canvas = Canvas::with_tail(&[4], length, MASK)?;
        Run::new(canvas, Strategy::parse(strategy, &params)?, Options::default(), model)
    };
    let able = model(0).description().clone();
    let message = |strategy: &str, params: Params, length: usize, model: &Description| {
        start(strategy, params, length, model).expect_err("it is refused").to_string()
    };
    let none = Params::new;
    let of = |name: &'static str, value: Value| params([(name, value)]);
    let shifted = Description { shadows: false, ..able.clone() };
    let short = Description { context: 8, ..able.clone() };
    let plain = Description { credits: false, matrices: false, ..able.clone() };
    let cases = [
        (message("dos", of("layer", 3usize.into()), 4, &able), "layer 3 does not exist: the model has layers 0 to 2"),
        (message("dos", of("heads", 1usize.into()), 4, &able), "head 1 does not exist"),
        (message("dos", none(), 8, &short), "the canvas has 9 positions, but the model's context ends at 8"),
        (message("wino", none(), 4, &shifted), "WINO verifies a token"),
        (message("credit", none(), 4, &plain), "credit cannot be added to the logits of this model here"),
        (message("dos+dawn", none(), 4, &plain), "looks at whole attention matrices"),
        (message("dawn", of("cache", "dual".into()), 4, &able), "decode without a cache"),
        (message("dawn", of("graph_layers", 3usize.into()), 4, &able), "layer 3 does not exist"),
        (message("prior", none(), 4, &able), "'prior' needs frequencies"),
        (message("given", none(), 4, &able), "'given' needs places"),
        (message("prior", of("frequencies", "{}".into()), 4, &able), "must be JSON with num_token"),
        (message("core", of("cache", "dual".into()), 4, &able), "decode without a cache"),
        (message("dos+schedule+replan", none(), 4, &able), "a schedule promises to end"),
        (message("dos", none(), 0, &able), "no masked position"),
        (message("dso", none(), 4, &able), "did you mean 'dos'?"),
        (message("dos+ebb", none(), 4, &able), "did you mean 'eb'?"),
        (message("eb", none(), 4, &able), "write <order>+eb"),
        (message("dos+edit+eb", none(), 4, &able), "'edit' is a revision, which stands elsewhere"),
        (message("dos+eb+top2", none(), 4, &able), "'top2' is a pace, which stands elsewhere"),
        (message("dos+left", none(), 4, &able), "'left' is an order, which stands elsewhere"),
        (message("random+score-threshold", of("threshold", 0.5.into()), 4, &able), "says nothing that a threshold"),
        (message("dos+score-threshold", none(), 4, &able), "'score-threshold' needs threshold"),
        (message("llada+verify", none(), 4, &able), "'llada' is a preset and stands alone"),
        (message("dos+schedule+verify", none(), 4, &able), "a schedule promises to end"),
        (message("dos+verify", none(), 4, &able), "top1 leaves it nothing to do"),
        (message("dos+top0", none(), 4, &able), "would never fill anything"),
        (message("random", of("order_temperature", 1.0.into()), 4, &able), "no scores that a temperature"),
        (message("dos", of("gamma", 0.1.into()), 4, &able), "gamma has no effect with 'dos': it belongs to eb"),
        (
            message("llada", of("eps", 0.1.into()), 4, &able),
            "eps has no effect with schedule llada; set schedule to dream",
        ),
        (
            message("fast-dllm", of("threshold", 7.0.into()), 4, &able),
            "threshold is 7, but it must be more than 0 and at most 1",
        ),
        (message("fast-dllm", of("threshold", 0.0.into()), 4, &able), "threshold is 0"),
    ];
    for (message, expected) in cases {
        assert!(message.contains(expected), "{message}");
    }
    let blank = Scripted::new(VOCABULARY, MASK, |_, _| Vec::new());
    assert!(matches!(start("dos", none(), 4, blank.description()), Err(Error::NoSuchLayer { layers: 0, .. })));
}

#[test]
fn logits_that_are_not_finite_are_reported_with_their_position() {
    for bad in [f32::NAN, f32::INFINITY] {
        let mut model = Scripted::new(VOCABULARY, MASK, move |_, position| {
            let mut logits = vec![0.0; VOCABULARY];
            logits[3] = if position == 2 { bad } else { 1.0 };
            logits
        });
        let canvas = Canvas::with_tail(&[4], 3, MASK).unwrap();
        let strategy = Strategy::parse("confidence", &Params::new()).unwrap();
        let mut runs = [Run::new(canvas, strategy, Options::default(), model.description()).unwrap()];
        let error = decode(&mut runs, &mut model).unwrap_err();
        assert!(matches!(error, Error::NotFinite { position: 2 }), "{error}");
    }
}

#[test]
fn values_outside_their_range_are_refused() {
    for (name, value, expected) in [
        ("gamma", Value::Number(-1.0), "gamma is -1, but it must be 0 or more and at most 1000000"),
        ("gamma", Value::Number(f64::INFINITY), "gamma is inf"),
        ("gamma", Value::Text("much".into()), "gamma is the text 'much', but"),
        ("temperature", Value::Number(1e308), "temperature is 1e308"),
        ("steps", Value::Integer(0), "steps is 0, but it must be a whole number from 1 to 65536"),
        ("steps", Value::Number(2.5), "steps is 2.5"),
        ("heads", Value::Integers(vec![0, 0]), "heads is 0,0, but it must be a list of distinct whole numbers"),
        ("layer", Value::Integers(vec![]), "layer is"),
        ("layer", Value::Text("4-2".into()), "layer is 4-2"),
        ("cache", Value::Text("most".into()), "cache is most, but it must be one of none, blocks, prefix, dual, dkv"),
        ("gamna", Value::Number(1.0), "there is no parameter 'gamna'"),
    ] {
        let message = Params::new().with(name, value).unwrap_err().to_string();
        assert!(message.starts_with(expected), "{message}");
    }
    assert_eq!(params([("layer", "2-4".into())]), params([("layer", Value::Integers(vec![2, 3, 4]))]));
    assert_eq!(params([("steps", 4.0.into())]), params([("steps", 4usize.into())]));
}

/// A pace that never chooses.
#[derive(Clone, Debug)]
struct Never;

impl Pace for Never {
    fn reads(&self, _block: &lacuna::Block, _candidates: usize) -> Reads {
        Reads::First(0)
    }

    fn choose(&mut self, _ranked: &Ranked<'_>) -> Result<Vec<usize>> {
        Ok(Vec::new())
    }
}

/// A pace that chooses a position that is not masked.
#[derive(Clone, Debug)]
struct Stray;

impl Pace for Stray {
    fn reads(&self, _block: &lacuna::Block, _candidates: usize) -> Reads {
        Reads::All
    }

    fn choose(&mut self, _ranked: &Ranked<'_>) -> Result<Vec<usize>> {
        Ok(vec![0])
    }
}

#[test]
fn a_pace_that_cannot_be_followed_ends_the_run_with_an_error() {
    let run = |strategy: Strategy| {
        let canvas = Canvas::with_tail(&[4], 3, MASK).unwrap();
        let mut runs = [Run::new(canvas, strategy, Options::default(), model(0).description()).unwrap()];
        decode(&mut runs, &mut model(0)).unwrap_err()
    };
    assert!(matches!(run(Strategy::new("never", lacuna::Confidence, Never)), Error::NoProgress { step: 0 }));
    assert!(matches!(run(Strategy::new("stray", lacuna::Random, Stray)), Error::NotACandidate { position: 0, .. }));
}

/// A revision that names a position of the prompt.
#[derive(Clone, Debug)]
struct Trespass(bool);

impl Revision for Trespass {
    fn rows(&self, _canvas: &Canvas, _block: &lacuna::Block) -> Vec<Target> {
        Vec::new()
    }

    fn probe(&self, _chosen: &[usize], _context: &StepContext<'_>) -> Result<Vec<usize>> {
        Ok(if self.0 { vec![0] } else { Vec::new() })
    }

    fn revise(&mut self, _chosen: &[usize], _filled: bool, _context: &StepContext<'_>) -> Result<Changes> {
        Ok(Changes::reopen(vec![0]))
    }

    fn settled(&self, _block: &lacuna::Block) -> usize {
        0
    }
}

#[test]
fn a_revision_touches_nothing_but_decided_gaps() {
    for probes in [false, true] {
        let canvas = Canvas::with_tail(&[4], 3, MASK).unwrap();
        let mut strategy = Strategy::new("trespass", lacuna::Confidence, lacuna::TopK(2));
        strategy.revision = Some(Box::new(Trespass(probes)));
        let mut runs = [Run::new(canvas, strategy, Options::default(), model(0).description()).unwrap()];
        let error = decode(&mut runs, &mut model(0)).unwrap_err();
        assert!(matches!(error, Error::NotDecided { position: 0, step: 0 }), "{error}");
    }
}
