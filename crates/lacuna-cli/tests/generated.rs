//! Files that are derived from the catalogue, or from runs of the embedded model. `REGENERATE=1 cargo test -p lacuna-cli --test generated` writes them anew.

use std::path::PathBuf;
use std::process::Command;

use lacuna::catalogue::{Example, Kind, Named, PRESETS, PRESETS_TITLE, QUESTION, Section, parameters, parts};
use lacuna::decode;
use lacuna_models::{Checkpoint, Device, Model, Precision, Request, RunSummary, Specials, load};

fn file(path: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

/// Compares a file with what it should be, or writes it.
fn check(path: &str, expected: &str) {
    let path = file(path);
    if std::env::var_os("REGENERATE").is_some() {
        return std::fs::write(&path, expected).unwrap();
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    let advice = "run REGENERATE=1 cargo test -p lacuna-cli --test generated";
    assert!(found == expected, "{} is not current: {advice}", path.display());
}

/// A file with the text between its markers replaced.
fn with_marked(path: &str, text: &str) -> String {
    const MARKS: [&str; 2] = ["<!-- catalogue -->\n", "<!-- end of catalogue -->"];
    let whole = std::fs::read_to_string(file(path)).unwrap();
    let begin = whole.find(MARKS[0]).expect("the file has a first mark") + MARKS[0].len();
    let end = whole.find(MARKS[1]).expect("the file has a last mark");
    format!("{}{text}{}", &whole[..begin], &whole[end..])
}

/// Runs of the embedded model.
struct Runs {
    checkpoint: Checkpoint,
    model: Box<dyn Model>,
}

impl Runs {
    fn new() -> Self {
        let checkpoint = Checkpoint::embedded().unwrap();
        let model = load(&checkpoint, Some(Precision::F32), &Device::Cpu).unwrap();
        Self { checkpoint, model }
    }

    /// The answer of an example, below each token the step in which it was decided, and what is worth looking at; nothing if the
    /// model cannot do it.
    fn show(&mut self, example: Example) -> Option<String> {
        let Example { strategy, params } = example;
        let text = self.checkpoint.text().unwrap();
        let prompt = text.chat(&[("user", QUESTION)]).unwrap();
        let plan = Request(params.clone().with("strategy", &*strategy).unwrap()).plan(&self.checkpoint).unwrap();
        let mut runs = [plan.answer(&prompt, self.model.description()).ok()?];
        decode(&mut runs, self.model.as_mut()).unwrap();
        let [run] = &runs;
        let (trace, tokens) = (run.trace(), run.canvas().tokens());
        let written = (prompt.len()..tokens.len()).take_while(|&position| !plan.ends.contains(&tokens[position]));
        let [mut above, mut below] = [String::from(" "), String::from(" ")];
        let decided = trace.decided(trace.deltas.len());
        for position in written {
            let token = text.decode(&tokens[position..=position], Specials::Keep).unwrap();
            let (token, step) = (
                token.trim_start_matches(' ').replace('\n', "⏎"),
                decided[position].map_or(0, |step| step + 1).to_string(),
            );
            let width = token.chars().count().max(step.len()) + 1;
            above += &format!("{token:>width$}");
            below += &format!("{step:>width$}");
        }
        let summary = RunSummary {
            trace,
            canvas: run.canvas(),
            plan: &plan,
            from: prompt.len(),
            to: tokens.len(),
            kind: lacuna_models::Kind::Answer,
            nfe: run.forwards(),
            rows_read: run.rows_read(),
            rows_computed: run.rows_computed(),
            seconds: 0.0,
        };
        let moments: String = summary.moments(text).iter().map(|moment| format!("  {}\n", moment.text)).collect();
        let told = params.iter().filter(|(name, _)| !matches!(*name, "gen_length" | "frequencies"));
        let values: String = told.map(|(name, value)| format!(", {name} {value}")).collect();
        Some(format!("{strategy}{values}\n{above}\n{below}\n{moments}\n"))
    }

    /// Several of them.
    fn block(&mut self, about: &str, each: impl Iterator<Item = Example>) -> String {
        let shown: String = each.filter_map(|example| self.show(example)).collect();
        format!("\n{about}\n\n```text\n{}\n```\n", shown.trim_end())
    }
}

#[test]
fn the_reference_of_strategies_is_current() {
    let mut runs = Runs::new();
    let mut text = String::from(
        "# Strategies: parts and parameters\n\nThis page is generated from the catalogue (`crates/lacuna/src/catalogue`). What each part \
         does exactly is in [decoding.md](decoding.md).\n\nA strategy is `<order>[+<pace>][+<revision>]`, or a preset. Every order goes \
         with every pace; combinations that make no sense are refused with a sentence.\n",
    );
    for section in Section::ALL {
        let [title, about] = section.title();
        let parameter = section.parameter().map(|name| format!(" (`{name}`)")).unwrap_or_default();
        text += &format!("\n## {title}: {about}{parameter}\n\n| name | description | parameters |\n|---|---|---|\n");
        for part in parts(section) {
            let names: Vec<String> = part.parameters.iter().map(|parameter| format!("`{}`", parameter.name)).collect();
            text += &format!("| `{}` | {} | {} |\n", part.name, part.about, names.join(", "));
        }
        let about = match section {
            Section::Order => format!(
                "Each on the embedded model, asked \"{QUESTION}\"; below each token the step that decided it, and then what to look at:"
            ),
            Section::Pace => "Each with `dos`:".into(),
            Section::Revision => "Each in the method that has it:".into(),
            Section::Window | Section::Length => "Those that suit the embedded model, whose attention is full:".into(),
            Section::Cache => "Each with `fast-dllm` in blocks of 8:".into(),
        };
        text += &runs.block(&about, parts(section).iter().map(|part| Example::of_part(part).unwrap()));
    }
    let [title, about] = PRESETS_TITLE;
    text += &format!("\n## {title}: {about}\n\n| name | description | made of |\n|---|---|---|\n");
    for preset in PRESETS {
        let values: String = preset.values.iter().map(|(name, value)| format!(", `{name}` {value}")).collect();
        text += &format!("| `{}` | {} | `{}`{values} |\n", preset.name, preset.about, preset.is);
    }
    let presets = PRESETS.iter().map(|preset| Example::of_preset(preset).unwrap());
    text += &runs.block("Those that suit the embedded model, whose attention is full:", presets);
    text += "\n## Parameters\n\nOn the command line `block_length` is `--block-length`; in the server's JSON, in Python and in suite files it \
             is `block_length`. A value outside its range is refused, and so is a parameter that the strategy does not use.\n\n\
             | name | description | allowed | default | of |\n|---|---|---|---|---|\n";
    for known in parameters() {
        let (parameter, default, of) = (known.parameter, known.default(), known.users().join(", "));
        let allowed = parameter.expected();
        let allowed = allowed.strip_prefix("must be ").unwrap_or(&allowed);
        let about = parameter.about.replace('<', "\\<");
        text += &format!("| `{}` | {about} | {allowed} | {default} | {of} |\n", parameter.name);
    }
    check("docs/strategies.md", &text);
}

#[test]
fn the_concepts_list_all_parts() {
    let mut text = String::from("\n| | |\n|---|---|\n");
    for section in Section::ALL {
        let [title, about] = section.title();
        let names: Vec<String> = parts(section).iter().map(|part| format!("`{}`", part.name)).collect();
        text += &format!("| **{title}**: {about} | {} |\n", names.join(" "));
    }
    let presets: Vec<String> = PRESETS.iter().map(|preset| format!("`{}`", preset.name)).collect();
    let [title, about] = PRESETS_TITLE;
    text += &format!("| **{title}**: {about} | {} |\n\n", presets.join(" "));
    check("docs/concepts.md", &with_marked("docs/concepts.md", &text));
}

/// Pictures of the book, each with the command that makes its run.
const PICTURES: [(&str, &[&str]); 6] = [
    ("step", &["generate", "--strategy", "dos+eb", "--gen-length", "32", QUESTION]),
    ("order-confidence", &["generate", "--strategy", "confidence", "--gen-length", "32", QUESTION]),
    ("order-dos", &["generate", "--strategy", "dos", "--gen-length", "32", QUESTION]),
    ("pace-top4", &["generate", "--strategy", "dos+top4", "--gen-length", "32", QUESTION]),
    ("revision", &["generate", "--strategy", "wino", "--gen-length", "32", QUESTION]),
    ("window", &["generate", "--strategy", "confidence", "--gen-length", "32", "--block-length", "8", QUESTION]),
];

#[test]
fn the_pictures_of_the_book_are_current() {
    let folder = tempfile::tempdir().unwrap();
    let lacuna = |arguments: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_lacuna")).args(arguments).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    };
    for (name, command) in PICTURES {
        let [run, picture] = ["jsonl", "svg"].map(|kind| folder.path().join(name).with_extension(kind));
        let record = lacuna(&[command, &["--format", "json", "--precision", "f32", "--device", "cpu"]].concat());
        std::fs::write(&run, record).unwrap();
        lacuna(&["replay", run.to_str().unwrap(), "--svg", picture.to_str().unwrap()]);
        check(&format!("docs/pictures/{name}.svg"), &std::fs::read_to_string(&picture).unwrap());
    }
}

#[test]
fn the_options_of_python_are_current() {
    let field = |known: &Named| {
        let (parameter, default, of) = (known.parameter, known.default(), known.users());
        let kind = match parameter.kind {
            Kind::Flag => "bool".into(),
            Kind::Integer { .. } | Kind::Limit => "int".into(),
            Kind::Number(_) => "float".into(),
            Kind::Text => "str".into(),
            Kind::File => "str | dict[str, Any]".into(),
            Kind::Texts => "Sequence[str]".into(),
            Kind::Integers => "int | Sequence[int]".into(),
            Kind::Layers => "int | Sequence[int] | str".into(),
            // A registered part is a name, too.
            Kind::Part(_) => "str".into(),
            Kind::Choice(words) => {
                format!("Literal[{}]", words.iter().map(|word| format!("\"{word}\"")).collect::<Vec<_>>().join(", "))
            }
        };
        let of = if of.is_empty() { String::new() } else { format!("{}: ", of.join(", ")) };
        let about = format!("{of}{}. It {}. Default: {default}.", parameter.about, parameter.expected());
        format!("    {}: {kind} | None\n    \"\"\"{}\"\"\"\n", parameter.name, wrap(&about))
    };
    let (seed, others): (Vec<Named>, Vec<Named>) =
        parameters().into_iter().partition(|known| known.parameter.name == "seed");
    let fields = |all: &[Named]| all.iter().map(field).collect::<String>();
    let text = format!(
        "\"\"\"Options of every way to decode. This file is generated from the catalogue.\"\"\"\n\n\
         from collections.abc import Sequence\nfrom typing import Any, Literal, TypedDict\n\n\n\
         class Seedless(TypedDict, total=False):\n    \"\"\"Decoding options but for the seed.\"\"\"\n\n{}\n\n\
         class Options(Seedless, total=False):\n    \"\"\"Decoding options. Those that are left out, or None, are as the model \
         recommends, else they have their defaults.\"\"\"\n\n{}",
        fields(&others),
        fields(&seed),
    );
    check("crates/lacuna-py/python/lacunalm/options.py", &text);
}

/// Breaks lines of a docstring before column 120.
fn wrap(text: &str) -> String {
    let (mut lines, mut line) = (Vec::new(), String::new());
    for word in text.split(' ') {
        if line.len() + word.len() > 105 {
            lines.push(std::mem::take(&mut line));
        }
        line += if line.is_empty() { "" } else { " " };
        line += word;
    }
    lines.push(line);
    lines.join("\n    ")
}
