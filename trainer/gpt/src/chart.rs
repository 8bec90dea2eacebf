//! Curves as SVG.

use anyhow::{Context, Result};
use plotters::prelude::*;

use crate::metrics::Line;

/// Width and height of a chart.
const SIZE: (u32, u32) = (900, 500);
/// Losses further above the smallest are left out: the first steps would flatten the rest.
const SPAN: f64 = 2.0;
/// Colours of the curves, one run after the other.
const COLOURS: [RGBColor; 8] = [
    RGBColor(31, 119, 180),
    RGBColor(214, 39, 40),
    RGBColor(44, 160, 44),
    RGBColor(148, 103, 189),
    RGBColor(255, 127, 14),
    RGBColor(23, 190, 207),
    RGBColor(140, 86, 75),
    RGBColor(127, 127, 127),
];

type Points = Vec<(f64, f64)>;

/// A curve with its name.
struct Curve {
    name: String,
    colour: RGBColor,
    points: Points,
}

fn points(lines: &[Line], value: impl Fn(&Line) -> Option<f64>) -> Points {
    lines
        .iter()
        .filter_map(|line| Some((line.step as f64, value(line)?)))
        .filter(|(_, value)| value.is_finite())
        .collect()
}

/// Draws training loss, loss on dev and learning rate of a run; `None` if there is no loss yet.
///
/// # Errors
///
/// A chart that cannot be drawn.
pub fn run(lines: &[Line]) -> Result<Option<String>> {
    let curves = [
        Curve {
            name: "train".to_owned(),
            colour: COLOURS[0],
            points: points(lines, |line| Some(line.train)),
        },
        Curve {
            name: "dev, averaged weights".to_owned(),
            colour: COLOURS[1],
            points: points(lines, |line| line.dev_ema),
        },
    ];
    draw(&curves, &points(lines, |line| Some(line.lr)))
}

/// Draws the losses of several runs, in training pale and on dev in full colour.
///
/// # Errors
///
/// A chart that cannot be drawn.
pub fn runs<'a>(runs: impl Iterator<Item = (&'a str, &'a [Line])>) -> Result<Option<String>> {
    let curves: Vec<Curve> = runs
        .zip(COLOURS.iter().cycle())
        .flat_map(|((name, lines), &colour)| {
            let curve = |what: &str, colour, points| Curve {
                name: format!("{name}, {what}"),
                colour,
                points,
            };
            [
                curve(
                    "train",
                    pale(colour),
                    points(lines, |line| Some(line.train)),
                ),
                curve("dev", colour, points(lines, |line| line.dev_ema)),
            ]
        })
        .filter(|curve| !curve.points.is_empty())
        .collect();
    draw(&curves, &[])
}

/// Mixes a colour with white.
fn pale(RGBColor(r, g, b): RGBColor) -> RGBColor {
    let mix = |part: u8| part / 3 + 170;
    RGBColor(mix(r), mix(g), mix(b))
}

/// Draws the mean loss at each position of a window.
///
/// # Errors
///
/// A chart that cannot be drawn.
pub fn positions(losses: &[f64]) -> Result<Option<String>> {
    let points = losses
        .iter()
        .enumerate()
        .map(|(pos, &loss)| (pos as f64 + 1.0, loss))
        .collect();
    let curve = Curve {
        name: "characters seen before".to_owned(),
        colour: COLOURS[0],
        points,
    };
    draw_named(&[curve], &[], "characters of context")
}

fn draw(curves: &[Curve], lr: &[(f64, f64)]) -> Result<Option<String>> {
    draw_named(curves, lr, "step")
}

fn draw_named(curves: &[Curve], lr: &[(f64, f64)], x_desc: &str) -> Result<Option<String>> {
    let losses = || curves.iter().flat_map(|curve| &curve.points);
    let low = losses().fold(f64::INFINITY, |low, &(_, loss)| low.min(loss));
    if !low.is_finite() {
        return Ok(None);
    }
    let high = losses()
        .fold(low + 0.1, |high, &(_, loss)| high.max(loss))
        .min(low + SPAN);
    let last = losses().fold(1.0_f64, |last, &(x, _)| last.max(x));
    let top_lr = lr.iter().fold(1e-12_f64, |top, &(_, lr)| top.max(lr));
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        area.fill(&WHITE)?;
        let mut chart = ChartBuilder::on(&area)
            .margin(10)
            .x_label_area_size(40)
            .y_label_area_size(50)
            .right_y_label_area_size(if lr.is_empty() { 0 } else { 60 })
            .build_cartesian_2d(0.0..last, low - 0.05..high)?
            .set_secondary_coord(0.0..last, 0.0..top_lr * 1.05);
        chart
            .configure_mesh()
            .max_light_lines(0)
            .x_desc(x_desc)
            .y_desc("nats per character")
            .draw()?;
        let legend = |colour: RGBColor| {
            move |(x, y): (i32, i32)| PathElement::new(vec![(x, y), (x + 20, y)], colour)
        };
        if !lr.is_empty() {
            let grey = RGBColor(170, 170, 170);
            chart
                .configure_secondary_axes()
                .y_desc("learning rate")
                .draw()?;
            chart
                .draw_secondary_series(LineSeries::new(lr.iter().copied(), grey))?
                .label("learning rate (right)")
                .legend(legend(grey));
        }
        for curve in curves {
            // a single evaluation is a point, not a line
            let size = if curve.points.len() == 1 { 3 } else { 0 };
            let points = curve.points.iter().copied();
            chart
                .draw_series(LineSeries::new(points, curve.colour).point_size(size))?
                .label(curve.name.as_str())
                .legend(legend(curve.colour));
        }
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::UpperMiddle)
            .background_style(WHITE)
            .border_style(BLACK)
            .draw()?;
        area.present().context("cannot draw a chart")?;
    }
    Ok(Some(svg))
}
