//! A model that is ready to decode, and what the flags mean for it.

use std::ops::Range;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use lacuna::{Canvas, Choice, Error, Lens, Options, Predictor, Run, Settings, Strategy, Token};
use lacuna_models::{Checkpoint, CpuPredictor, Family, Precision, Specials, Text};
use serde_json::Value;

use crate::args;

/// A loaded model.
pub(crate) struct Engine {
    pub(crate) checkpoint: Checkpoint,
    pub(crate) predictor: CpuPredictor,
    /// The tokens that end a text.
    pub(crate) ends: Vec<Token>,
}

/// How a canvas is to be decoded.
pub(crate) struct Plan {
    pub(crate) strategy: String,
    pub(crate) settings: Settings,
    pub(crate) options: Options,
    pub(crate) block_length: Option<usize>,
}

/// A run, what of it is shown, and how long it has taken.
pub(crate) struct Job {
    pub(crate) run: Run,
    pub(crate) took: Duration,
    /// What the user calls it.
    pub(crate) id: Option<Value>,
    /// What is shown starts at this position; before it stands the prompt.
    pub(crate) from: usize,
    /// Whether the text ends at the first end-of-text token, as an answer does and a filled text does not.
    pub(crate) ends: bool,
}

impl Engine {
    /// Loads the model that the flags name.
    pub(crate) fn open(flags: &args::Model) -> Result<Self> {
        if let Some(threads) = flags.threads {
            rayon::ThreadPoolBuilder::new().num_threads(threads).build_global().context("cannot start the threads")?;
        }
        let checkpoint = open_checkpoint(flags.model.as_deref())?;
        let precision = flags.precision.map(|precision| match precision {
            args::Precision::F32 => Precision::F32,
            args::Precision::Bf16 => Precision::Bf16,
        });
        let predictor = CpuPredictor::load(&checkpoint, precision)?;
        let (text, turn) = checkpoint.end_tokens();
        let ends = text.into_iter().chain(turn).collect();
        Ok(Self { checkpoint, predictor, ends })
    }

    /// The tokenizer and chat template, or why there is none.
    pub(crate) fn text(&self) -> Result<&Text> {
        Ok(self.checkpoint.text()?)
    }

    /// How many tokens to generate: as asked, else as the model recommends.
    pub(crate) fn gen_length(&self, asked: Option<usize>) -> Result<usize> {
        let length = asked.or(self.checkpoint.recommended().gen_length).unwrap_or(128);
        if length == 0 {
            bail!(Error::Parameter {
                name: "--gen-length",
                value: "0".into(),
                expected: "it must be 1 or more".into()
            });
        }
        Ok(length)
    }

    /// The strategy that suits the model.
    pub(crate) fn strategy(&self) -> String {
        self.checkpoint.recommended().strategy.clone().unwrap_or_else(|| "dos+eb".into())
    }

    /// The layers for `dos`: as asked, else as the model recommends, else where the paper found the best ones on average.
    pub(crate) fn layers(&self, asked: Option<&args::Layers>) -> Vec<usize> {
        let layers = self.checkpoint.architecture().layers;
        let recommended = &self.checkpoint.recommended().layer;
        match asked {
            Some(args::Layers::All) => (0..layers).collect(),
            Some(args::Layers::These(these)) => these.clone(),
            None if recommended.is_empty() => vec![layers / 6],
            None => recommended.clone(),
        }
    }

    /// What the decoding flags mean for this model.
    pub(crate) fn plan(&self, flags: &args::Decoding) -> Result<Plan> {
        let recommended = self.checkpoint.recommended();
        let settings = Settings {
            layers: self.layers(flags.layer.as_ref()),
            heads: flags.heads.clone(),
            steps: flags.steps,
            dream_schedule: flags.schedule == args::Timetable::Dream,
            eps: flags.eps,
            gamma: flags.gamma.or(recommended.gamma).unwrap_or(0.01),
            threshold: flags.threshold,
            threshold_back: flags.threshold_back,
            factor: flags.factor,
            conf_threshold: flags.conf_threshold,
            kl_threshold: flags.kl_threshold,
            history: flags.history,
            saber_n: flags.saber_n,
            order_temperature: flags.order_temperature,
        };
        let strategy = flags.strategy.clone().unwrap_or_else(|| self.strategy());
        let options = Options {
            lens: Lens {
                choice: self.choice(flags)?,
                suppressed: self.checkpoint.architecture().end.filter(|_| flags.suppress_eos).into_iter().collect(),
                deferred: if flags.defer_eos { self.ends.clone() } else { Vec::new() },
            },
            stop: if flags.early_stop { self.ends.clone() } else { Vec::new() },
            guidance: flags.guidance,
            seed: flags.seed,
        };
        let block_length = flags.block_length.or(recommended.block_length.filter(|_| flags.strategy.is_none()));
        if block_length == Some(0) {
            bail!(Error::Parameter {
                name: "--block-length",
                value: "0".into(),
                expected: "it must be 1 or more".into()
            });
        }
        Ok(Plan { strategy, settings, options, block_length })
    }

