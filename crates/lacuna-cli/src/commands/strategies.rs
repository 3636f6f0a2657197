//! `lacuna strategies`: the parts of a strategy and how to combine them.

use std::io::{IsTerminal, stdout};

use anyhow::Result;
use lacuna::catalogue::{PRESETS, PRESETS_TITLE, Section, parts};

use super::print;
use crate::render;

/// Column at which descriptions begin.
const INDENT: usize = 19;

pub(crate) fn strategies() -> Result<()> {
    // What is piped keeps one line for each name.
    let width = if stdout().is_terminal() { render::size().0 } else { usize::MAX };
    let paragraph = |text: &str| wrapped(text, width, 0);
    let entry = |name: &str, text: String| wrapped(&format!("  {name:<16} {text}"), width, INDENT);
    let flag = |name: &str| format!("--{}", name.replace('_', "-"));
    let mut text =
        paragraph("A strategy is <order>[+<pace>][+<revision>], or a preset. Every order goes with every pace.");
    for section in Section::ALL {
        let [title, about] = section.title();
        let named = section.parameter().map(|name| format!(" ({})", flag(name))).unwrap_or_default();
        text += &paragraph(&format!("\n{title}{named}: {about}"));
        for part in parts(section) {
            let flags: Vec<String> = part.parameters.iter().map(|parameter| flag(parameter.name)).collect();
            let flags = if flags.is_empty() { String::new() } else { format!(" ({})", flags.join(", ")) };
            text += &entry(&part.name, format!("{}{flags}", part.about));
        }
    }
    let [title, about] = PRESETS_TITLE;
    text += &paragraph(&format!("\n{title}: {about}, as their official code does it"));
    for preset in PRESETS {
        let values: String = preset.values.iter().map(|(name, value)| format!(" {} {value}", flag(name))).collect();
        text += &entry(preset.name, format!("{} ({}{values})", preset.about, preset.is));
    }
    text += &paragraph(
        "\nSampling (--temperature, --top-p, --guidance, ...) goes with all of them; `lacuna generate --help` lists all flags.",
    );
    print(text.trim_end())
}

/// A text in lines that are not longer than `width`, if their words allow it; all but the first begin at column `indent`.
fn wrapped(text: &str, width: usize, indent: usize) -> String {
    let (mut lines, mut column) = (String::new(), 0);
    for word in text.split_inclusive(' ') {
        let length = word.trim_end().chars().count();
        if column > indent && column + length > width {
            lines.truncate(lines.trim_end().len());
            lines += "\n";
            lines += &" ".repeat(indent);
            column = indent;
        }
        lines += word;
        column += word.chars().count();
    }
    lines + "\n"
}

#[cfg(test)]
mod tests {
    use super::wrapped;

    #[test]
    fn lines_break_between_words_and_hang() {
        assert_eq!(wrapped("  one    two three four", 16, 4), "  one    two\n    three four\n");
        assert_eq!(wrapped("a-very-long-word b", 4, 2), "a-very-long-word\n  b\n");
        assert_eq!(wrapped("one two", usize::MAX, 2), "one two\n");
    }
}
