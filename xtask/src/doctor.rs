//! Tools that building and testing lacuna needs.

use std::process::{Command, ExitCode};

/// A program, and what it is good for.
struct Tool {
    /// Names that it goes by, and the arguments that make it tell its version.
    programs: &'static [&'static str],
    arguments: &'static [&'static str],
    /// The lowest version that does.
    least: Option<(u32, u32)>,
    purpose: &'static str,
    /// Command that installs it.
    remedy: &'static str,
    needed: Needed,
}

#[derive(Clone, Copy, PartialEq)]
enum Needed {
    /// To build and run lacuna.
    Always,
    /// For the tests named in `purpose`.
    ForTests,
    /// Nothing fails without it.
    Optional,
}

const TOOLS: [Tool; 9] = [
    Tool {
        programs: &["rustc"],
        arguments: &["--version"],
        least: Some(RUST),
        purpose: "build lacuna",
        remedy: "https://rustup.rs, then `rustup update stable`",
        needed: Needed::Always,
    },
    Tool {
        programs: &["cc", "gcc", "clang"],
        arguments: &["--version"],
        least: None,
        purpose: "build lacuna's dependencies",
        remedy: "apt-get install gcc libc6-dev, or xcode-select --install",
        needed: Needed::Always,
    },
    Tool {
        programs: &["g++"],
        arguments: &["--version"],
        least: None,
        purpose: "GPU kernels on the emulated GPU (crates/lacuna-models/kernel-check.sh)",
        remedy: "apt-get install g++",
        needed: Needed::ForTests,
    },
    Tool {
        programs: &["python3"],
        arguments: &["--version"],
        least: Some((3, 11)),
        purpose: "the Python package and the tests with foreign clients",
        remedy: "apt-get install python3 python3-dev python3-venv",
        needed: Needed::ForTests,
    },
    Tool {
        programs: &["node"],
        arguments: &["--version"],
        least: Some((20, 0)),
        purpose: "the page's tests (crates/lacuna-serve/tests/browser/run)",
        remedy: "apt-get install nodejs npm, or https://nodejs.org",
        needed: Needed::ForTests,
    },
    Tool {
        programs: &["npm"],
        arguments: &["--version"],
        least: None,
        purpose: "the page's tests",
        remedy: "apt-get install npm, or https://nodejs.org",
        needed: Needed::ForTests,
    },
    Tool {
        programs: &["chromium"],
        arguments: &["--version"],
        least: None,
        purpose: "the page's tests",
        remedy: "apt-get install chromium fonts-liberation",
        needed: Needed::ForTests,
    },
    Tool {
        programs: &["curl"],
        arguments: &["--version"],
        least: None,
        purpose: "the page's tests",
        remedy: "apt-get install curl",
        needed: Needed::ForTests,
    },
    Tool {
        programs: &["nvidia-smi"],
        arguments: &["--query-gpu=name,driver_version", "--format=csv,noheader"],
        least: None,
        purpose: "an NVIDIA GPU and its driver; `lacuna inspect` says more",
        remedy: "none is needed: the GPU tests skip with a word, and the emulated GPU runs them",
        needed: Needed::Optional,
    },
];

/// `rust-version` of the workspace.
const RUST: (u32, u32) = parse_version(env!("CARGO_PKG_RUST_VERSION").as_bytes());

/// Prints what there is and what is missing.
pub(crate) fn run() -> ExitCode {
    let mut missing = false;
    for tool in &TOOLS {
        let name = tool.programs[0];
        let problem = match (version(tool), tool.least) {
            (Some(told), None) => Ok(told),
            (Some(told), Some(least)) if first_version(&told).is_some_and(|found| found >= least) => Ok(told),
            (Some(told), Some((major, minor))) => Err(format!("{told}, but {major}.{minor} or later is needed")),
            (None, _) => Err("not found".to_string()),
        };
        match problem {
            Ok(told) => println!("ok       {name:<11} {told}"),
            Err(problem) => {
                let word = if tool.needed == Needed::Optional { "without" } else { "MISSING" };
                println!("{word}  {name:<11} {problem}");
                println!("{:21}for: {}", "", tool.purpose);
                println!("{:21}get: {}", "", tool.remedy);
                missing |= tool.needed != Needed::Optional;
            }
        }
    }
    if missing { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// The first line that a tool says about itself.
fn version(tool: &Tool) -> Option<String> {
    tool.programs.iter().find_map(|program| {
        let output = Command::new(program).args(tool.arguments).output().ok()?;
        let told = String::from_utf8_lossy(&output.stdout);
        output.status.success().then(|| told.lines().next().unwrap_or("").trim().to_string())
    })
}

/// Major and minor number of the first version in a text.
fn first_version(text: &str) -> Option<(u32, u32)> {
    let start = text.find(|letter: char| letter.is_ascii_digit())?;
    let found = parse_version(&text.as_bytes()[start..]);
    (found != (0, 0)).then_some(found)
}

/// Major and minor number at the beginning of a text.
const fn parse_version(text: &[u8]) -> (u32, u32) {
    let (mut numbers, mut part, mut index) = ([0u32; 2], 0, 0);
    while index < text.len() && part < 2 {
        match text[index] {
            digit @ b'0'..=b'9' => numbers[part] = numbers[part] * 10 + (digit - b'0') as u32,
            b'.' => part += 1,
            _ => part = 2,
        }
        index += 1;
    }
    (numbers[0], numbers[1])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_found_in_what_tools_say() {
        assert_eq!(first_version("rustc 1.95.0 (59807616e 2026-04-14)"), Some((1, 95)));
        assert_eq!(first_version("v20.19.2"), Some((20, 19)));
        assert_eq!(first_version("Python 3.11.7"), Some((3, 11)));
        assert_eq!(first_version("no version"), None);
        assert!(RUST >= (1, 95));
    }
}
