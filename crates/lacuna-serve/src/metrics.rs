//! Counts and measurements, in Prometheus's text format.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use crate::transcript::Finish;

const SECONDS: &[f64] =
    &[0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0];
const RUNS: &[f64] = &[1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0];
const POSITIONS: &[f64] = &[64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0, 8192.0, 16384.0];
const TOKENS_PER_SECOND: &[f64] = &[0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0, 2000.0, 5000.0];

/// As many strategies have numbers of their own; the names of further ones are clients' inventions, such as `dos+top4711`.
const MAX_STRATEGIES: usize = 64;

/// The labels of `lacuna_build_info`.
#[derive(Debug, Default)]
pub(crate) struct Build {
    pub(crate) model: String,
    pub(crate) device: String,
    pub(crate) precision: String,
}

/// Everything that is counted.
pub(crate) struct Metrics {
    build: Build,
    started: (Instant, SystemTime),
    requests: Mutex<BTreeMap<(String, u16), u64>>,
    texts: Mutex<BTreeMap<String, Texts>>,
    pub(crate) connections: Gauge,
    pub(crate) waiting: Gauge,
    pub(crate) running: Gauge,
    pub(crate) weights: Gauge,
    pub(crate) prompt_bytes: Gauge,
    pub(crate) forwards: Counter,
    pub(crate) steps: Counter,
    pub(crate) nfe: Counter,
    pub(crate) rows_read: Counter,
    pub(crate) reused: Counter,
    pub(crate) committed: Counter,
    pub(crate) prompt_tokens: Counter,
    pub(crate) completion_tokens: Counter,
    pub(crate) cancelled: Counter,
    pub(crate) failed: Counter,
    pub(crate) batch_runs: Histogram,
    pub(crate) batch_positions: Histogram,
    pub(crate) step_seconds: Histogram,
    pub(crate) queue_seconds: Histogram,
    pub(crate) first_token_seconds: Histogram,
    pub(crate) request_seconds: Histogram,
    pub(crate) tokens_per_second: Histogram,
}

/// The texts of one strategy.
#[derive(Default)]
struct Texts {
    stop: u64,
    length: u64,
    tokens: u64,
    nfe: u64,
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new(Build::default())
    }
}

impl Metrics {
    pub(crate) fn new(build: Build) -> Self {
        Self {
            build,
            started: (Instant::now(), SystemTime::now()),
            requests: Mutex::default(),
            texts: Mutex::default(),
            connections: Gauge::default(),
            waiting: Gauge::default(),
            running: Gauge::default(),
            weights: Gauge::default(),
            prompt_bytes: Gauge::default(),
            forwards: Counter::default(),
            steps: Counter::default(),
            nfe: Counter::default(),
            rows_read: Counter::default(),
            reused: Counter::default(),
            committed: Counter::default(),
            prompt_tokens: Counter::default(),
            completion_tokens: Counter::default(),
            cancelled: Counter::default(),
            failed: Counter::default(),
            batch_runs: Histogram::new(RUNS),
            batch_positions: Histogram::new(POSITIONS),
            step_seconds: Histogram::new(SECONDS),
            queue_seconds: Histogram::new(SECONDS),
            first_token_seconds: Histogram::new(SECONDS),
            request_seconds: Histogram::new(SECONDS),
            tokens_per_second: Histogram::new(TOKENS_PER_SECOND),
        }
    }

    /// Counts an answered request.
    pub(crate) fn answered(&self, route: &str, status: u16) {
        let mut requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        *requests.entry((route.into(), status)).or_default() += 1;
    }

    /// Counts a text that has ended.
    pub(crate) fn ended(&self, strategy: &str, finish: Finish, tokens: usize, nfe: usize) {
        let mut texts = self.texts.lock().unwrap_or_else(PoisonError::into_inner);
        let known = texts.contains_key(strategy) || texts.len() < MAX_STRATEGIES;
        let texts = texts.entry(if known { strategy } else { "other" }.into()).or_default();
        match finish {
            Finish::Stop | Finish::ToolCalls => texts.stop += 1,
            Finish::Length => texts.length += 1,
        }
        texts.tokens += tokens as u64;
        texts.nfe += nfe as u64;
    }

