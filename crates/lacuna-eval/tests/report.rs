//! Reports: tables, comparisons, plots, and the merging of shards.

mod common;

use std::path::Path;

use common::{Bytes, evaluation, model, trial};
use lacuna_eval::report::{Report, Unfinished, compare, merge, plots};
use lacuna_eval::run::{Evaluation, Folder, Trial, evaluate};
use lacuna_eval::tune::tune;

fn run(evaluation: &Evaluation) {
    evaluate(evaluation, &mut [&mut model()], &Bytes, &mut |_| ()).unwrap();
}

fn labelled(strategy: &str, block_length: usize, layer: usize, label: &str) -> Trial {
    let mut trial = trial("words", strategy);
    if trial.uses_attention() {
        trial.settings = trial.settings.with("layer", layer).unwrap();
    }
    Trial { block_length, labels: vec![label.into()], ..trial }
}

/// One run with everything that a report shows.
fn report() -> Report {
    let out = tempfile::tempdir().unwrap();
    let mut trials = vec![
        labelled("confidence", 256, 0, "Table 1: top-1"),
        labelled("random", 256, 0, "Table 1: top-1"),
        labelled("confidence+eb", 256, 0, "Table 2: parallel"),
        labelled("confidence+eb", 32, 0, "Figure 3: block length"),
    ];
    trials.extend((0..3).map(|layer| labelled("dos+eb", 256, layer, "Figure 4: layer")));
    let mut request = evaluation(out.path(), trials);
    request.model.family = "LLaDA".into();
    run(&request);
    merge(&[Folder::open(out.path()).unwrap()]).unwrap()
}

#[test]
fn the_report_has_tables_comparisons_and_the_papers_numbers() {
    let report = report();
    let text = report.markdown(&[]);
    for expected in [
        "# Results of scripted",
        "## Table 1: top-1",
        "| confidence | 256 | one | 6 | **83.3** | 43.6–97.0 |",
        "| 31.69 | 512.00 |",
        "| random | 256 | one | 6 | **83.3** | 43.6–97.0 | +0 −0 | 1.000 |",
        "dos+eb (layer 2)",
        "McNemar",
    ] {
        assert!(text.contains(expected), "{expected} is missing in\n{text}");
    }
    let csv = report.csv();
    assert_eq!(csv.lines().count(), 1 + report.measurements.len());
    assert!(csv.lines().all(|line| line.split(',').count() == 26), "{csv}");
    let json = report.json();
    assert_eq!(json["measurements"].as_array().unwrap().len(), report.measurements.len());
    // One pair in Table 1 and three in Figure 4.
    assert_eq!(json["comparisons"].as_array().unwrap().len(), 4);
    assert_eq!(json["measurements"][0]["correct"], 5);
}

#[test]
fn the_others_are_compared_with_the_one_named() {
    let mut report = report();
    let error = report.set_beside("dos").unwrap_err().to_string();
    assert!(error.contains("'dos'") && error.contains("'confidence'"), "{error}");
    report.set_beside("dos+eb (layer 1)").unwrap();
    let text = report.markdown(&[]);
    assert!(text.contains("| Beside dos+eb (layer 1) | p | Holm |"), "{text}");
    let row = |title: &str| text.lines().find(|line| line.starts_with(&format!("| {title} | 256 |"))).unwrap();
    // Two comparisons in Figure 4, none where the one named is not.
    assert!(row("dos+eb (layer 0)").contains("| +0 −0 | 1.000 | 1.000 |"), "{text}");
    assert!(row("dos+eb (layer 1)").contains("| – | – | – |") && row("confidence").contains("| – | – | – |"), "{text}");
}

#[test]
fn single_heads_stand_in_a_grid() {
    let out = tempfile::tempdir().unwrap();
    let with_head = |layer: usize| {
        let trial = labelled("dos+eb", 256, layer, "Single heads");
        Trial { settings: trial.settings.clone().with("heads", &[0][..]).unwrap(), ..trial }
    };
    run(&evaluation(out.path(), vec![with_head(0), with_head(2), labelled("dos+eb", 256, 1, "Layers")]));
    let text = merge(&[Folder::open(out.path()).unwrap()]).unwrap().markdown(&[]);
    let grid: Vec<&str> =
        text.split("## Heads").nth(1).expect("a grid").lines().filter(|l| l.starts_with('|')).collect();
    assert!(
        grid[0] == "| Layer | head 0 |" && grid[2].starts_with("| 0 | 8") && grid[3].starts_with("| 2 | "),
        "{grid:?}"
    );
    assert_eq!(grid.len(), 4, "{text}");
}

