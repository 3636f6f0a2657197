//! `lacuna report`: tables and plots from results.

use std::path::PathBuf;

use anyhow::{Result, ensure};
use clap::{Args, ValueEnum};
use lacuna_eval::report::merge;
use lacuna_eval::run::Folder;

use super::print;

#[derive(Args)]
#[command(after_help = "\
Several folders are the shards of one run; they must have been made by the same command, and all must be there.

Examples:
  lacuna report results
  lacuna report results/shard-* --out report
  lacuna report results --beside 'confidence+eb, ends last'
  lacuna report results --out docs/results.md

In a file that exists already, the report replaces what stands below the line <!-- measured -->.")]
pub(crate) struct Report {
    /// Folders that `lacuna eval` has written
    #[arg(value_name = "DIR", required = true)]
    folders: Vec<PathBuf>,
    /// Folder for report.md, report.json, report.csv and the plots [default: the folder, if it is one]; or a file NAME.md for
    /// the report, with all else in the folder NAME beside it
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Strategy that the others of a table are compared with, as the tables name it [default: the best]
    #[arg(long, value_name = "NAME")]
    beside: Option<String>,
    /// Format of the output
    #[arg(long, value_enum, default_value_t = Print::Markdown)]
    format: Print,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Print {
    Markdown,
    Json,
    Csv,
}

pub(crate) fn report(args: &Report) -> Result<()> {
    let folders = args.folders.iter().map(|path| Folder::open(path)).collect::<lacuna_eval::Result<Vec<_>>>()?;
    let mut report = merge(&folders)?;
    if let Some(title) = &args.beside {
        report.set_beside(title)?;
    }
    ensure!(args.out.is_some() || folders.len() == 1, "a report of several folders needs --out FILE");
    let out = args.out.as_ref().unwrap_or(&args.folders[0]);
    report.write(out)?;
    match args.format {
        Print::Markdown => print(report.markdown(&[]).trim_end()),
        Print::Json => print(&serde_json::to_string_pretty(&report.json())?),
        Print::Csv => print(report.csv().trim_end()),
    }
}