    /// All of it, as Prometheus reads it.
    pub(crate) fn render(&self) -> String {
        let mut page = Page::default();
        let Build { model, device, precision } = &self.build;
        page.head("lacuna_build_info", "gauge", "What runs here; always 1.");
        page.line(format_args!(
            "lacuna_build_info{{version=\"{}\",model=\"{}\",device=\"{}\",precision=\"{}\"}} 1",
            env!("CARGO_PKG_VERSION"),
            escaped(model),
            escaped(device),
            escaped(precision)
        ));
        self.render_texts(&mut page);
        page.gauge("lacuna_connections", "Open connections.", self.connections.get());
        page.head("lacuna_requests_total", "counter", "HTTP requests by route and status.");
        for ((route, status), count) in self.requests.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            page.line(format_args!("lacuna_requests_total{{route=\"{route}\",status=\"{status}\"}} {count}"));
        }
        page.gauge("lacuna_queue_runs", "Runs that the step under way leaves out.", self.waiting.get());
        page.gauge("lacuna_active_runs", "Runs in the step under way.", self.running.get());
        for (name, help, counter) in [
            ("lacuna_forwards_total", "Forward passes of the model, each shared by a batch.", &self.forwards),
            ("lacuna_steps_total", "Decoding steps, counted for each run.", &self.steps),
            ("lacuna_nfe_total", "Function evaluations, counted for each run; guidance takes two a step.", &self.nfe),
            ("lacuna_rows_read_total", "Rows of the model's output that were read.", &self.rows_read),
            (
                "lacuna_positions_reused_total",
                "Positions that were not computed, because an earlier text begins alike.",
                &self.reused,
            ),
            ("lacuna_tokens_committed_total", "Tokens decided, reopened ones each time.", &self.committed),
            ("lacuna_prompt_tokens_total", "Tokens given by finished requests.", &self.prompt_tokens),
            ("lacuna_completion_tokens_total", "Tokens of the texts returned.", &self.completion_tokens),
            (
                "lacuna_runs_cancelled_total",
                "Runs given up: the client went away, or a stop string came.",
                &self.cancelled,
            ),
            ("lacuna_runs_failed_total", "Runs that a failing step ended.", &self.failed),
        ] {
            page.head(name, "counter", help);
            page.line(format_args!("{name} {}", counter.get()));
        }
        for (name, help, histogram) in [
            ("lacuna_batch_runs", "Runs in a forward pass.", &self.batch_runs),
            ("lacuna_batch_positions", "Positions in a forward pass.", &self.batch_positions),
            ("lacuna_step_seconds", "Duration of a batch's step.", &self.step_seconds),
            ("lacuna_queue_seconds", "Time a run waited for its turn.", &self.queue_seconds),
            ("lacuna_first_token_seconds", "Time until a request's first text was final.", &self.first_token_seconds),
            ("lacuna_request_seconds", "Time until a request's last byte was ready.", &self.request_seconds),
            ("lacuna_request_tokens_per_second", "Tokens of a request's text over its time.", &self.tokens_per_second),
        ] {
            page.histogram(name, help, histogram);
        }
        page.gauge("lacuna_model_weights_bytes", "Memory that the model's weights take.", self.weights.get());
        page.gauge(
            "lacuna_prompt_cache_bytes",
            "Memory that keys and values kept for later texts take.",
            self.prompt_bytes.get(),
        );
        if let Some(bytes) = resident_bytes() {
            page.gauge("process_resident_memory_bytes", "Memory that the process takes.", bytes);
        }
        let (since, at) = self.started;
        let at = at.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        page.gauge("process_start_time_seconds", "When the server started, in seconds since 1970.", at as i64);
        page.gauge("lacuna_uptime_seconds", "How long the server has run.", since.elapsed().as_secs() as i64);
        page.0
    }

    /// The texts by strategy.
    fn render_texts(&self, page: &mut Page) {
        let texts = self.texts.lock().unwrap_or_else(PoisonError::into_inner);
        page.head("lacuna_texts_total", "counter", "Texts that have ended, by strategy and finish reason.");
        for (strategy, counted) in texts.iter() {
            for (finish, count) in [("stop", counted.stop), ("length", counted.length)] {
                page.line(format_args!(
                    "lacuna_texts_total{{strategy=\"{}\",finish_reason=\"{finish}\"}} {count}",
                    escaped(strategy)
                ));
            }
        }
        for (name, help, count) in [
            ("lacuna_text_tokens_total", "Tokens of these texts.", (|texts| texts.tokens) as fn(&Texts) -> u64),
            ("lacuna_text_nfe_total", "Function evaluations of these texts.", |texts| texts.nfe),
        ] {
            page.head(name, "counter", help);
            for (strategy, counted) in texts.iter() {
                page.line(format_args!("{name}{{strategy=\"{}\"}} {}", escaped(strategy), count(counted)));
            }
        }
    }
}