    fn choice(&self, flags: &args::Decoding) -> Result<Choice> {
        let top_p = flags.top_p.unwrap_or(1.0);
        if !(top_p > 0.0 && top_p <= 1.0) {
            let expected = "it must be more than 0 and at most 1".into();
            bail!(Error::Parameter { name: "--top-p", value: top_p.to_string(), expected });
        }
        let truncated = flags.top_p.is_some() || flags.top_k.is_some();
        let sampling = flags.sampling.unwrap_or(match self.checkpoint.architecture().family {
            Family::Dream => args::Sampling::Dream,
            Family::Llada if truncated => args::Sampling::Dream,
            Family::Llada => args::Sampling::Llada,
        });
        let temperature = flags.temperature;
        Ok(match sampling {
            args::Sampling::Llada if truncated => bail!("--top-p and --top-k belong to --sampling dream"),
            args::Sampling::Dream if temperature != 0.0 || truncated => {
                Choice::Nucleus { temperature, top_p, top_k: flags.top_k.unwrap_or(0) }
            }
            args::Sampling::Llada if temperature != 0.0 => Choice::Gumbel { temperature },
            _ => Choice::Greedy,
        })
    }

    /// A prompt as tokens: in the model's chat template if it has one, unless it is to stay raw.
    pub(crate) fn encode(&self, prompt: &str, system: Option<&str>, raw: bool) -> Result<Vec<Token>> {
        ensure!(!prompt.trim().is_empty(), "the prompt is empty: give the model some text to answer");
        let text = self.text()?;
        if raw || (!text.can_chat() && system.is_none()) {
            return Ok(text.encode(prompt)?);
        }
        let system = system.map(|content| ("system", content));
        Ok(text.chat(&Vec::from_iter(system.into_iter().chain([("user", prompt)])))?)
    }

    /// Steps `jobs` together until all are finished; `watch` sees them after each step.
    pub(crate) fn decode(
        &mut self,
        jobs: &mut [Job],
        mut watch: impl FnMut(&Self, &[Job]) -> Result<()>,
    ) -> Result<()> {
        let begun = Instant::now();
        loop {
            let mut active: Vec<&mut Job> = jobs.iter_mut().filter(|job| !job.run.is_finished()).collect();
            if active.is_empty() {
                return Ok(());
            }
            let mut runs: Vec<&mut Run> = active.iter_mut().map(|job| &mut job.run).collect();
            lacuna::step(&mut runs, &mut self.predictor)?;
            active.iter_mut().for_each(|job| job.took = begun.elapsed());
            watch(self, jobs)?;
        }
    }
}

impl Plan {
    /// A run of `canvas` in these blocks.
    pub(crate) fn start(&self, canvas: Canvas, blocks: Vec<Range<usize>>, engine: &Engine) -> Result<Run> {
        let strategy = Strategy::parse(&self.strategy, &self.settings)?;
        Ok(Run::new(canvas, blocks, strategy, self.options.clone(), engine.predictor.description())?)
    }

    /// The strategy with what it looks at, in a few words.
    pub(crate) fn describe(&self) -> String {
        match self.layers() {
            [] => self.strategy.clone(),
            [layer] => format!("{} (layer {layer})", self.strategy),
            layers => format!("{} ({} layers)", self.strategy, layers.len()),
        }
    }

    /// The layers that the order looks at, if it is `dos`.
    pub(crate) fn layers(&self) -> &[usize] {
        if self.strategy.starts_with("dos") { &self.settings.layers } else { &[] }
    }
}

impl Job {
    pub(crate) fn new(run: Run, from: usize, ends: bool) -> Self {
        Self { run, took: Duration::ZERO, id: None, from, ends }
    }

    /// What has been written: everything behind the prompt, up to where it ends if the run stopped there.
    pub(crate) fn tokens(&self, engine: &Engine) -> &[Token] {
        let canvas = self.run.canvas();
        let tokens = &canvas.tokens()[self.from..];
        match tokens.contains(&canvas.mask()) {
            true => &tokens[..tokens.len().min(self.visible(engine).len() + 1)],
            false => tokens,
        }
    }

    /// The tokens of the visible text.
    pub(crate) fn visible(&self, engine: &Engine) -> &[Token] {
        let tokens = &self.run.canvas().tokens()[self.from..];
        let end = tokens.iter().position(|token| self.ends && engine.ends.contains(token));
        &tokens[..end.unwrap_or(tokens.len())]
    }

    /// The visible text, if the model has a tokenizer.
    pub(crate) fn text(&self, engine: &Engine) -> Result<Option<String>> {
        match engine.text() {
            Ok(text) => Ok(Some(text.decode(self.visible(engine), Specials::Skip)?)),
            Err(_) => Ok(None),
        }
    }

    pub(crate) fn tokens_per_second(&self, engine: &Engine) -> f64 {
        let canvas = self.run.canvas();
        let visible = self.from..self.from + self.visible(engine).len();
        let written = visible.filter(|&position| canvas.is_gap(position) && !canvas.is_masked(position));
        written.count() as f64 / self.took.as_secs_f64().max(f64::MIN_POSITIVE)
    }
}

/// The model directory, or the embedded model.
pub(crate) fn open_checkpoint(directory: Option<&Path>) -> Result<Checkpoint> {
    Ok(match directory {
        Some(directory) => Checkpoint::open(directory)?,
        None => Checkpoint::embedded()?,
    })
}
