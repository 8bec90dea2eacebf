//! Curves as SVG.

use anyhow::{Context, Result};
use plotters::coord::Shift;
use plotters::prelude::*;

use crate::metrics::Line;

/// Width and height of a chart.
const SIZE: (u32, u32) = (900, 500);
/// Losses further above the smallest are left out: the first steps would flatten the rest. The end of
/// every curve is seen, with half as much above it.
const SPAN: f64 = 2.0;
/// Width of a curve.
const STROKE: u32 = 2;
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

/// A curve with its name.
#[derive(Clone, Debug)]
pub struct Curve {
    name: String,
    colour: RGBColor,
    points: Vec<(f64, f64)>,
}

impl Curve {
    /// Creates a curve of the finite points, in the colour of its number.
    #[must_use]
    pub fn new(number: usize, name: &str, points: impl Iterator<Item = (f64, f64)>) -> Self {
        Self {
            name: name.to_owned(),
            colour: COLOURS[number % COLOURS.len()],
            points: points.filter(|(_, value)| value.is_finite()).collect(),
        }
    }
}

fn points(
    lines: &[Line],
    value: impl Fn(&Line) -> Option<f64>,
) -> impl Iterator<Item = (f64, f64)> {
    let place = move |line: &Line| Some((line.step as f64, value(line)?));
    lines.iter().filter_map(place)
}

/// Draws training loss, loss on dev and learning rate of a run; `None` if there is no loss yet.
///
/// # Errors
///
/// A chart that cannot be drawn.
pub fn run(lines: &[Line]) -> Result<Option<String>> {
    let curves = [
        Curve::new(0, "train", points(lines, |line| Some(line.train))),
        Curve::new(
            1,
            "dev, averaged weights",
            points(lines, |line| line.dev_ema),
        ),
    ];
    let lr: Vec<_> = points(lines, |line| Some(line.lr)).collect();
    draw(&[("step", &curves)], &lr)
}

/// Draws the losses of several runs, in training pale and on dev in full colour.
///
/// # Errors
///
/// A chart that cannot be drawn.
pub fn runs<'a>(runs: impl Iterator<Item = (&'a str, &'a [Line])>) -> Result<Option<String>> {
    let curves: Vec<Curve> = runs
        .enumerate()
        .flat_map(|(number, (name, lines))| {
            let name = |what: &str| format!("{name}, {what}");
            let train = points(lines, |line| Some(line.train));
            let mut train = Curve::new(number, &name("train"), train);
            train.colour = pale(train.colour);
            let dev = points(lines, |line| line.dev_ema);
            [train, Curve::new(number, &name("dev"), dev)]
        })
        .filter(|curve| !curve.points.is_empty())
        .collect();
    draw(&[("step", &curves)], &[])
}

/// Draws panels, each a name of its x-axis and its curves, one below the other; `None` if one has
/// no point.
///
/// # Errors
///
/// A chart that cannot be drawn.
pub fn stacked(panels: &[(&str, &[Curve])]) -> Result<Option<String>> {
    draw(panels, &[])
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
        .map(|(pos, &loss)| (pos as f64 + 1.0, loss));
    let curve = Curve::new(0, "characters seen before", points);
    draw(&[("characters of context", &[curve])], &[])
}

/// Draws panels; `None` if one has no point.
fn draw(panels: &[(&str, &[Curve])], lr: &[(f64, f64)]) -> Result<Option<String>> {
    let empty = |curves: &[Curve]| curves.iter().all(|curve| curve.points.is_empty());
    if panels.iter().any(|(_, curves)| empty(curves)) {
        return Ok(None);
    }
    let mut svg = String::new();
    {
        let size = (SIZE.0, SIZE.1 * panels.len() as u32);
        let area = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        area.fill(&WHITE)?;
        for (area, (x_desc, curves)) in area.split_evenly((panels.len(), 1)).iter().zip(panels) {
            panel(area, curves, lr, x_desc)?;
        }
        area.present().context("cannot draw a chart")?;
    }
    Ok(Some(svg))
}

fn panel(
    area: &DrawingArea<SVGBackend<'_>, Shift>,
    curves: &[Curve],
    lr: &[(f64, f64)],
    x_desc: &str,
) -> Result<()> {
    let losses = || curves.iter().flat_map(|curve| &curve.points);
    let low = losses().fold(f64::INFINITY, |low, &(_, loss)| low.min(loss));
    let ends = curves.iter().filter_map(|curve| curve.points.last());
    let seen = ends.fold(low + SPAN, |seen, &(_, end)| seen.max(end + SPAN / 2.0));
    let high = losses()
        .fold(low + 0.1, |high, &(_, loss)| high.max(loss))
        .min(seen);
    let last = losses().fold(1.0_f64, |last, &(x, _)| last.max(x));
    let top_lr = lr.iter().fold(1e-12_f64, |top, &(_, lr)| top.max(lr));
    let mut chart = ChartBuilder::on(area)
        .margin(10)
        // the last number of the axis is wider than half its place
        .margin_right(if lr.is_empty() { 30 } else { 10 })
        .x_label_area_size(40)
        .y_label_area_size(50)
        .right_y_label_area_size(if lr.is_empty() { 0 } else { 60 })
        .build_cartesian_2d(0.0..last, low - 0.05..high)?
        .set_secondary_coord(0.0..last, 0.0..top_lr * 1.05);
    chart
        .configure_mesh()
        .max_light_lines(0)
        .x_desc(x_desc)
        .x_label_formatter(&|x| {
            if last < 10.0 {
                format!("{x:.1}")
            } else {
                format!("{x:.0}")
            }
        })
        .y_desc("nats per character")
        .draw()?;
    let legend = |colour: RGBColor| {
        move |(x, y): (i32, i32)| {
            PathElement::new(vec![(x, y), (x + 20, y)], colour.stroke_width(STROKE))
        }
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
        // a start above the picture would be a line along its edge
        let points = points.skip_while(|&(_, loss)| loss > high);
        let style = curve.colour.stroke_width(STROKE);
        chart
            .draw_series(LineSeries::new(points, style).point_size(size))?
            .label(curve.name.as_str())
            .legend(legend(curve.colour));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperRight)
        .background_style(WHITE)
        .border_style(BLACK)
        .draw()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{Curve, stacked};

    #[test]
    fn every_curve_ends_in_the_picture_and_starts_at_no_edge() {
        let falling = |end: f64| (0..12).map(move |i| (f64::from(i), end + 9.0 / f64::from(i + 1)));
        let curves = [
            Curve::new(0, "low", falling(0.1)),
            Curve::new(1, "high", falling(5.0)),
        ];
        let svg = stacked(&[("steps", &curves)]).unwrap().unwrap();
        // the picture above its x-axis, without the edge that losses beyond it would lie on
        let places: Vec<Vec<(i32, i32)>> = svg
            .split("<polyline")
            .filter(|line| line.contains("stroke-width=\"2\""))
            .map(|line| {
                let (_, points) = line.split_once("points=\"").unwrap();
                let (points, _) = points.split_once('"').unwrap();
                let place = |point: &str| {
                    let (x, y) = point.split_once(',').unwrap();
                    (x.parse().unwrap(), y.parse().unwrap())
                };
                points.split_whitespace().map(place).collect()
            })
            .collect();
        let lines: Vec<_> = places.iter().filter(|line| line.len() > 2).collect();
        assert_eq!(lines.len(), 2, "{svg}");
        for line in lines {
            assert!(
                line.iter().all(|&(_, y)| (11..=450).contains(&y)),
                "{line:?}"
            );
        }
    }
}
