//! `lacuna serve`: the model behind OpenAI's API, and the page.

use std::io::{IsTerminal, stderr};
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use clap::{Args, Command, ValueEnum};
use lacuna_models::{Device, describe_devices};
use lacuna_serve::{ApiKey, Config, Example, Limits};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tracing::level_filters::LevelFilter;

use super::{print, read};
use crate::args::{self, Isa, Precision, parse_unsigned};
use crate::engine::{Engine, open_as_asked};

/// The settings: each a flag, else a variable, else in the file, where it has the flag's name with underscores.
#[derive(Args, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[command(after_help = "\
Keys are never flags, which every user of the machine could read. They come from LACUNA_API_KEYS (separated by commas), from
--api-key-file, or as api_keys = [\"...\"] from the configuration file. Without any key, everybody who reaches the port is served.
In the file and in api_keys, name=NAME, requests_per_minute=N, tokens_per_minute=N and concurrent=N may follow a key. SIGHUP has
the files read again.

Examples:
  lacuna serve
  lacuna serve --model LLaDA-8B-Instruct --host 0.0.0.0 --port 80 --api-key-file keys.txt --log-format json
  LACUNA_API_KEYS=secret lacuna serve --config lacuna.toml")]
pub(crate) struct Serve {
    /// A TOML file with settings; flags and LACUNA_* variables go before it
    #[arg(long, value_name = "FILE", env = "LACUNA_CONFIG")]
    #[serde(skip)]
    config: Option<PathBuf>,
    /// The address or name to listen on [default: 127.0.0.1, which only this machine reaches]
    #[arg(long, value_name = "HOST", env = "LACUNA_HOST")]
    host: Option<String>,
    /// The port to listen on; 0 takes a free one [default: 8080]
    #[arg(long, value_name = "N", value_parser = parse_unsigned::<u16>, env = "LACUNA_PORT")]
    port: Option<u16>,
    /// A file with one API key a line; clients must send one of them
    #[arg(long, value_name = "FILE", env = "LACUNA_API_KEY_FILE")]
    api_key_file: Option<PathBuf>,
    #[arg(skip)]
    api_keys: Vec<String>,
    /// Let pages of this origin call the API; may be repeated [default: none]
    #[arg(long = "cors-origin", value_name = "ORIGIN", env = "LACUNA_CORS_ORIGINS", value_delimiter = ',')]
    cors_origins: Vec<String>,
    /// A name besides localhost that a server without keys on a loopback address answers to; may be repeated [default: none]
    #[arg(long = "allow-host", value_name = "NAME", env = "LACUNA_ALLOW_HOSTS", value_delimiter = ',')]
    allow_hosts: Vec<String>,
    /// The model's name in requests [default: its folder's name]
    #[arg(long, value_name = "NAME", env = "LACUNA_MODEL_NAME")]
    model_name: Option<String>,

    /// A model directory as on Hugging Face (config.json, safetensors, tokenizer), or a GGUF file [default: the embedded model]
    #[arg(long, value_name = "DIR", env = "LACUNA_MODEL", help_heading = "Model")]
    model: Option<PathBuf>,
    /// The mask token's id, for checkpoints that do not name it
    #[arg(long, value_name = "ID", env = "LACUNA_MASK_TOKEN", help_heading = "Model")]
    mask_token: Option<lacuna::Token>,
    /// The model predicts a position from the row before it, for checkpoints that do not say so (A2D)
    #[arg(long, value_name = "BOOL", env = "LACUNA_SHIFTED", help_heading = "Model")]
    shifted: Option<bool>,
    /// The precision of weights and matrix products [default: bf16 for 16-bit checkpoints, else f32]
    #[arg(long, value_enum, env = "LACUNA_PRECISION", help_heading = "Model")]
    precision: Option<Precision>,
    /// Compute device: auto, cpu, cuda, cuda:1, or a replica of the model on each of several GPUs, cuda:0,1 or cuda:all [default: auto]
    #[arg(long, value_name = "DEVICE", env = "LACUNA_DEVICE", help_heading = "Model")]
    device: Option<Device>,
    /// The CPU's instruction set [default: auto, the fastest]
    #[arg(long, value_enum, env = "LACUNA_ISA", help_heading = "Model")]
    isa: Option<Isa>,
    /// Threads that compute, 1 to 256 [default: all cores]
    #[arg(long, value_name = "N", value_parser = parse_unsigned::<usize>, env = "LACUNA_THREADS", help_heading = "Model")]
    threads: Option<usize>,

    /// Maximum number of texts in a forward pass [default: 16]
    #[arg(long, value_name = "N", value_parser = parse_unsigned::<usize>, env = "LACUNA_MAX_BATCH", help_heading = "Limits")]
    max_batch: Option<usize>,
    /// Maximum number of positions in a forward pass; a longer text gets a pass of its own [default: 8192]
    #[arg(long, value_name = "N", value_parser = parse_unsigned::<usize>, env = "LACUNA_MAX_POSITIONS", help_heading = "Limits")]
    max_positions: Option<usize>,
    /// Maximum number of texts accepted beyond a batch; more are refused with status 429 [default: 256]
    #[arg(long, value_name = "N", value_parser = parse_unsigned::<usize>, env = "LACUNA_MAX_QUEUE", help_heading = "Limits")]
    max_queue: Option<usize>,
    /// Maximum number of texts of one request, prompts times n [default: 128]
    #[arg(long, value_name = "N", value_parser = parse_unsigned::<usize>, env = "LACUNA_MAX_TEXTS", help_heading = "Limits")]
    max_texts: Option<usize>,
    /// Maximum number of tokens of a text [default: 4096]
    #[arg(long, value_name = "N", value_parser = parse_unsigned::<usize>, env = "LACUNA_MAX_GEN_LENGTH", help_heading = "Limits")]
    max_gen_length: Option<usize>,
    /// Maximum number of bytes of a request's body [default: what the model's context allows]
    #[arg(long, value_name = "N", value_parser = parse_unsigned::<usize>, env = "LACUNA_MAX_BODY_BYTES", help_heading = "Limits")]
    max_body_bytes: Option<usize>,
    /// Maximum number of open connections; when there are more, idle ones are closed [default: 1024]
    #[arg(long, value_name = "N", value_parser = parse_unsigned::<usize>, env = "LACUNA_MAX_CONNECTIONS", help_heading = "Limits")]
    max_connections: Option<usize>,
    /// Seconds that a request may take, preparation and waiting included [default: 600]
    #[arg(long, value_name = "N", value_parser = parse_unsigned::<usize>, env = "LACUNA_TIMEOUT_SECONDS", help_heading = "Limits")]
    timeout_seconds: Option<usize>,

    /// Megabytes of the cache of keys and values for prompts that begin alike, on the model's device; 0 is no cache; for
    /// block-causal models [default: 1024]
    #[arg(long, value_name = "N", value_parser = parse_unsigned::<usize>, env = "LACUNA_PROMPT_CACHE_MB", help_heading = "Limits")]
    prompt_cache_mb: Option<usize>,

    /// The format of the log, which goes to standard error [default: text]
    #[arg(long, value_enum, env = "LACUNA_LOG_FORMAT", help_heading = "Log")]
    log_format: Option<LogFormat>,
    /// Lowest level that is logged [default: info]
    #[arg(long, value_enum, env = "LACUNA_LOG_LEVEL", help_heading = "Log")]
    log_level: Option<LogLevel>,
}

#[derive(Clone, Copy, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum LogFormat {
    Text,
    Json,
}

