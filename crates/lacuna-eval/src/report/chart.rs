//! Charts as SVG, drawn by hand: lines or points over two axes, readable on light and on dark ground.

use std::fmt::Write;

/// Values of one strategy.
pub(super) struct Series {
    pub(super) name: String,
    pub(super) points: Vec<Point>,
    /// True if the points are joined.
    pub(super) joined: bool,
}

/// A value with its interval.
pub(super) struct Point {
    pub(super) x: f64,
    pub(super) y: f64,
    pub(super) low: f64,
    pub(super) high: f64,
}

/// Scale of the horizontal axis.
pub(super) enum Axis {
    /// From 0 on.
    Linear,
    /// Each of these values stands as far from the next.
    Steps(Vec<f64>),
}

/// A chart.
pub(super) struct Chart {
    pub(super) title: String,
    pub(super) x: &'static str,
    pub(super) y: &'static str,
    pub(super) axis: Axis,
    pub(super) series: Vec<Series>,
}

const WIDTH: f64 = 760.0;
const LEFT: f64 = 60.0;
const RIGHT: f64 = 540.0;
const TOP: f64 = 48.0;
const BOTTOM: f64 = 340.0;
/// The colours of Okabe and Ito, which the colour-blind can tell apart, without black and yellow.
pub(super) const COLOURS: [&str; 7] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8a8a8a"];
/// Text and lines follow the reader's theme.
pub(super) const STYLE: &str = "<style>\
    svg{background:#ffffff}text{font:12px system-ui,sans-serif;fill:#24292f}.title{font-size:15px;font-weight:600}\
    .grid{stroke:#d8dee4}.axis{stroke:#6e7781}.frame{stroke:#ffffff}\
    @media(prefers-color-scheme:dark){svg{background:#0d1117}text{fill:#e6edf3}.grid{stroke:#30363d}\
    .axis{stroke:#8b949e}.frame{stroke:#0d1117}}\
    </style>";

impl Chart {
    pub(super) fn svg(&self) -> String {
        let height = BOTTOM.max(TOP + 20.0 * self.series.len() as f64) + 50.0;
        let mut svg = open(WIDTH, height, &self.title);
        let (low, high) = self.vertical();
        let y = |value: f64| BOTTOM - (value - low) / (high - low) * (BOTTOM - TOP);
        for tick in ticks(low, high) {
            let at = y(tick);
            write(
                &mut svg,
                format_args!("<line class=\"grid\" x1=\"{LEFT}\" y1=\"{at:.1}\" x2=\"{RIGHT}\" y2=\"{at:.1}\"/>"),
            );
            write(
                &mut svg,
                format_args!(
                    "<text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                    LEFT - 8.0,
                    at + 4.0,
                    label(tick)
                ),
            );
        }
        let most = self.points().map(|point| point.x).fold(1.0, f64::max) * 1.05;
        let x = |value: f64| match &self.axis {
            Axis::Linear => LEFT + value / most * (RIGHT - LEFT),
            Axis::Steps(steps) => {
                let place = steps.iter().position(|step| *step == value).unwrap_or(0) as f64 + 0.5;
                LEFT + place / steps.len() as f64 * (RIGHT - LEFT)
            }
        };
        let marks = match &self.axis {
            Axis::Linear => ticks(0.0, most),
            Axis::Steps(steps) => steps.clone(),
        };
        for mark in marks {
            let at = x(mark);
            write(
                &mut svg,
                format_args!(
                    "<line class=\"axis\" x1=\"{at:.1}\" y1=\"{BOTTOM}\" x2=\"{at:.1}\" y2=\"{}\"/>",
                    BOTTOM + 4.0
                ),
            );
            write(
                &mut svg,
                format_args!(
                    "<text x=\"{at:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
                    BOTTOM + 18.0,
                    label(mark)
                ),
            );
        }
        write(
            &mut svg,
            format_args!("<line class=\"axis\" x1=\"{LEFT}\" y1=\"{BOTTOM}\" x2=\"{RIGHT}\" y2=\"{BOTTOM}\"/>"),
        );
        write(
            &mut svg,
            format_args!(
                "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
                (LEFT + RIGHT) / 2.0,
                BOTTOM + 38.0,
                self.x
            ),
        );
        let middle = (TOP + BOTTOM) / 2.0;
        write(
            &mut svg,
            format_args!(
                "<text transform=\"translate(16 {middle}) rotate(-90)\" text-anchor=\"middle\">{}</text>",
                self.y
            ),
        );
        // Where values share a place, series stand a little beside each other.
        let middle = (self.series.len() as f64 - 1.0) / 2.0;
        let apart = if matches!(self.axis, Axis::Steps(_)) { 4.0 } else { 0.0 };
        for (number, series) in self.series.iter().enumerate() {
            let x = |value: f64| x(value) + apart * (number as f64 - middle);
            let colour = COLOURS[number % COLOURS.len()];
            let dashes = if number >= COLOURS.len() { " stroke-dasharray=\"5 3\"" } else { "" };
            if series.joined && series.points.len() > 1 {
                let path: Vec<String> =
                    series.points.iter().map(|point| format!("{:.1},{:.1}", x(point.x), y(point.y))).collect();
                write(
                    &mut svg,
                    format_args!(
                        "<polyline fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"{dashes} points=\"{}\"/>",
                        path.join(" ")
                    ),
                );
            }
            for point in &series.points {
                let (px, py) = (x(point.x), y(point.y));
                let (top, bottom) = (y(point.high.min(high)), y(point.low.max(low)));
                write(
                    &mut svg,
                    format_args!(
                        "<line stroke=\"{colour}\" stroke-opacity=\"0.45\" x1=\"{px:.1}\" y1=\"{top:.1}\" x2=\"{px:.1}\" y2=\"{bottom:.1}\"/>"
                    ),
                );
                write(&mut svg, format_args!("{}", marker(number, px, py, colour)));
            }
            let row = TOP + 20.0 * number as f64;
            write(&mut svg, format_args!("{}", marker(number, RIGHT + 22.0, row, colour)));
            write(
                &mut svg,
                format_args!("<text x=\"{}\" y=\"{:.1}\">{}</text>", RIGHT + 34.0, row + 4.0, escape(&series.name)),
            );
        }
        svg + "</svg>\n"
    }

