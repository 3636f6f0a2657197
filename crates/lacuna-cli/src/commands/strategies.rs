//! `lacuna strategies`: the parts of a strategy and how to combine them.

use anyhow::Result;
use lacuna::catalogue::{PRESETS, Part, Section, parts};

use super::print;

pub(crate) fn strategies() -> Result<()> {
    let mut text =
        String::from("A strategy is <order>[+<pace>][+<revision>], or a preset. Every order goes with every pace.\n");
    for section in Section::ALL {
        let [title, about] = section.title();
        let flag = section.parameter().map(|name| format!(" (--{name})")).unwrap_or_default();
        text += &format!("\n{title}{flag}: {about}\n");
        for part in parts(section) {
            text += &format!("  {:<16} {}{}\n", part.name, part.about, flags(&part));
        }
    }
    text += "\nPresets: published methods, as their official code does it\n";
    for preset in PRESETS {
        let values: String =
            preset.values.iter().map(|(name, value)| format!(" --{} {value}", name.replace('_', "-"))).collect();
        text += &format!("  {:<16} {}{values}\n", preset.name, preset.is);
    }
    text += "\nSampling (--temperature, --top-p, --guidance, ...) goes with all of them; `lacuna generate --help` lists all flags.";
    print(&text)
}

fn flags(part: &Part) -> String {
    let flags: Vec<String> =
        part.parameters.iter().map(|parameter| format!("--{}", parameter.name.replace('_', "-"))).collect();
    if flags.is_empty() { String::new() } else { format!(" ({})", flags.join(", ")) }
}
