//! A run as a picture: its canvas at a few steps, side by side, as SVG.

use std::ops::Range;

use lacuna::{Token, Trace};
use lacuna_models::Text;

use crate::render::View;

/// Columns of a panel.
const COLUMNS: usize = 44;
const LINE: usize = 20;
const CHARACTER: f64 = 8.43;
const MARGIN: usize = 16;
const STYLE: &str = "text{font:14px ui-monospace,Menlo,Consolas,monospace;white-space:pre;fill:#333}\
    .title{font-weight:bold}.open{fill:#aaa}.given{fill:#888}rect{fill:#fff;stroke:#ddd}\
    @media(prefers-color-scheme:dark){text{fill:#ddd}.open{fill:#666}rect{fill:#16181c;stroke:#333}}";

/// The positions `range` of the canvas, before the first step, after a third and two thirds of them, and at the end.
pub(crate) fn svg(trace: &Trace, range: &Range<usize>, text: &Text, ends: &[Token]) -> String {
    let steps = trace.deltas.len();
    let mut moments = vec![0, steps / 3, 2 * steps / 3, steps];
    moments.dedup();
    let panel = |&moment: &usize| {
        let view = View { from: range.start, to: range.end, width: COLUMNS, colour: true, end: moment == steps };
        (format!("step {moment}"), view.lines(trace, moment, text, ends))
    };
    let panels: Vec<(String, Vec<String>)> = moments.iter().map(panel).collect();
    let rows = panels.iter().map(|(_, lines)| lines.len()).max().unwrap_or(0);
    let width = (COLUMNS as f64 * CHARACTER) as usize + 2 * MARGIN;
    let height = (rows + 2) * LINE + 2 * MARGIN;
    let across = panels.len().min(2);
    let (whole_width, whole_height) = (across * (width + MARGIN), panels.len().div_ceil(across) * (height + MARGIN));
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {whole_width} {whole_height}\" width=\"{whole_width}\">\
         <style>{STYLE}</style>\n"
    );
    for (number, (title, lines)) in panels.iter().enumerate() {
        let (x, y) = (number % across * (width + MARGIN), number / across * (height + MARGIN));
        svg.push_str(&format!(
            "<g transform=\"translate({x} {y})\"><rect x=\"1\" y=\"1\" width=\"{width}\" height=\"{height}\" rx=\"8\"/>\n"
        ));
        let mut line = |row: usize, content: &str| {
            let y = MARGIN + (row + 1) * LINE;
            svg.push_str(&format!("<text x=\"{MARGIN}\" y=\"{y}\" xml:space=\"preserve\">{content}</text>\n"));
        };
        line(0, &format!("<tspan class=\"title\">{title}</tspan>"));
        lines.iter().enumerate().for_each(|(row, text)| line(row + 2, &spans(text)));
        svg.push_str("</g>\n");
    }
    svg + "</svg>\n"
}

/// A line with the terminal's colours as one with SVG's.
fn spans(line: &str) -> String {
    let mut spans = String::new();
    for part in line.split("\x1b[").filter(|part| !part.is_empty()) {
        let (code, text) = part.split_once('m').unwrap_or(("0", part));
        let text = text.replace('&', "&amp;").replace('<', "&lt;");
        let (bold, colour) = code.strip_prefix("1;").map_or(("", code), |colour| (" font-weight=\"bold\"", colour));
        let style = match (colour, colour.strip_prefix("38;2;")) {
            (_, Some(rgb)) => format!(" style=\"fill:rgb({})\"", rgb.replace(';', ",")),
            ("2", _) => " class=\"given\"".into(),
            ("90", _) => " class=\"open\"".into(),
            _ => String::new(),
        };
        if !text.is_empty() {
            spans.push_str(&format!("<tspan{style}{bold}>{text}</tspan>"));
        }
    }
    spans
}