#[derive(Clone, Copy, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum LogLevel {
    Off,
    Error,
    Warn,
    Info,
    Debug,
}

/// The most threads that make sense on any machine.
const MAX_THREADS: usize = 256;
const MAX_MODEL_NAME: usize = 200;
/// The variable with keys, separated by commas.
const KEYS: &str = "LACUNA_API_KEYS";

pub(crate) fn serve(args: &Serve) -> Result<()> {
    let settings = args.with_file()?;
    let config = settings.config()?;
    let unknown = unknown_variables()?;
    settings.start_log();
    for name in unknown {
        tracing::warn!("{name} is set, but there is no such setting: see lacuna serve --help");
    }
    let Engine { checkpoint, predictor, others, .. } = Engine::open_replicas(&settings.model())?;
    let models: Vec<_> = std::iter::once(predictor).chain(others).collect();
    let (name, device) = (config.model_name.clone(), describe_devices(&models));
    let open = config.api_keys.is_empty() && !config.address.ip().is_loopback();
    // The files as they are then.
    let keys = || args.with_file().and_then(|settings| settings.keys()).map_err(|error| format!("{error:#}"));
    lacuna_serve::run(checkpoint, models, config, keys, |address| {
        if open {
            tracing::warn!("{address} is open to everybody who reaches it, since there are no API keys");
        }
        let _ = print(&format!("{name} is served on http://{address} ({device}); ctrl-c stops it"));
    })?;
    Ok(())
}