#[test]
fn what_is_not_all_there_says_so_and_is_not_the_best() {
    let out = tempfile::tempdir().unwrap();
    run(&evaluation(out.path(), ["dos", "dos+eb", "random"].map(|strategy| trial("words", strategy)).into()));
    let mut folder = Folder::open(out.path()).unwrap();
    let whole = merge(std::slice::from_ref(&folder)).unwrap();
    assert_eq!(whole.unfinished(), None);
    assert!(!whole.markdown(&[]).contains("Unfinished") && whole.json()["unfinished"].is_null());

    // The first two answers are right, the third is wrong.
    let file = |trial: usize| out.path().join("samples").join(folder.configuration.trials[trial].file_name());
    let text = std::fs::read_to_string(file(0)).unwrap();
    std::fs::write(file(0), text.lines().take(2).map(|line| format!("{line}\n")).collect::<String>()).unwrap();
    std::fs::remove_file(file(2)).unwrap();
    let report = merge(std::slice::from_ref(&folder)).unwrap();
    let unfinished = Unfinished { answers: 8, of: 18, whole: 1, partial: 1, missing: 1 };
    assert_eq!(report.unfinished(), Some(unfinished));
    let text = report.markdown(&[]);
    for expected in [
        "**Unfinished: 8 of 18 answers are there.** Measurements: 1 whole, 1 in part",
        "| 256 | one | 2 of 6 | 100.0 |",
        "| 256 | one | 6 | **83.3** |",
    ] {
        assert!(text.contains(expected), "{expected} is missing in\n{text}");
    }
    assert_eq!(
        (&report.json()["measurements"][0]["n"], &report.json()["measurements"][0]["problems"]),
        (&2.into(), &6.into())
    );
    assert!(report.csv().lines().nth(1).unwrap().contains(",256,256,2,6,2,"), "{}", report.csv());
    assert!(plots(&report).iter().all(|plot| plot.title.starts_with("words (unfinished): ")));

    // A folder from before this was recorded.
    folder.configuration.problems.clear();
    assert_eq!(merge(&[folder]).unwrap().unfinished(), None);
}

#[test]
fn comparisons_name_what_was_gained_and_lost() {
    let report = report();
    let mut changed = report.measurements[0].clone();
    changed.samples[0].correct = false;
    changed.samples[2].correct = true;
    changed.samples.remove(5);
    let comparison = compare(&changed, &report.measurements[0]);
    assert_eq!((comparison.shared, comparison.gained.len(), comparison.lost.len()), (5, 1, 1));
    assert_eq!(comparison.gained[0], report.measurements[0].samples[2].id);
    assert!((comparison.p - 1.0).abs() < 1e-12);
}

#[test]
fn plots_are_well_formed_and_say_what_they_show() {
    let report = report();
    let plots = plots(&report);
    let files: Vec<&str> = plots.iter().map(|plot| plot.file.as_str()).collect();
    assert_eq!(files, ["words-nfe.svg", "words-blocks.svg", "words-layers.svg", "words-order.svg"]);
    for plot in &plots {
        assert!(plot.svg.starts_with("<svg ") && plot.svg.ends_with("</svg>\n"));
        assert!(plot.svg.contains("prefers-color-scheme:dark") && plot.svg.contains("aria-label"));
        assert!(!plot.svg.contains("NaN") && !plot.svg.contains("inf"), "{}", plot.file);
        for tag in ["text", "style"] {
            let count = |text: &str| plot.svg.matches(text).count();
            assert_eq!(count(&format!("<{tag}")), count(&format!("</{tag}>")), "{}", plot.file);
        }
    }
    let folder = match std::env::var_os("LACUNA_PLOTS") {
        Some(folder) => Path::new(&folder).to_path_buf(),
        None => tempfile::tempdir().unwrap().keep(),
    };
    let written = report.write(&folder).unwrap();
    assert_eq!(written.len(), 3 + plots.len());
    assert!(std::fs::read_to_string(folder.join("report.md")).unwrap().contains("![words: accuracy over"));
    if std::env::var_os("LACUNA_PLOTS").is_none() {
        std::fs::remove_dir_all(folder).unwrap();
    }
}

