//! The book: what its pages say of the repository is true, and mdBook builds it.

use std::collections::HashMap;
use std::path::{Component, Path, PathBuf};
use std::process::Command;

use crate::{Step, root, step, target};

/// The version of mdBook that builds the book.
const MDBOOK: &str = "0.5.4";

/// The steps that build the book, after its pages were checked.
pub(crate) fn steps() -> Result<Vec<Step>, String> {
    let problems = problems(root());
    if !problems.is_empty() {
        return Err(problems.join("\n"));
    }
    let tools = target().join("tools");
    let (home, program) = (tools.display().to_string(), tools.join("bin/mdbook"));
    let told = Command::new(&program).arg("--version").output();
    let there = told.is_ok_and(|told| String::from_utf8_lossy(&told.stdout).trim() == format!("mdbook v{MDBOOK}"));
    // Without its server and watcher it is built in half the time.
    let install = format!(
        "cargo install mdbook --version {MDBOOK} --locked --no-default-features --features search --root {home} --target-dir {home}/build"
    );
    let install = (!there).then(|| step(&install));
    Ok(install.into_iter().chain([step(&format!("{} build docs", program.display()))]).collect())
}

/// A page: its path from the repository's root, its prose, and its blocks of code.
struct Page {
    path: PathBuf,
    /// Lines outside blocks of code, each with its number.
    prose: Vec<(usize, String)>,
    /// The first line of each block, and its text.
    blocks: Vec<(usize, String)>,
}

impl Page {
    fn new(path: &Path, text: &str) -> Self {
        let mut page = Self { path: path.to_path_buf(), prose: Vec::new(), blocks: Vec::new() };
        let mut inside = false;
        for (index, line) in text.lines().enumerate() {
            if line.trim_start().starts_with("```") {
                inside = !inside;
                if inside {
                    page.blocks.push((index + 2, String::new()));
                }
            } else if inside {
                let (_, block) = page.blocks.last_mut().expect("a block was opened");
                *block += line;
                *block += "\n";
            } else {
                page.prose.push((index + 1, line.to_string()));
            }
        }
        page
    }

    /// The anchors of its headings.
    fn anchors(&self) -> impl Iterator<Item = String> {
        self.prose.iter().filter(|(_, line)| line.starts_with('#')).map(|(_, line)| {
            let heading = line.trim_start_matches('#').trim().to_lowercase();
            let kept = heading.chars().filter(|letter| letter.is_alphanumeric() || " -_".contains(*letter));
            kept.map(|letter| if letter == ' ' { '-' } else { letter }).collect()
        })
    }

    /// The targets of its links and pictures.
    fn links(&self) -> impl Iterator<Item = (usize, &str)> {
        self.prose.iter().flat_map(|(number, line)| {
            let code = |at: usize| line[..at].matches('`').count() % 2 == 1;
            let targets = line.match_indices("](").filter(move |(at, _)| !code(*at));
            targets.filter_map(move |(at, _)| Some((*number, line[at + 2..].split_once(')')?.0)))
        })
    }

    /// Paths of the repository that stand in its prose as code.
    fn paths(&self) -> impl Iterator<Item = (usize, &str)> {
        const FOLDERS: [&str; 7] = ["crates/", "deploy/", "docs/", "fuzz/", "models/", "training/", "xtask/"];
        let is_path = |code: &&str| {
            let plain = code.chars().all(|letter| letter.is_ascii_alphanumeric() || "_-./".contains(letter));
            plain && FOLDERS.iter().any(|folder| code.starts_with(folder))
        };
        self.prose.iter().flat_map(move |(number, line)| {
            line.split('`').skip(1).step_by(2).filter(is_path).map(move |path| (*number, path))
        })
    }
}

/// Everything that is wrong with the repository's pages.
fn problems(root: &Path) -> Vec<String> {
    let listed = Command::new("git").args(["ls-files", "-z", "*.md"]).current_dir(root).output();
    let listed = listed.map(|listed| String::from_utf8_lossy(&listed.stdout).into_owned()).unwrap_or_default();
    let mut pages = HashMap::new();
    for path in listed.split_terminator('\0').map(Path::new) {
        match std::fs::read_to_string(root.join(path)) {
            Ok(text) => drop(pages.insert(path.to_path_buf(), Page::new(path, &text))),
            // Deleted, but not yet in a commit.
            Err(_) => continue,
        }
    }
    if pages.is_empty() {
        return vec!["git lists no pages: run this in a checkout".to_string()];
    }
    let mut problems: Vec<String> = pages.values().flat_map(|page| faults(root, page, &pages)).collect();
    let summary = Path::new("docs/SUMMARY.md");
    let chapters: Vec<PathBuf> = pages
        .get(summary)
        .map_or_else(Vec::new, |page| page.links().filter_map(|(_, link)| resolve(summary, link)).collect());
    let left_out = pages.keys().filter(|page| page.starts_with("docs") && *page != summary && !chapters.contains(page));
    problems.extend(left_out.map(|page| format!("{}: is not in docs/SUMMARY.md", page.display())));
    problems.sort();
    problems
}