/// Says what is wrong with the settings, without loading the model.
pub(crate) fn check_serve(args: &Serve) -> Result<()> {
    unknown_variables()?;
    let settings = args.with_file()?;
    settings.config()?;
    open_as_asked(&settings.model()).map(drop)
}

/// Variables that look like ours and are none. One that is nearly a setting is an error: it might be a misspelt key.
fn unknown_variables() -> Result<Vec<String>> {
    let command = Serve::augment_args(Command::new("serve"));
    let known: Vec<String> = command
        .get_arguments()
        .filter_map(|argument| Some(argument.get_env()?.to_string_lossy().into_owned()))
        .chain([KEYS.to_string()])
        .collect();
    let set = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    let unknown: Vec<String> = set.filter(|name| name.starts_with("LACUNA_") && !known.contains(name)).collect();
    for name in &unknown {
        if let Some(meant) = known.iter().find(|known| distance(name, known) <= 2) {
            return Err(anyhow!("{name} is set, but there is no such setting: did you mean {meant}?"));
        }
    }
    Ok(unknown)
}

/// The number of letters to add, remove or change to make one word of another.
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (line, a) in a.bytes().enumerate() {
        let mut corner = std::mem::replace(&mut row[0], line + 1);
        for (column, b) in b.bytes().enumerate() {
            let changed = corner + usize::from(a != b);
            corner = row[column + 1];
            row[column + 1] = changed.min(corner + 1).min(row[column] + 1);
        }
    }
    row[b.len()]
}

impl Serve {
    /// These settings, and the file's where they say nothing.
    fn with_file(&self) -> Result<Self> {
        let file = match &self.config {
            Some(path) => {
                let text = read(path)?;
                let parsed: Self = toml::from_str(&text)
                    .map_err(|error| anyhow!("{} is not a configuration file: {}", path.display(), one_line(&error)))?;
                parsed
            }
            None => Self::default(),
        };
        let mut merged = serde_json::to_value(file)?;
        let said = |value: &Value| !value.is_null() && value.as_array().is_none_or(|list| !list.is_empty());
        for (name, value) in serde_json::to_value(self)?.as_object().into_iter().flatten().filter(|(_, v)| said(v)) {
            merged[name] = value.clone();
        }
        Ok(serde_json::from_value(merged)?)
    }

    fn model(&self) -> args::Model {
        args::Model {
            model: self.model.clone(),
            mask_token: self.mask_token,
            shifted: self.shifted,
            precision: self.precision,
            device: self.device.clone().unwrap_or_default(),
            isa: self.isa.unwrap_or(Isa::Auto),
            threads: self.threads,
        }
    }

    fn config(&self) -> Result<Config> {
        let usual = Config::default();
        let limits = usual.limits;
        let number = |name: &str, value: Option<usize>, usual: usize| match value {
            Some(0) => Err(anyhow!("{name} is 0, but it must be 1 or more")),
            value => Ok(value.unwrap_or(usual)),
        };
        let threads = number("threads", self.threads, 1)?;
        ensure!(threads <= MAX_THREADS, "threads is {threads}, but it must be {MAX_THREADS} or less");
        let seconds = number("timeout_seconds", self.timeout_seconds, limits.timeout.as_secs() as usize)?;
        ensure!(seconds <= 1_000_000, "timeout_seconds is {seconds}, but it must be 1000000 or less");
        let embedded = self.model.is_none();
        Ok(Config {
            address: self.address(usual.address)?,
            model_name: self.name()?,
            api_keys: self.keys()?,
            cors_origins: self.cors_origins.clone(),
            allowed_hosts: self.allow_hosts.clone(),
            examples: if embedded { Example::embedded() } else { Vec::new() },
            limits: Limits {
                batch: number("max_batch", self.max_batch, limits.batch)?,
                positions: number("max_positions", self.max_positions, limits.positions)?,
                queue: number("max_queue", self.max_queue, limits.queue)?,
                runs: number("max_texts", self.max_texts, limits.runs)?,
                gen_length: number("max_gen_length", self.max_gen_length, limits.gen_length)?,
                body_bytes: self.max_body_bytes.map(|most| number("max_body_bytes", Some(most), 0)).transpose()?,
                connections: number("max_connections", self.max_connections, limits.connections)?,
                timeout: Duration::from_secs(seconds as u64),
                prompt_bytes: self
                    .prompt_cache_mb
                    .map_or(limits.prompt_bytes, |megabytes| megabytes.saturating_mul(1 << 20)),
            },
        })
    }

