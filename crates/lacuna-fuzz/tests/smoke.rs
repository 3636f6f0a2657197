//! Every target on seeded mutations of valid inputs. `FUZZ_ROUNDS=100000 cargo test -p lacuna-fuzz` tries more.

use std::panic::{AssertUnwindSafe, catch_unwind};

use lacuna_fuzz::{Mutator, TARGETS, Target};

fn target(name: &str) -> &'static Target {
    TARGETS.iter().find(|target| target.name == name).unwrap()
}

fn smoke(name: &str, rounds: usize) {
    let target = target(name);
    let seeds = (target.seeds)();
    for seed in &seeds {
        assert!((target.run)(seed), "{name}: a valid input is refused: {}", String::from_utf8_lossy(seed));
    }
    let rounds = std::env::var("FUZZ_ROUNDS").map_or(rounds, |rounds| rounds.parse().unwrap());
    let mut mutator = Mutator::new(1);
    for round in 0..rounds {
        let input = mutator.mutate(&seeds);
        let outcome = catch_unwind(AssertUnwindSafe(|| (target.run)(&input)));
        let shown = &input[..input.len().min(4000)];
        assert!(outcome.is_ok(), "{name}: round {round} panics on {}", String::from_utf8_lossy(shown));
    }
}

macro_rules! smoke {
    ($($name:ident: $rounds:literal,)*) => {
        $(#[test]
        fn $name() {
            smoke(stringify!($name), $rounds);
        })*

        #[test]
        fn every_target_is_tried_here_and_under_fuzz() {
            let tried = [$(stringify!($name)),*];
            assert_eq!(TARGETS.map(|target| target.name), tried);
            let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz");
            let manifest = std::fs::read_to_string(folder.join("Cargo.toml")).unwrap();
            for name in tried {
                assert!(manifest.contains(&format!("name = \"{name}\"")), "{name} is not in fuzz/Cargo.toml");
                let file = std::fs::read_to_string(folder.join(format!("fuzz_targets/{name}.rs"))).unwrap();
                assert!(file.contains(&format!("lacuna_fuzz::run(\"{name}\", input)")), "{name}");
            }
        }
    };
}

smoke! {
    config: 1000,
    safetensors: 1000,
    index: 500,
    gguf: 1000,
    tokenizer: 1000,
    tokenizer_config: 500,
    chat_template: 1000,
    strategy: 20000,
    suite: 2000,
    math: 5000,
    constraint: 300,
    request: 300,
}
