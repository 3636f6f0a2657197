//! `lacuna strategies`: the parts of a strategy and how to combine them.

use anyhow::Result;
use lacuna::catalogue::{PRESETS, Part, Section, parts};

use super::print;

const SECTIONS: [(Section, &str); 5] = [
    (Section::Order, "Orders: which masked position comes first"),
    (Section::Pace, "Paces: how many positions to fill in one step"),
    (Section::Revision, "Revisions: which filled positions to open again"),
    (Section::Window, "Windows (--window): which masked positions may be filled now"),
    (Section::Cache, "Caches (--cache): which positions a forward pass computes; all but none approximate"),
];

pub(crate) fn strategies() -> Result<()> {
    let mut text =
        String::from("A strategy is <order>[+<pace>][+<revision>], or a preset. Every order goes with every pace.\n");
    for (section, title) in SECTIONS {
        text += &format!("\n{title}\n");
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
