//! The GPU predictor: the same promises, the same goldens, and the same answers as on the CPU.
//!
//! Without a GPU each test says so and passes.
#![allow(clippy::print_stderr, reason = "a test that is skipped says so")]

#[path = "../common/mod.rs"]
mod common;

use std::collections::BTreeMap;
use std::sync::Arc;

use common::decoding::check_records;
use common::promises::{self, MODELS, long, places};
use common::{all_layers, distance, goldens, on_cpu, read, row, tiny, view};
use common::{families, family_decoding};
use cudarc::driver::result as driver;
use lacuna::catalogue::Params;
use lacuna::{
    Belief, Canvas, Observation, Options, Predictor, Recipe, Row, Run, Sampling, Strategy, Target, Token, TokenRule,
    TokenSet, View, Wrapper, decode,
};
use lacuna_models::{
    Checkpoint, CudaPredictor, Device, Error, Model, Precision, Request, Shape, Specials, check, compile_kernels,
    describe_gpu,
};
use safetensors::Dtype;
use safetensors::tensor::TensorView;

const BOTH: [Precision; 2] = [Precision::F32, Precision::Bf16];
const FP8: [Precision; 1] = [Precision::Fp8];
const INT4: [Precision; 1] = [Precision::Int4];

fn on_gpu(checkpoint: &Checkpoint, precision: Precision) -> Box<dyn Model> {
    Box::new(CudaPredictor::load(checkpoint, Some(precision)).unwrap())
}

/// True if there is a GPU; says why not.
fn gpu() -> bool {
    let found = describe_gpu();
    if let Err(error) = &found {
        eprintln!("skipped: {error}");
    }
    found.is_ok()
}

/// True if the GPU is the one of `emulator/`.
fn is_emulated() -> bool {
    describe_gpu().is_ok_and(|gpu| gpu.starts_with("emulated"))
}

/// True if there is a GPU that is not emulated, for what would take one hours; says why not.
fn real_gpu() -> bool {
    if is_emulated() {
        eprintln!("skipped: the GPU is emulated");
    }
    !is_emulated() && gpu()
}

/// True if there is a GPU that has fp8; says why not.
fn gpu_with_fp8() -> bool {
    let refused = CudaPredictor::load(&tiny("llada-tiny"), Some(Precision::Fp8)).err();
    if let Some(error) = &refused {
        assert!(matches!(error, Error::NoGpu { .. } | Error::NoFp8 { .. }), "{error}");
        eprintln!("skipped: {error}");
    }
    refused.is_none()
}