#[test]
fn a_page_keeps_what_its_author_wrote() {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("results.md");
    let read = || std::fs::read_to_string(&page).unwrap();
    let report = report();
    report.write(&page).unwrap();
    assert!(
        read().starts_with("<!-- measured -->\n\n# Results of scripted") && read().contains("](results/words-nfe.svg)")
    );
    assert!(folder.path().join("results/report.csv").exists());

    std::fs::write(&page, "# Mine\n").unwrap();
    let error = report.write(&page).unwrap_err().to_string();
    assert!(error.contains("<!-- measured -->") && error.lines().count() == 1, "{error}");
    assert_eq!(read(), "# Mine\n");
    std::fs::write(&page, "# Mine\n\n<!-- measured -->\nold").unwrap();
    report.write(&page).unwrap();
    let first = read();
    assert!(first.starts_with("# Mine\n\n<!-- measured -->\n\n# Results of") && !first.contains("old"), "{first}");
    report.write(&page).unwrap();
    assert_eq!(read(), first);
}

#[test]
fn shards_are_merged_and_mismatches_refused() {
    let folders: Vec<tempfile::TempDir> = (0..5).map(|_| tempfile::tempdir().unwrap()).collect();
    let trials = || vec![trial("words", "dos+eb")];
    run(&evaluation(folders[0].path(), trials()));
    for (folder, shard) in folders[1..3].iter().zip(["1/2", "2/2"]) {
        run(&Evaluation { shard: shard.parse().unwrap(), ..evaluation(folder.path(), trials()) });
    }
    run(&Evaluation { shard: "2/2".parse().unwrap(), seed: 9, ..evaluation(folders[3].path(), trials()) });
    let open = |numbers: &[usize]| {
        numbers.iter().map(|number| Folder::open(folders[*number].path()).unwrap()).collect::<Vec<_>>()
    };
    let whole = merge(&open(&[0])).unwrap();
    let merged = merge(&open(&[2, 1])).unwrap();
    let ids =
        |report: &Report| report.measurements[0].samples.iter().map(|s| (s.id.clone(), s.correct)).collect::<Vec<_>>();
    assert_eq!(ids(&whole), ids(&merged));
    assert_eq!(whole.measurements[0].entry.nfe, merged.measurements[0].entry.nfe);
    for (numbers, expected) in [
        (&[1][..], "shard 2/2 is missing"),
        (&[1, 3][..], "--seed"),
        (&[1, 1][..], "it is shard 1 as well"),
        (&[0, 1][..], "split"),
    ] {
        let error = merge(&open(numbers)).unwrap_err().to_string();
        assert!(error.contains(expected) && error.lines().count() == 1, "{error}");
    }
    let [first, second] = [1, 2].map(|number| {
        let samples = std::fs::read_dir(folders[number].path().join("samples")).unwrap();
        samples.map(|file| file.unwrap().path()).next().unwrap()
    });
    let both = std::fs::read_to_string(&first).unwrap() + &std::fs::read_to_string(&second).unwrap();
    std::fs::write(&second, both).unwrap();
    let error = merge(&open(&[1, 2])).unwrap_err().to_string();
    assert!(error.contains("both hold row 0 of words"), "{error}");
    assert!(Folder::open(folders[4].path()).unwrap_err().to_string().contains("holds no results"));
}

#[test]
fn tuning_finds_layers_on_its_own_part_and_resumes() {
    let out = tempfile::tempdir().unwrap();
    let request = Evaluation { limit: Some(4), ..evaluation(out.path(), vec![trial("words", "dos+eb")]) };
    let mut stages = Vec::new();
    let preset = tune(&request, &mut [&mut model()], &Bytes, &mut |stage, _| stages.push(stage.to_string())).unwrap();
    stages.dedup();
    // The scripted model has one head.
    assert_eq!(stages, ["1-layers", "2-layer-sets"]);
    assert_eq!(preset.n, 4);
    assert!(preset.layer.len() == 1 && preset.heads.is_empty(), "{preset:?}");
    let folder = Folder::open(&out.path().join("1-layers")).unwrap();
    let rows: Vec<usize> =
        folder.samples(&folder.configuration.trials[0]).unwrap().iter().map(|sample| sample.row).collect();
    assert_eq!(rows, [3, 7, 11, 15]);
    let again =
        tune(&request, &mut [&mut model()], &Bytes, &mut |_, progress| assert_eq!(progress.done_now, 0)).unwrap();
    assert_eq!(again, preset);
    let confidence = evaluation(out.path(), vec![trial("words", "confidence")]);
    assert!(
        tune(&confidence, &mut [&mut model()], &Bytes, &mut |_, _| ()).unwrap_err().to_string().contains("use dos")
    );
}