/// Faults of a page.
fn faults(root: &Path, page: &Page, pages: &HashMap<PathBuf, Page>) -> Vec<String> {
    let mut faults = Vec::new();
    let mut fault = |number: usize, text: String| faults.push(format!("{}:{number}: {text}", page.path.display()));
    for (number, link) in page.links().filter(|(_, link)| !link.contains("://") && !link.starts_with("mailto:")) {
        let (file, anchor) = link.split_once('#').map_or((link, None), |(file, anchor)| (file, Some(anchor)));
        let Some(path) = (if file.is_empty() { Some(page.path.clone()) } else { resolve(&page.path, file) }) else {
            fault(number, format!("{link} leaves the repository"));
            continue;
        };
        let known = anchor
            .is_none_or(|anchor| pages.get(&path).is_some_and(|page| page.anchors().any(|known| known == anchor)));
        if !root.join(&path).exists() {
            fault(number, format!("there is no {}", path.display()));
        } else if !known {
            fault(number, format!("{} has no heading #{}", path.display(), anchor.unwrap_or_default()));
        } else if page.path.starts_with("docs") && !path.starts_with("docs") {
            fault(number, format!("{link} leaves the book: write the path as code"));
        }
    }
    // The changelog tells of what was.
    for (number, path) in page.paths().filter(|_| page.path != Path::new("CHANGELOG.md")) {
        if !root.join(path).exists() {
            fault(number, format!("there is no {path}"));
        }
    }
    for (number, block) in &page.blocks {
        if let Err(problem) = excerpt(root, block) {
            fault(*number, problem);
        }
    }
    faults
}

/// The path of the repository that a page's link means, if it is inside.
fn resolve(page: &Path, link: &str) -> Option<PathBuf> {
    let mut path = page.parent()?.to_path_buf();
    for part in Path::new(link).components() {
        match part {
            Component::Normal(name) => path.push(name),
            Component::ParentDir => path.pop().then_some(())?,
            _ => {}
        }
    }
    Some(path)
}

/// A block whose first line is a comment with a path is an excerpt of that file. A line `// …` stands for what was left out.
fn excerpt(root: &Path, block: &str) -> Result<(), String> {
    let Some((first, rest)) = block.split_once('\n') else { return Ok(()) };
    let path = match first.strip_prefix("// ") {
        Some(path) if path.starts_with("crates/") && !path.contains(' ') => path,
        _ => return Ok(()),
    };
    let file = std::fs::read_to_string(root.join(path)).map_err(|_| format!("there is no {path}"))?;
    let mut left = file.as_str();
    for piece in rest.split("// …\n").map(str::trim_end).filter(|piece| !piece.trim().is_empty()) {
        let piece = piece.trim_start_matches('\n');
        let at = left.find(piece).ok_or_else(|| {
            let line = piece.lines().next().unwrap_or_default();
            format!("{path} does not have the lines from \"{}\" on, or not there", line.trim())
        })?;
        left = &left[at + piece.len()..];
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_link_path_and_excerpt_of_the_pages_holds() {
        let problems = problems(root());
        assert!(problems.is_empty(), "{}", problems.join("\n"));
    }

    #[test]
    fn faults_are_found() {
        let page = |text: &str| Page::new(Path::new("docs/start.md"), text);
        let text = "# A `b` heading\n[no](none.md) [out](../README.md) [good](#a-b-heading) [bad](#c)\n`crates/none.rs` `[x](y)`\n\
                    ```rust\n// crates/lacuna/src/step.rs\npub fn nothing\n```\n";
        let pages = HashMap::from([(PathBuf::from("docs/start.md"), page(text))]);
        let found = faults(root(), &page(text), &pages);
        let expected = [
            "docs/start.md:2: there is no docs/none.md",
            "docs/start.md:2: ../README.md leaves the book: write the path as code",
            "docs/start.md:2: docs/start.md has no heading #c",
            "docs/start.md:3: there is no crates/none.rs",
            "docs/start.md:5: crates/lacuna/src/step.rs does not have the lines from \"pub fn nothing\" on, or not there",
        ];
        assert_eq!(found, expected);
    }
}