macro_rules! with {
    ($there:ident: $($(#[$meta:meta])* fn $name:ident() $body:block)*) => {
        $($(#[$meta])* #[test] fn $name() { if $there() $body })*
    };
}

mod fp8;
mod odd;
mod waits;

use odd::{Odd, assert_alike, assert_belief};
use waits::assert_one_wait;

with! { gpu:
    fn reading_in_pieces_is_reading_at_once() {
        promises::reading_in_pieces_is_reading_at_once(on_gpu, &BOTH);
    }

    fn a_batch_is_each_view_alone() {
        promises::a_batch_is_each_view_alone(on_gpu, &BOTH);
    }

    fn where_nothing_has_changed_a_cache_changes_no_bit() {
        promises::where_nothing_has_changed_a_cache_changes_no_bit(on_gpu, &BOTH);
    }

    fn scores_of_chosen_heads_average_to_those_of_all() {
        promises::scores_of_chosen_heads_average_to_those_of_all(on_gpu);
    }

    fn shadows_see_everything_but_what_they_shadow_and_nobody_sees_them() {
        promises::shadows_see_everything_but_what_they_shadow_and_nobody_sees_them(on_gpu);
    }

    fn guidance_mixes_the_logits_of_two_views() {
        promises::guidance_mixes_the_logits_of_two_views(on_gpu);
    }

    fn what_is_remembered_is_compared_with_until_forgotten() {
        promises::what_is_remembered_is_compared_with_until_forgotten(on_gpu);
    }

    fn draws_do_not_depend_on_company() {
        promises::draws_do_not_depend_on_company(on_gpu);
    }

    fn official_decoders_on_llada() {
        check_records(on_gpu, 0, if is_emulated() { 100 } else { 1 });
    }

    fn reference_strategies_on_llada() {
        check_records(on_gpu, 1, if is_emulated() { 100 } else { 1 });
    }

    fn official_decoders_on_dream() {
        check_records(on_gpu, 2, if is_emulated() { 100 } else { 1 });
    }

    fn reference_strategies_on_dream() {
        check_records(on_gpu, 3, if is_emulated() { 100 } else { 1 });
    }

    fn logits_and_dependency_scores_are_those_of_the_official_models() {
        for name in MODELS {
            let mut model = on_gpu(&tiny(name), Precision::F32);
            for (case, golden) in goldens(name).into_iter().enumerate() {
                let attention = all_layers();
                let view = View { tokens: &golden.tokens, attention: &attention, ..View::default() };
                let seen = model.observe(&[view]).unwrap().remove(0);
                let error = distance(&model.logits(0).unwrap().concat(), &golden.logits);
                assert!(error < 2e-4, "{name} case {case}: logits are off by {error:e}");
                let at_masked = |scores: &Vec<f32>| golden.masked.iter().map(|&position| scores[position]).collect();
                let scores: Vec<Vec<f32>> = seen.dependency.iter().map(at_masked).collect();
                let error = distance(&scores.concat(), &golden.dependency);
                assert!(error < 5e-6, "{name} case {case}: dependency scores are off by {error:e}");
            }
        }
    }

    fn logits_and_dependency_scores_of_families_are_those_of_the_official_models() {
        families::logits_and_dependency_scores_are_those_of_the_official_models(on_gpu);
    }

    fn a_batch_of_a_family_is_each_view_alone() {
        families::a_batch_of_a_family_is_each_view_alone(on_gpu, &BOTH, |_| true);
    }

    fn what_a_block_sees_is_settled_before_it() {
        families::what_a_block_sees_is_settled_before_it(on_gpu);
    }

    fn shadows_keep_to_their_block() {
        families::shadows_keep_to_their_block(on_gpu);
    }

    fn every_family_decodes_as_its_official_code() {
        let every = if is_emulated() { 20 } else { 1 };
        let count = family_decoding::every_family_decodes_as_its_official_code(on_gpu, every);
        assert!(count >= 224 / every, "{count}");
    }

    fn finished_blocks_that_are_kept_change_no_bit() {
        let strategies = if is_emulated() { &["dos+eb", "sdar"][..] } else { &["dos+eb", "dos+edit", "saber", "sdar", "dsb"] };
        family_decoding::finished_blocks_that_are_kept_change_no_bit(on_gpu, strategies);
    }

    fn texts_that_begin_alike_are_computed_once() {
        family_decoding::texts_that_begin_alike_are_computed_once(on_gpu, if is_emulated() { 3 } else { 1 });
    }

    fn everything_is_as_on_the_cpu_whatever_the_sizes() {
        for odd in Odd::ALL {
            let (folder, checkpoint) = odd.checkpoint();
            for (precision, logit, score) in [(Precision::F32, 2e-5, 2e-6), (Precision::Bf16, 2e-2, 5e-3)] {
                let (mut cpu, mut gpu) = (on_cpu(&checkpoint, Precision::F32), on_gpu(&checkpoint, precision));
                let lengths = [1, 17, 65, 2, 64, 130, 200];
                for length in lengths.into_iter().take(if is_emulated() { 3 } else { 7 }) {
                    assert_alike(odd, cpu.as_mut(), gpu.as_mut(), length, logit, score);
                }
            }
            drop(folder);
        }
    }

    fn bf16_stays_close_to_f32() {
        for name in MODELS {
            let mut model = on_gpu(&tiny(name), Precision::Bf16);
            for golden in goldens(name) {
                model.observe(&[view(&golden.tokens)]).unwrap();
                let error = relative(&model.logits(0).unwrap().concat(), &golden.logits);
                assert!(error < 0.02, "{name}: bf16 is off by {error:.4} of the logits' norm");
            }
        }
    }

    fn divergences_and_draws_are_those_of_the_cpu() {
        let nucleus = |temperature, top_p, top_k| TokenRule::Nucleus { temperature, top_p, top_k };
        for (choice, deferred) in [
            (TokenRule::Greedy, vec![]),
            (TokenRule::Greedy, vec![5, 9]),
            (TokenRule::Gumbel { temperature: 0.7 }, vec![]),
            (TokenRule::Gumbel { temperature: 0.7 }, vec![7]),
            (nucleus(0.5, 1.0, 0), vec![]),
            (nucleus(0.5, 0.9, 20), vec![]),
            (nucleus(0.0, 0.4, 0), vec![5]),
        ] {
            let sampling = Sampling { rule: choice, deferred };
            let run = |model: &mut dyn Model| -> Vec<Belief> {
                let mut all = Vec::new();
                for length in [40, 37] {
                    let tokens = [long(length), vec![common::MASK; 45 - length]].concat();
                    model.observe(&[View { run: 3, ..view(&tokens) }]).unwrap();
                    let rows: Vec<Row<'_>> = (0..45)
                        .map(|at| Row { remember: true, scored_token: Some(7), ..row(0, Target::Position(at), &sampling) })
                        .collect();
                    all.extend(model.read(&rows).unwrap());
                }
                all
            };
            let (cpu, gpu) = (&mut *on_cpu(&tiny("llada-tiny"), Precision::F32), &mut *on_gpu(&tiny("llada-tiny"), Precision::F32));
            for (found, exact) in run(gpu).iter().zip(run(cpu)) {
                assert_belief(found, &exact, 1e-4);
                let both = found.divergence.zip(exact.divergence);
                assert_eq!(found.divergence.is_some(), exact.divergence.is_some());
                assert!(both.is_none_or(|(found, exact)| (found - exact).abs() < 1e-4 * exact.max(1.0)), "{found:?} is not {exact:?}");
            }
        }
    }

    fn credit_and_dawn_are_as_on_the_cpu() {
        for (name, guidance) in MODELS.into_iter().zip([0.0, 0.5]) {
            let checkpoint = tiny(name);
            let run = |strategy: &str, model: &mut dyn Model| -> Vec<Vec<(usize, Token)>> {
                let canvas = Canvas::with_tail(&long(9), 12, model.description().mask).unwrap();
                let credits = strategy == "credit";
                let params = if credits { Params::new().with("threshold", 0.4).unwrap() } else { Params::new() };
                let strategy = Strategy::parse(strategy, &params).unwrap();
                let options = Options { guidance: if credits { guidance } else { 0.0 }, ..Options::default() };
                let mut runs = [Run::new(canvas, strategy, options, model.description()).unwrap()];
                decode(&mut runs, model).unwrap();
                let deltas = runs[0].trace().deltas.iter();
                deltas.map(|delta| delta.committed.iter().map(|commit| (commit.position, commit.token)).collect()).collect()
            };
            let (mut gpu, mut cpu) = (on_gpu(&checkpoint, Precision::F32), on_cpu(&checkpoint, Precision::F32));
            for strategy in ["credit", "dawn"] {
                assert_eq!(run(strategy, gpu.as_mut()), run(strategy, cpu.as_mut()), "{name} {strategy}");
            }
        }
    }

    fn the_cache_d2_decodes_as_on_the_cpu() {
        for name in MODELS {
            let checkpoint = tiny(name);
            let run = |mut model: Box<dyn Model>| {
                let request = Request::default().with("strategy", "confidence+threshold").unwrap().with("cache", "d2").unwrap();
                let request = request.with("threshold", 0.3).unwrap().with("gen_length", 24usize).unwrap();
                let plan = request.plan(&checkpoint).unwrap();
                let prompts: [Vec<Token>; 2] = [(20..29).collect(), (40..45).collect()];
                let mut runs = prompts.map(|prompt| plan.answer(&prompt, model.description()).unwrap());
                decode(&mut runs, model.as_mut()).unwrap();
                runs.map(|run| (run.trace().deltas.len(), run.canvas().tokens().to_vec()))
            };
            assert_eq!(run(on_gpu(&checkpoint, Precision::F32)), run(on_cpu(&checkpoint, Precision::F32)), "{name}");
        }
    }

    /// With so small a prefetch budget the GPU decides which rows are read.
    fn a_step_waits_once_and_prefetching_changes_no_bit() {
        for (name, precision) in MODELS.into_iter().zip(BOTH) {
            let mut model = CudaPredictor::load(&tiny(name), Some(precision)).unwrap();
            model.set_prefetch_budget(12);
            assert_one_wait(&mut model, 7, 33);
        }
    }

    fn what_cannot_be_is_refused_before_it_is_launched() {
        let mut model = on_gpu(&tiny("llada-tiny"), Precision::F32);
        let sampling = Sampling::default();
        assert!(model.read(&[row(0, Target::Position(0), &sampling)]).is_err());
        let short = long(9);
        // A plan that ranks by scores that nobody asked for.
        let ranked = [row(0, Target::Position(0), &sampling), row(0, Target::Position(1), &sampling)];
        let rank = Some(lacuna::RankByAttention { sources: 3, temperature: 0.0 });
        let plan = lacuna::ReadPlan { ranked: &ranked, expected: 1, most: 1, rank, ..lacuna::ReadPlan::default() };
        model.observe(&[View { plan, ..view(&short) }]).unwrap();
        assert_eq!(model.read(&ranked).unwrap().len(), 2);
        let outside = Row { scored_token: Some(1 << 30), ..ranked[0] };
        let refused = model.read(&[outside]).unwrap_err().to_string();
        assert!(refused.contains("outside the vocabulary (0..512)"), "{refused}");
        let foreign = lacuna::TokenSet::all_but(4096, &[]);
        let refused = model.read(&[Row { allowed: &foreign, ..row(0, Target::Position(0), &sampling) }]).unwrap_err();
        assert!(refused.to_string().contains("are not of this model's vocabulary of 512"), "{refused}");
    }

    fn reading_in_pieces_is_reading_at_once_in_int4() {
        promises::reading_in_pieces_is_reading_at_once(on_gpu, &INT4);
    }

    fn a_batch_is_each_view_alone_in_int4() {
        promises::a_batch_is_each_view_alone(on_gpu, &INT4);
    }

    fn where_nothing_has_changed_a_cache_changes_no_bit_in_int4() {
        promises::where_nothing_has_changed_a_cache_changes_no_bit(on_gpu, &INT4);
    }

    fn a_batch_of_a_family_is_each_view_alone_in_int4() {
        families::a_batch_of_a_family_is_each_view_alone(on_gpu, &INT4, |_| true);
    }

    fn experts_in_int4_are_near() {
        families::experts_of_few_bits_are_near(on_gpu, Precision::Int4);
    }

    /// The CPU rounds activations to 8 bits, too.
    fn int4_on_the_gpu_is_near_int4_on_the_cpu() {
        let folder = tempfile::tempdir().unwrap();
        for name in MODELS {
            let (checkpoint, tokens) = (tiny(name), long(40));
            let logits = |mut model: Box<dyn Model>| {
                model.observe(&[view(&tokens)]).unwrap();
                model.logits(0).unwrap().concat()
            };
            let [exact, cpu] = [Precision::F32, Precision::Int4].map(|precision| logits(on_cpu(&checkpoint, precision)));
            let gpu = logits(on_gpu(&checkpoint, Precision::Int4));
            let (apart, off) = (relative(&gpu, &cpu), relative(&gpu, &exact));
            assert!(apart < off && off > 1e-3, "{name}: {apart:.4} from the CPU, {off:.4} from f32");

            let directory = folder.path().join(name);
            checkpoint.quantize(Precision::Int4, &directory).unwrap();
            let stored = logits(on_gpu(&Checkpoint::open(&directory).unwrap(), Precision::Int4));
            assert!(gpu == stored, "{name}: stored weights give other bits");
        }
    }

    fn every_kernel_gives_what_its_scalar_twin_gives() {
        for (_, name) in check::names().into_iter().filter(|(device, _)| *device == "cuda") {
            match check::run("cuda", name, false) {
                Ok(reports) => reports.iter().for_each(|report| assert!(report.passed(), "{report:?}")),
                Err(Error::NoFp8 { .. }) => eprintln!("skipped: {name} needs fp8"),
                Err(error) => panic!("{name}: {error}"),
            }
        }
    }

    fn a_predictor_tells_what_it_holds() {
        let model = on_gpu(&tiny("llada-tiny"), Precision::F32);
        assert!(model.device().starts_with("cuda, "), "{}", model.device());
        assert_eq!(model.precision(), Precision::F32);
        assert!(model.memory(128).weights >= tiny("llada-tiny").bytes());
        assert!(model.memory(128).buffers > 64 * 512 * 4);
    }
}

with! { real_gpu:
    fn two_loads_and_two_runs_give_the_same_bits_in_both() {
        BOTH.into_iter().for_each(two_loads_and_two_runs_give_the_same_bits);
    }

    /// Products are as large here as cublasLt likes them, and every step of the kernels' vectors is taken.
    fn a_larger_model_is_as_on_the_cpu_and_batches_change_no_bit() {
        let checkpoint = Checkpoint::random(Shape::Small).unwrap();
        let (mut cpu, mut gpu) = (on_cpu(&checkpoint, Precision::F32), on_gpu(&checkpoint, Precision::Bf16));
        let mask = checkpoint.mask_token().unwrap();
        let canvas = |length: usize| -> Vec<Token> {
            (0..length).map(|i| if i % 3 == 1 { mask } else { (i * 37 % 4000) as Token }).collect()
        };
        let canvases = [canvas(100), canvas(333), canvas(1), canvas(64), canvas(700)];
        let attention: Vec<_> = [0, 3, 7].map(|layer| lacuna::AttentionSource { layer, heads: Vec::new() }).into();
        let views: Vec<View<'_>> =
            canvases.iter().map(|tokens| View { tokens, attention: &attention, ..View::default() }).collect();
        let together = gpu.observe(&views).unwrap();
        let logits: Vec<_> = (0..views.len()).map(|view| gpu.logits(view).unwrap()).collect();
        for (index, view) in views.iter().enumerate() {
            // Twice, so that the second is a recorded pass.
            for _ in 0..3 {
                assert_eq!(gpu.observe(&[*view]).unwrap()[0], together[index]);
                assert_eq!(gpu.logits(0).unwrap(), logits[index]);
            }
            let exact = cpu.observe(&[*view]).unwrap().remove(0);
            for (found, exact) in together[index].dependency.iter().zip(&exact.dependency) {
                assert!(distance(found, exact) < 5e-3);
            }
            let error = relative(&logits[index].concat(), &cpu.logits(0).unwrap().concat());
            assert!(error < 0.03, "canvas {index}: logits are off by {error:e} of their norm");
        }
    }

    fn a_batch_of_large_products_is_each_view_alone_in_bf16() {
        a_batch_of_large_products_is_each_view_alone(Precision::Bf16);
    }

    fn the_embedded_model_writes_the_same_text_as_on_the_cpu() {
        let checkpoint = Checkpoint::embedded().unwrap();
        let text = checkpoint.text().unwrap();
        let (mut cpu, mut gpu) = (on_cpu(&checkpoint, Precision::F32), on_gpu(&checkpoint, Precision::F32));
        for prompt in [
            "Tom has 3 boxes with 12 apples each. He eats 5 apples. How many apples are left?",
            "Write a function that returns the largest of three numbers.",
        ] {
            let prompt = text.chat(&[("user", prompt)]).unwrap();
            for strategy in ["dos+eb", "dos", "confidence+threshold", "klass", "wino", "saber", "margin+eb"] {
                let write = |model: &mut dyn Model| {
                    let canvas = Canvas::with_tail(&prompt, 64, model.description().mask).unwrap();
                    let strategy = Strategy::parse(strategy, &Params::new()).unwrap().in_blocks(32);
                    let mut runs = [Run::new(canvas, strategy, Options::default(), model.description()).unwrap()];
                    decode(&mut runs, model).unwrap();
                    text.decode(&runs[0].canvas().tokens()[prompt.len()..], Specials::Keep).unwrap()
                };
                assert_eq!(write(gpu.as_mut()), write(cpu.as_mut()), "{strategy}");
            }
        }
    }

    /// With products as large as LLaDA's vocabulary makes them.
    fn a_step_of_a_large_model_waits_once_and_prefetching_changes_no_bit() {
        let mut model = CudaPredictor::load(&Checkpoint::random(Shape::Medium).unwrap(), Some(Precision::Bf16)).unwrap();
        assert_one_wait(&mut model, 50, 300);
    }

    #[ignore = "takes nearly all of the GPU's memory, so it runs alone"]
    #[allow(unsafe_code, reason = "memory of the CUDA driver")]
    fn what_does_not_fit_is_refused_and_what_fits_is_computed_as_before() {
        let mut model = on_gpu(&Checkpoint::random(Shape::Small).unwrap(), Precision::Bf16);
        let (short, large) = (long(100), long(4000));
        let mut compute = |views: &[View<'_>]| model.observe(views).and_then(|_| Ok(model.logits(0)?));
        // Three times, so that the last is a recorded pass.
        let [_, _, before] = [(); 3].map(|()| compute(&[view(&short)]).unwrap());
        let (free, _) = driver::mem_get_info().unwrap();
        // SAFETY: the model has bound the GPU to this thread, and nobody uses what is taken.
        let taken = unsafe { driver::malloc_sync(free - (1 << 30)) }.unwrap();
        let refused = compute(&[view(&large); 100]).unwrap_err().to_string();
        assert!(refused.contains("is full") && refused.contains("use shorter or fewer canvases"), "{refused}");
        assert_eq!(compute(&[view(&short)]).unwrap(), before);
        // SAFETY: it was taken above.
        unsafe { driver::free_sync(taken) }.unwrap();
        assert_eq!(compute(&[view(&large); 100]).unwrap().len(), 4000);
        assert_eq!(compute(&[view(&short)]).unwrap(), before);
    }
}

/// With LLaDA's head size and vocabulary, and products that are worth trying several algorithms for.
fn a_batch_of_large_products_is_each_view_alone(precision: Precision) {
    let checkpoint = Checkpoint::random(Shape::Medium).unwrap();
    let mut model = on_gpu(&checkpoint, precision);
    let mask = checkpoint.mask_token().unwrap();
    let canvas = |length: usize| -> Vec<Token> {
        (0..length).map(|i| if i % 5 == 1 { mask } else { (i * 37) as Token }).collect()
    };
    let canvases = [canvas(640), canvas(100), canvas(333), canvas(1), canvas(1000)];
    let views: Vec<View<'_>> = canvases.iter().map(|tokens| view(tokens)).collect();
    model.observe(&views).unwrap();
    let together: Vec<Vec<Belief>> =
        (0..views.len()).map(|view| read(model.as_mut(), view, &places(canvases[view].len()))).collect();
    for (index, view) in views.iter().enumerate() {
        model.observe(&[*view]).unwrap();
        let single: Vec<Belief> = (0..canvases[index].len())
            .step_by(97)
            .flat_map(|at| read(model.as_mut(), 0, &[Target::Position(at)]))
            .collect();
        assert!(together[index].iter().step_by(97).eq(&single), "canvas {index}");
    }
}

fn two_loads_and_two_runs_give_the_same_bits(precision: Precision) {
    let checkpoint = Checkpoint::random(Shape::Small).unwrap();
    let tokens: Vec<Token> = (0..500).map(|i| if i % 2 == 0 { i } else { checkpoint.mask_token().unwrap() }).collect();
    let mut seen = Vec::new();
    for _ in 0..2 {
        let mut model = on_gpu(&checkpoint, precision);
        for _ in 0..3 {
            let attention = all_layers();
            let scores = model.observe(&[View { attention: &attention, ..view(&tokens) }]).unwrap();
            seen.push((scores, read(model.as_mut(), 0, &places(500))));
        }
    }
    assert!(seen.windows(2).all(|pair| pair[0] == pair[1]), "{precision:?}");
}

#[test]
fn what_the_gpu_does_not_have_is_refused_and_auto_finds_another_way() {
    let checkpoint = tiny("llada-tiny");
    let refused = CudaPredictor::load(&checkpoint, Some(Precision::Int8)).err().unwrap();
    assert!(
        refused
            .to_string()
            .starts_with("int8 is not supported on CUDA yet: use precision bf16 or precision int4 or device cpu"),
        "{refused}"
    );
    let model = lacuna_models::load(&checkpoint, Some(Precision::Int8), &Device::Auto).unwrap();
    assert!(model.device().starts_with("cpu"));
    let refused = lacuna_models::load(&checkpoint, Some(Precision::Fp8), &Device::Cpu).err().unwrap();
    let expected = "fp8 needs an NVIDIA Hopper GPU (H100, H200), but the CPU was asked for: use precision bf16";
    assert_eq!(refused.to_string(), expected);
    let found = lacuna_models::load(&checkpoint, None, &Device::Auto).unwrap().device();
    match describe_gpu() {
        Ok(_) => assert!(found.starts_with("cuda"), "{found}"),
        Err(error) => {
            assert!(found.starts_with("cpu"), "{found}");
            let refused = lacuna_models::load(&checkpoint, None, &Device::Cuda(vec![0])).err().unwrap();
            assert!(matches!(refused, Error::NoGpu { .. }) && refused.to_string() == error.to_string());
            let refused = lacuna_models::load(&checkpoint, Some(Precision::Fp8), &Device::Auto).err().unwrap();
            assert!(refused.to_string().starts_with("fp8 needs an NVIDIA Hopper GPU (H100, H200), but "), "{refused}");
        }
    }
}

#[test]
fn all_kernels_compile_for_several_architectures_and_heads() {
    for (architecture, head_size) in [(80, 64), (89, 22), (90, 80), (90, 128)] {
        for bf16 in [false, true] {
            match compile_kernels(architecture, head_size, bf16) {
                Some(compiled) => assert!(compiled.unwrap() > 1000),
                None => return eprintln!("skipped: there is no nvrtc"),
            }
        }
    }
}

/// The distance of two slices, as a share of the norm of the second.
fn relative(found: &[f32], exact: &[f32]) -> f64 {
    let norm = |values: &mut dyn Iterator<Item = f32>| values.map(|x| f64::from(x).powi(2)).sum::<f64>().sqrt();
    norm(&mut found.iter().zip(exact).map(|(found, exact)| found - exact)) / norm(&mut exact.iter().copied())
}