    /// The model's name: as asked, else its folder's.
    fn name(&self) -> Result<String> {
        let folder = |path: &PathBuf| {
            let path = path.canonicalize().unwrap_or(path.clone());
            path.file_name().map(|name| name.to_string_lossy().into_owned())
        };
        let name = match (&self.model_name, &self.model) {
            (Some(name), _) => Some(name.clone()),
            (None, Some(model)) => folder(model),
            (None, None) => Some("lacuna-mini".into()),
        };
        let name =
            name.filter(|name| !name.is_empty()).context("the model needs a name: give one with --model-name")?;
        let plain = name.len() <= MAX_MODEL_NAME && !name.chars().any(char::is_control);
        ensure!(plain, "--model-name must be at most {MAX_MODEL_NAME} bytes without control characters");
        Ok(name)
    }

    /// The address to listen on. A name may have several addresses; IPv4 goes first.
    fn address(&self, usual: SocketAddr) -> Result<SocketAddr> {
        let port = self.port.unwrap_or(usual.port());
        let Some(host) = &self.host else { return Ok((usual.ip(), port).into()) };
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        let found = (bare, port).to_socket_addrs().ok().and_then(|found| found.min_by_key(SocketAddr::is_ipv6));
        found.with_context(|| format!("--host {host} is neither an address nor a name that this machine knows"))
    }

    /// The keys from the environment, the key file, and the configuration file.
    fn keys(&self) -> Result<Vec<ApiKey>> {
        let mut keys: Vec<ApiKey> = Vec::new();
        let mut add = |line: &str, place: &dyn std::fmt::Display| -> Result<()> {
            keys.push(ApiKey::parse(line).map_err(|why| anyhow!("{place}: {why}"))?);
            Ok(())
        };
        if let Ok(listed) = std::env::var(KEYS) {
            listed.split(',').try_for_each(|key| add(key.trim(), &KEYS))?;
        }
        if let Some(path) = &self.api_key_file {
            let text = read(path)?;
            let written = text.lines().enumerate().map(|(number, line)| (number + 1, line.trim()));
            let written = written.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
            for (number, line) in written.clone() {
                add(line, &format_args!("{}, line {number}", path.display()))?;
            }
            ensure!(written.count() > 0, "{} holds no API key: write one a line", path.display());
        }
        self.api_keys.iter().try_for_each(|key| add(key, &"api_keys"))?;
        Ok(keys)
    }

    fn start_log(&self) {
        let level = match self.log_level.unwrap_or(LogLevel::Info) {
            LogLevel::Off => LevelFilter::OFF,
            LogLevel::Error => LevelFilter::ERROR,
            LogLevel::Warn => LevelFilter::WARN,
            LogLevel::Info => LevelFilter::INFO,
            LogLevel::Debug => LevelFilter::DEBUG,
        };
        let log = tracing_subscriber::fmt().with_max_level(level).with_writer(stderr).with_target(false);
        match self.log_format.unwrap_or(LogFormat::Text) {
            LogFormat::Text => log.with_ansi(stderr().is_terminal()).init(),
            LogFormat::Json => log.json().flatten_event(true).init(),
        }
    }
}

/// A mistake in TOML in one line; its own messages draw a picture.
fn one_line(error: &toml::de::Error) -> String {
    error.message().replace('\n', ", ")
}