    fn points(&self) -> impl Iterator<Item = &Point> {
        self.series.iter().flat_map(|series| &series.points)
    }

    /// The range of the vertical axis: what the intervals need, in steps of ten.
    fn vertical(&self) -> (f64, f64) {
        let low = self.points().map(|point| point.low).fold(100.0, f64::min);
        let high = self.points().map(|point| point.high).fold(0.0, f64::max);
        let (low, high) = ((low / 10.0).floor() * 10.0, (high / 10.0).ceil() * 10.0);
        if high > low { (low, high) } else { (low, low + 10.0) }
    }
}

/// The beginning of a picture with a title.
pub(super) fn open(width: f64, height: f64, title: &str) -> String {
    let title = escape(title);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" role=\"img\" \
         aria-label=\"{title}\">\n{STYLE}\n<text class=\"title\" x=\"{LEFT}\" y=\"24\">{title}</text>\n"
    )
}

/// Writes one element on a line.
pub(super) fn write(svg: &mut String, element: std::fmt::Arguments<'_>) {
    writeln!(svg, "{element}").expect("a string takes everything");
}

/// Shapes differ as colours do, for those who cannot tell the colours.
fn marker(number: usize, x: f64, y: f64, colour: &str) -> String {
    let frame = "class=\"frame\" stroke-width=\"1\"";
    match number % 4 {
        0 => format!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4.5\" fill=\"{colour}\" {frame}/>"),
        1 => format!(
            "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"8\" height=\"8\" fill=\"{colour}\" {frame}/>",
            x - 4.0,
            y - 4.0
        ),
        2 => format!("<path d=\"M{x:.1} {:.1}l5 9h-10z\" fill=\"{colour}\" {frame}/>", y - 5.5),
        _ => format!("<path d=\"M{x:.1} {:.1}l5.5 5.5l-5.5 5.5l-5.5 -5.5z\" fill=\"{colour}\" {frame}/>", y - 5.5),
    }
}

/// Round values between two numbers, about five.
fn ticks(low: f64, high: f64) -> Vec<f64> {
    let rough = (high - low) / 5.0;
    let power = 10f64.powf(rough.log10().floor());
    let step =
        [1.0, 2.0, 5.0, 10.0].into_iter().map(|factor| factor * power).find(|step| *step >= rough).unwrap_or(power);
    let first = (low / step).ceil() as i64;
    let last = (high / step + 1e-9).floor() as i64;
    (first..=last).map(|number| number as f64 * step).collect()
}

fn label(value: f64) -> String {
    if value.fract() == 0.0 { format!("{value:.0}") } else { format!("{value:.1}") }
}

pub(super) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
