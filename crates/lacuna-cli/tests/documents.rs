//! The commands in the documents: all parse, and those of the first page run.

use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The README, the pages for contributors, and the book.
fn pages() -> Vec<PathBuf> {
    let book = std::fs::read_dir(root().join("docs")).unwrap().map(|entry| entry.unwrap().path());
    let book = book.filter(|path| path.extension() == Some("md".as_ref()));
    ["README.md", "CONTRIBUTING.md"].map(|name| root().join(name)).into_iter().chain(book).collect()
}

/// The commands in the `sh` blocks of a page, each with the number of its line. Lines that end in `\` go on.
fn commands(page: &str) -> Vec<(usize, String)> {
    let (mut commands, mut inside, mut open) = (Vec::<(usize, String)>::new(), false, false);
    for (index, line) in page.lines().enumerate() {
        if line.starts_with("```") {
            inside = line == "```sh";
        } else if inside && open {
            let (_, command) = commands.last_mut().unwrap();
            *command += "\n";
            *command += line;
        } else if inside && !line.trim().is_empty() {
            commands.push((index + 1, line.to_string()));
        } else {
            continue;
        }
        open =
            commands.last().is_some_and(|(_, command)| inside && (command.ends_with('\\') || words(command).is_none()));
    }
    commands
}

/// The words of a command line as a shell has them: quotes, comments, and what stands before a redirection or a pipe. None if a quote
/// is not closed.
fn words(line: &str) -> Option<Vec<String>> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None::<char>);
    let mut letters = line.chars();
    while let Some(letter) = letters.next() {
        match (quote, letter) {
            (Some(open), letter) if letter == open => quote = None,
            (Some('"') | None, '\\') => match letters.next() {
                Some('\n') | None => {}
                Some(letter) => word.get_or_insert_default().push(letter),
            },
            (Some(_), letter) => word.get_or_insert_default().push(letter),
            (None, '\'' | '"') => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            (None, ' ' | '\n') => words.extend(word.take()),
            (None, '#') if word.is_none() => break,
            (None, '>' | '|' | ';' | '&') => break,
            (None, letter) => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    quote.is_none().then_some(words)
}

/// The reason why a command cannot be as it is written.
fn fault(command: &str) -> Option<String> {
    let words = words(command)?;
    let mut words: Vec<&str> = words.iter().map(String::as_str).collect();
    let is_variable = |word: &&str| {
        word.split_once('=').is_some_and(|(name, _)| name.chars().all(|l| l.is_ascii_uppercase() || l == '_'))
    };
    words.drain(..words.iter().take_while(|word| is_variable(word)).count());
    let lacuna = |arguments: &[&str]| {
        // Everything before `--help` is parsed, and nothing is run.
        let output = Command::new(env!("CARGO_BIN_EXE_lacuna")).args(arguments).arg("--help").output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        (!output.status.success()).then_some(told)
    };
    let missing = |path: String| (!root().join(&path).exists()).then(|| format!("there is no {path}"));
    match &words[..] {
        [] => None,
        ["lacuna", arguments @ ..] => lacuna(arguments),
        ["cargo", "run", flags @ ..] => {
            let rest = flags.iter().position(|word| *word == "--").map_or(&[][..], |at| &flags[at + 1..]);
            match flags {
                ["--release", "--", ..] => lacuna(rest),
                _ => {
                    let after =
                        |flag: &str| flags.iter().position(|word| *word == flag).and_then(|at| flags.get(at + 1));
                    missing(format!("crates/{}/examples/{}.rs", after("-p")?, after("--example")?))
                }
            }
        }
        ["cargo", "install", "--path", path, ..] => missing(path.to_string()),
        ["cargo", "xtask" | "test" | "bench" | "+nightly", ..] => None,
        ["curl" | "pip" | "python" | "llama-bench" | "lm_eval" | "docker" | "kubectl" | "systemctl", ..] => None,
        [program, ..] if program.contains('/') => missing(program.to_string()),
        [program, ..] => Some(format!("{program} is not a program that the documents speak of")),
    }
}

#[test]
fn every_command_parses() {
    let mut faults = Vec::new();
    let mut count = 0;
    for page in pages() {
        let text = std::fs::read_to_string(&page).unwrap();
        for (line, command) in commands(&text) {
            count += 1;
            if let Some(fault) = fault(&command) {
                faults.push(format!("{}:{line}: {command}: {fault}", page.file_name().unwrap().display()));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert!(count > 50, "{count} commands were found");
}

#[test]
fn words_are_a_shells() {
    let found = |line: &str| words(line).map(|words| words.join("|"));
    assert_eq!(
        found("lacuna fill --regex ' [0-9]+' \"a \\\"b\" # so").as_deref(),
        Some("lacuna|fill|--regex| [0-9]+|a \"b")
    );
    assert_eq!(found("lacuna replay a.jsonl --svg '' > x").as_deref(), Some("lacuna|replay|a.jsonl|--svg|"));
    assert_eq!(found("curl -d '{").as_deref(), None);
    let page = "```sh\na \\\n  b\nc '{\n}'\n```\n```\nd\n```\n";
    assert_eq!(commands(page), [(2, "a \\\n  b".to_string()), (4, "c '{\n}'".to_string())]);
    assert!(fault("lacuna generate --no-such-flag 3").is_some_and(|fault| fault.contains("--no-such-flag")));
}

/// The first page can be followed from top to bottom; what needs a model, a server or a compiler is left out.
#[cfg(unix)]
#[test]
fn the_first_page_works() {
    let text = std::fs::read_to_string(root().join("docs/start.md")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let built = Path::new(env!("CARGO_BIN_EXE_lacuna")).parent().unwrap();
    let path = format!("{}:{}", built.display(), std::env::var("PATH").unwrap_or_default());
    let mut run = 0;
    for (line, command) in commands(&text) {
        if !command.starts_with("lacuna ") || ["path/to", "lacuna serve"].iter().any(|word| command.contains(word)) {
            continue;
        }
        let output =
            Command::new("sh").args(["-c", &command]).env("PATH", &path).current_dir(&folder).output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "start.md:{line}: {command}: {told}");
        run += 1;
    }
    assert!(run >= 10, "{run} commands were run");
}
