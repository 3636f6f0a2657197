//! Runs: whole, batched, killed and resumed, sharded, and refused.

mod common;

use std::path::Path;

use common::{Bytes, evaluation, model, orders, trial};
use lacuna_eval::Error;
use lacuna_eval::run::{Entry, Evaluation, Folder, Part, Sample, Trial, evaluate};

fn run(evaluation: &Evaluation) -> lacuna_eval::Result<Vec<Entry>> {
    evaluate(evaluation, &mut [&mut model()], &Bytes, &mut |_| ())
}

fn samples(out: &Path) -> Vec<Vec<Sample>> {
    let folder = Folder::open(out).unwrap();
    let trials = folder.configuration.trials.iter();
    let untimed = |mut sample: Sample| {
        sample.seconds = 0.0;
        sample
    };
    trials.map(|trial| folder.samples(trial).unwrap().into_iter().map(untimed).collect()).collect()
}

fn untimed(entries: &[Entry]) -> Vec<Entry> {
    let mut entries = entries.to_vec();
    for entry in &mut entries {
        (entry.seconds_per_sample, entry.tokens_per_second) = (0.0, 0.0);
    }
    entries
}

#[test]
fn results_say_what_was_measured() {
    let out = tempfile::tempdir().unwrap();
    let trials = vec![trial("words", "confidence"), trial("words", "dos+eb"), trial("code", "dos+eb")];
    let entries = run(&evaluation(out.path(), trials)).unwrap();
    let summary: Vec<(&str, usize, usize)> = entries.iter().map(|e| (e.strategy.as_str(), e.n, e.correct)).collect();
    // Of the first six, the third word problem is answered wrongly.
    assert_eq!(summary, [("confidence", 6, 5), ("dos+eb", 6, 5), ("dos+eb", 6, 6)]);
    assert!(entries[0].nfe > entries[1].nfe && entries[1].nfe >= 1.0);
    assert_eq!((&entries[0].layer, &entries[1].layer), (&serde_json::Value::Null, &0.into()));
    assert!(entries[0].interval[0] < entries[0].accuracy && entries[0].accuracy < entries[0].interval[1]);

    let text = std::fs::read_to_string(out.path().join("results.json")).unwrap();
    let written: Vec<serde_json::Value> = serde_json::from_str(&text).unwrap();
    for field in [
        "task",
        "model",
        "strategy",
        "layer",
        "gen_length",
        "block_length",
        "n",
        "correct",
        "accuracy",
        "nfe",
        "tokens_per_second",
        "seconds_per_sample",
    ] {
        assert!(written.iter().all(|entry| entry.get(field).is_some()), "{field}");
    }
    let sample = &samples(out.path())[0][0];
    assert!(sample.answer.contains("####") && sample.tokens == sample.answer.len());
    assert_eq!(sample.order.len(), 256);
}

#[test]
fn orders_are_measured_by_what_they_decide_too_early() {
    let out = tempfile::tempdir().unwrap();
    let of = |task: &str, strategy: &str| Trial {
        protocol: "orders".into(),
        gen_length: 64,
        block_length: 64,
        ..trial(task, strategy)
    };
    let tasks = ["first", "backward", "sudoku"];
    let trials =
        tasks.iter().flat_map(|task| ["given", "left", "right", "left+top64"].map(|strategy| of(task, strategy)));
    let evaluation = Evaluation { data: Some(orders()), ..evaluation(out.path(), trials.collect()) };
    for entries in run(&evaluation).unwrap().chunks(4) {
        let [given, left, right, at_once] = entries else { panic!("four of each") };
        let task = given.task.as_str();
        assert_eq!((given.early, given.agreement), (Some(0.0), Some(1.0)), "{task}");
        assert_eq!((left.place_correlation, right.place_correlation), (Some(1.0), Some(-1.0)), "{task}");
        assert!(left.early_ends == Some(0.0) && right.early_ends > Some(0.5), "{task}");
        assert_eq!((at_once.agreement, at_once.place_correlation), (Some(0.0), None), "{task}");
        assert!(left.early > Some(0.0) && at_once.early > Some(0.0), "{task}");
        // Read from the last line on, a chain that is written backwards is in order.
        assert_eq!(right.early == Some(0.0), task == "backward", "{task}");
    }
}

#[test]
fn ends_come_last_or_never_where_a_trial_says_so() {
    let out = tempfile::tempdir().unwrap();
    let with = |rule: &str| {
        let trial = trial("words", "right");
        Trial { settings: trial.settings.clone().with(rule, true).unwrap(), ..trial }
    };
    let entries =
        run(&evaluation(out.path(), vec![trial("words", "right"), with("defer_eos"), with("suppress_eos")])).unwrap();
    let ends: Vec<Option<f64>> = entries.iter().map(|entry| entry.early_ends).collect();
    assert_eq!(ends, [Some(1.0), Some(0.0), Some(0.0)]);
    assert_eq!(entries[2].tokens, 256.0);
}