/// A label's value, as Prometheus reads it.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// A number that only grows.
#[derive(Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, count: usize) {
        self.0.fetch_add(count as u64, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A number that is as it is.
#[derive(Default)]
pub(crate) struct Gauge(AtomicI64);

impl Gauge {
    pub(crate) fn set(&self, value: usize) {
        self.0.store(value as i64, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> i64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A histogram.
pub(crate) struct Histogram {
    bounds: &'static [f64],
    seen: Mutex<Counts>,
}

struct Counts {
    /// One for each bound, and one for what lies beyond.
    counts: Vec<u64>,
    sum: f64,
}

impl Histogram {
    fn new(bounds: &'static [f64]) -> Self {
        Self { bounds, seen: Mutex::new(Counts { counts: vec![0; bounds.len() + 1], sum: 0.0 }) }
    }

    pub(crate) fn add(&self, value: f64) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.counts[self.bounds.partition_point(|&bound| bound < value)] += 1;
        seen.sum += value;
    }
}

#[derive(Default)]
struct Page(String);

impl Page {
    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        writeln!(self.0, "{line}").expect("a string takes all that is written");
    }

    fn head(&mut self, name: &str, kind: &str, help: &str) {
        self.line(format_args!("# HELP {name} {help}"));
        self.line(format_args!("# TYPE {name} {kind}"));
    }

    fn gauge(&mut self, name: &str, help: &str, value: i64) {
        self.head(name, "gauge", help);
        self.line(format_args!("{name} {value}"));
    }

    fn histogram(&mut self, name: &str, help: &str, histogram: &Histogram) {
        self.head(name, "histogram", help);
        let seen = histogram.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let mut total = 0;
        let bounds = histogram.bounds.iter().map(f64::to_string).chain(["+Inf".into()]);
        for (bound, count) in bounds.zip(&seen.counts) {
            total += count;
            self.line(format_args!("{name}_bucket{{le=\"{bound}\"}} {total}"));
        }
        self.line(format_args!("{name}_sum {}", seen.sum));
        self.line(format_args!("{name}_count {total}"));
    }
}

/// The memory of this process, where the system tells.
fn resident_bytes() -> Option<i64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: i64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_cumulative_and_a_bound_belongs_to_its_bucket() {
        let metrics = Metrics::default();
        [1.0, 2.0, 3.0, 1000.0].into_iter().for_each(|runs| metrics.batch_runs.add(runs));
        metrics.answered("/v1/models", 200);
        let page = metrics.render();
        for line in [
            "lacuna_batch_runs_bucket{le=\"1\"} 1",
            "lacuna_batch_runs_bucket{le=\"2\"} 2",
            "lacuna_batch_runs_bucket{le=\"4\"} 3",
            "lacuna_batch_runs_bucket{le=\"+Inf\"} 4",
            "lacuna_batch_runs_sum 1006",
            "lacuna_batch_runs_count 4",
            "lacuna_requests_total{route=\"/v1/models\",status=\"200\"} 1",
        ] {
            assert!(page.lines().any(|found| found == line), "{line} is not in\n{page}");
        }
    }
}
