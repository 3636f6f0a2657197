//! Heatmap of the step at which each position is decided: a row for each strategy, a column for each position.

use super::Measurement;
use super::chart::{escape, open, write};

const LEFT: f64 = 190.0;
const WIDTH: f64 = 760.0;
const TOP: f64 = 44.0;
const ROW: f64 = 22.0;

/// From early to late (viridis, which keeps its order without colours).
const RAMP: [(u8, u8, u8); 6] =
    [(253, 231, 37), (122, 209, 81), (34, 168, 132), (42, 120, 142), (65, 68, 135), (68, 1, 84)];

/// For each position of the answer the mean time of its decision, from 0 at the first step to 1 at the last; `None` where
/// no sample has it.
pub(super) fn times(measurement: &Measurement) -> Vec<Option<f64>> {
    let length = measurement.trial.gen_length;
    let (mut sums, mut counts) = (vec![0.0; length], vec![0usize; length]);
    for sample in &measurement.samples {
        let last = sample.order.iter().copied().max().unwrap_or(0).max(1);
        for (position, &step) in sample.order.iter().enumerate().take(length).filter(|(_, step)| **step >= 0) {
            sums[position] += f64::from(step) / f64::from(last);
            counts[position] += 1;
        }
    }
    // A position that few samples decide says little.
    let enough = (measurement.samples.len() / 20).max(1);
    sums.iter().zip(counts).map(|(sum, count)| (count >= enough).then(|| sum / count as f64)).collect()
}

/// The picture for these strategies on a task.
pub(super) fn svg(title: &str, rows: &[&Measurement]) -> String {
    let length = rows.iter().map(|row| row.trial.gen_length).max().unwrap_or(1);
    let cell = (WIDTH - LEFT - 20.0) / length as f64;
    let bottom = TOP + ROW * rows.len() as f64;
    let mut svg = open(WIDTH, bottom + 74.0, title);
    for (number, row) in rows.iter().enumerate() {
        let y = TOP + ROW * number as f64;
        write(
            &mut svg,
            format_args!(
                "<text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                LEFT - 8.0,
                y + 14.0,
                escape(&row.trial.title())
            ),
        );
        // Neighbours touch: smoothed edges would show as lines between them.
        write(&mut svg, format_args!("<g shape-rendering=\"crispEdges\">"));
        for (position, time) in times(row).into_iter().enumerate() {
            if let Some(time) = time {
                let x = LEFT + cell * position as f64;
                write(
                    &mut svg,
                    format_args!(
                        "<rect x=\"{x:.2}\" y=\"{y:.1}\" width=\"{:.2}\" height=\"{:.1}\" fill=\"{}\"/>",
                        cell + 0.2,
                        ROW - 4.0,
                        colour(time)
                    ),
                );
            }
        }
        write(&mut svg, format_args!("</g>"));
    }
    for mark in (0..=length).step_by((length / 4).max(1)) {
        let x = LEFT + cell * mark as f64;
        write(
            &mut svg,
            format_args!("<text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{mark}</text>", bottom + 14.0),
        );
    }
    let middle = (LEFT + WIDTH - 20.0) / 2.0;
    write(
        &mut svg,
        format_args!(
            "<text x=\"{middle:.1}\" y=\"{:.1}\" text-anchor=\"middle\">position in the answer</text>",
            bottom + 32.0
        ),
    );
    legend(&mut svg, bottom + 44.0);
    svg + "</svg>\n"
}

fn legend(svg: &mut String, y: f64) {
    let steps = 40;
    let (from, width) = (WIDTH - 300.0, 160.0);
    write(
        svg,
        format_args!("<text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">decided first</text>", from - 8.0, y + 12.0),
    );
    for step in 0..steps {
        let share = f64::from(step) / f64::from(steps - 1);
        let x = from + width * f64::from(step) / f64::from(steps);
        write(
            svg,
            format_args!("<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"4.2\" height=\"14\" fill=\"{}\"/>", colour(share)),
        );
    }
    write(svg, format_args!("<text x=\"{}\" y=\"{:.1}\">decided last</text>", from + width + 10.0, y + 12.0));
}

fn colour(share: f64) -> String {
    let place = share.clamp(0.0, 1.0) * (RAMP.len() - 1) as f64;
    let below = (place as usize).min(RAMP.len() - 2);
    let mix = |a: u8, b: u8| (f64::from(a) + (f64::from(b) - f64::from(a)) * (place - below as f64)).round() as u8;
    let ((r, g, b), (s, h, c)) = (RAMP[below], RAMP[below + 1]);
    format!("#{:02x}{:02x}{:02x}", mix(r, s), mix(g, h), mix(b, c))
}