#[test]
fn a_batch_changes_nothing() {
    let (one, many) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let trials = || ["random", "confidence+eb", "dos+eb", "klass"].map(|name| trial("words", name)).to_vec();
    let alone = run(&evaluation(one.path(), trials())).unwrap();
    let together = run(&Evaluation { batch: 4, ..evaluation(many.path(), trials()) }).unwrap();
    assert_eq!(samples(one.path()), samples(many.path()));
    assert_eq!(untimed(&alone), untimed(&together));
}

#[test]
fn a_run_that_is_killed_anywhere_resumes_to_the_same_results() {
    let whole = tempfile::tempdir().unwrap();
    let trials = || vec![trial("words", "dos+eb"), trial("code", "confidence+eb")];
    let expected = run(&evaluation(whole.path(), trials())).unwrap();
    let folder = Folder::open(whole.path()).unwrap();
    let file = whole.path().join("samples").join(folder.configuration.trials[0].file_name());
    let text = std::fs::read(&file).unwrap();
    // Killed after any number of bytes, in the middle of a line too.
    for kept in [0, 1, text.len() / 3, text.len() / 2, text.len() - 1] {
        let killed = tempfile::tempdir().unwrap();
        std::fs::create_dir(killed.path().join("samples")).unwrap();
        std::fs::copy(whole.path().join("configuration.json"), killed.path().join("configuration.json")).unwrap();
        std::fs::write(killed.path().join("samples").join(file.file_name().unwrap()), &text[..kept]).unwrap();
        let resumed = run(&evaluation(killed.path(), trials())).unwrap();
        assert_eq!(samples(killed.path()), samples(whole.path()), "killed after {kept} bytes");
        assert_eq!(untimed(&resumed), untimed(&expected));
    }
}

#[test]
fn replicas_give_the_results_of_one_model() {
    let trials = || vec![trial("words", "dos+eb"), trial("words", "confidence+top2")];
    let (one, three) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let expected = run(&evaluation(one.path(), trials())).unwrap();
    let (mut a, mut b, mut c) = (model(), model(), model());
    let request = evaluation(three.path(), trials());
    let found = evaluate(&request, &mut [&mut a, &mut b, &mut c], &Bytes, &mut |_| ()).unwrap();
    assert_eq!(untimed(&found), untimed(&expected));
    let sorted = |out| {
        let mut trials = samples(out);
        trials.iter_mut().for_each(|samples| samples.sort_by_key(|sample| sample.row));
        trials
    };
    assert_eq!(sorted(three.path()), sorted(one.path()));
}

#[test]
fn what_is_done_is_not_done_again() {
    let out = tempfile::tempdir().unwrap();
    let request = evaluation(out.path(), vec![trial("words", "dos+eb")]);
    run(&request).unwrap();
    let before = std::fs::read(out.path().join("results.json")).unwrap();
    let mut left = usize::MAX;
    evaluate(&request, &mut [&mut model()], &Bytes, &mut |progress| left = progress.left).unwrap();
    assert_eq!(left, 0);
    assert_eq!(std::fs::read(out.path().join("results.json")).unwrap(), before);
}

#[test]
fn progress_counts_and_knows_the_running_accuracy() {
    let out = tempfile::tempdir().unwrap();
    let mut seen = Vec::new();
    let request = evaluation(out.path(), vec![trial("words", "dos+eb"), trial("words", "dos+top4")]);
    evaluate(&request, &mut [&mut model()], &Bytes, &mut |progress| {
        seen.push((progress.number, progress.done, progress.correct, progress.left));
    })
    .unwrap();
    assert_eq!(seen[0], (1, 0, 0, 12));
    assert_eq!(seen[3], (1, 3, 2, 9));
    assert_eq!(*seen.last().unwrap(), (2, 6, 5, 0));
}

#[test]
fn a_folder_of_another_configuration_is_refused_and_kept() {
    let out = tempfile::tempdir().unwrap();
    run(&evaluation(out.path(), vec![trial("words", "dos+eb")])).unwrap();
    let before = samples(out.path());
    let mut gamma = trial("words", "dos+eb");
    gamma.settings = gamma.settings.with("gamma", 0.5).unwrap();
    let base = || evaluation(out.path(), vec![trial("words", "dos+eb")]);
    let others = [
        Evaluation { limit: Some(7), ..base() },
        Evaluation { seed: 1, ..base() },
        Evaluation { part: Part::Test, ..base() },
        Evaluation { shard: "1/2".parse().unwrap(), ..base() },
        Evaluation { trials: vec![gamma], ..base() },
        Evaluation { trials: vec![trial("words", "dos+eb"), trial("words", "random")], ..base() },
        Evaluation { model: lacuna_eval::run::Model { name: "other".into(), ..Default::default() }, ..base() },
    ];
    for other in others {
        let error = run(&other).unwrap_err();
        assert!(matches!(error, Error::OtherConfiguration { .. }), "{error}");
        assert_eq!(error.to_string().lines().count(), 1);
    }
    assert_eq!(samples(out.path()), before);
}

#[test]
fn samples_of_an_unknown_configuration_are_not_gone_on_with() {
    let out = tempfile::tempdir().unwrap();
    let request = evaluation(out.path(), vec![trial("words", "dos+eb")]);
    run(&request).unwrap();
    let before = samples(out.path());
    let configuration = std::fs::read(out.path().join("configuration.json")).unwrap();
    std::fs::remove_file(out.path().join("configuration.json")).unwrap();
    let error = run(&Evaluation { seed: 1, ..request }).unwrap_err().to_string();
    assert!(error.contains("no configuration.json says of what") && error.lines().count() == 1, "{error}");
    std::fs::write(out.path().join("configuration.json"), configuration).unwrap();
    assert_eq!(samples(out.path()), before);
}

#[test]
fn two_runs_do_not_write_to_one_folder() {
    let out = tempfile::tempdir().unwrap();
    let request = evaluation(out.path(), vec![trial("words", "dos+eb")]);
    let mut inner = String::new();
    evaluate(&request, &mut [&mut model()], &Bytes, &mut |_| inner = run(&request).unwrap_err().to_string()).unwrap();
    assert!(inner.starts_with("another run is writing to"));
}

#[test]
fn shards_divide_the_problems() {
    let whole = tempfile::tempdir().unwrap();
    run(&evaluation(whole.path(), vec![trial("words", "dos+eb")])).unwrap();
    let mut parts = Vec::new();
    for shard in ["1/3", "2/3", "3/3"] {
        let out = tempfile::tempdir().unwrap();
        run(&Evaluation { shard: shard.parse().unwrap(), ..evaluation(out.path(), vec![trial("words", "dos+eb")]) })
            .unwrap();
        parts.extend(samples(out.path()).remove(0));
    }
    parts.sort_by_key(|sample| sample.row);
    assert_eq!(parts, samples(whole.path()).remove(0));
    assert!("0/3".parse::<lacuna_eval::run::Shard>().is_err() && "4/3".parse::<lacuna_eval::run::Shard>().is_err());
}

#[test]
fn nonsense_is_refused_before_anything_is_written() {
    let out = tempfile::tempdir().unwrap();
    let path = out.path().join("results");
    let base = || trial("words", "dos+eb");
    let mut far = base();
    far.settings = far.settings.with("layer", 9usize).unwrap();
    let wrong = [
        lacuna_eval::run::Trial { task: "nothing".into(), ..base() },
        lacuna_eval::run::Trial { protocol: "nothing".into(), ..base() },
        lacuna_eval::run::Trial { strategy: "nothing".into(), ..base() },
        lacuna_eval::run::Trial { block_length: 100, ..base() },
        far,
    ];
    for wrong in wrong {
        let error = run(&evaluation(&path, vec![base(), wrong])).unwrap_err().to_string();
        assert_eq!(error.lines().count(), 1, "{error}");
        assert!(!path.exists(), "{error}");
    }
    assert!(run(&evaluation(&path, vec![base(), base()])).unwrap_err().to_string().contains("twice"));
    assert!(run(&evaluation(&path, Vec::new())).is_err());
}

#[test]
fn bad_data_is_named_with_its_line() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("words.jsonl");
    let line = r#"{"id": "a", "prompt": "q", "answer": "1 #### 1", "final": 1}"#;
    let cases = [
        (format!("{line}\n{{\"id\": \"b\", \"pro\n{line}\n").into_bytes(), "line 2: it is not JSON"),
        (format!("{line}\n{line}\n{{\"id\": \"c\"}}\n").into_bytes(), "line 3: 'prompt' is missing"),
        (Vec::new(), "the file is empty"),
        (vec![0x1f, 0x8b, 8, 0, 0xff], "words.jsonl is compressed: unpack it"),
        (b"PAR1\xff\xfe".to_vec(), "words.jsonl is Parquet"),
    ];
    for (text, expected) in cases {
        std::fs::write(&data, text).unwrap();
        let request = Evaluation {
            data: Some(data.clone()),
            ..evaluation(&folder.path().join("out"), vec![trial("words", "dos")])
        };
        let error = run(&request).unwrap_err().to_string();
        assert!(error.contains(expected) && error.lines().count() == 1, "{error}");
    }
    let missing = Evaluation {
        data: Some("/nowhere".into()),
        ..evaluation(&folder.path().join("out"), vec![trial("words", "dos")])
    };
    let error = run(&missing).unwrap_err().to_string();
    assert!(error.contains("/nowhere does not exist"), "{error}");
    assert!(!folder.path().join("out").exists());
}
