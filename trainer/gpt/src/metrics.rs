//! The run's numbers: one JSON object a line, and the curve drawn from them.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use checkpoint::runs;
use plotters::prelude::*;
use serde::{Deserialize, Serialize};

/// Numbers of one step; the losses on dev only where they were computed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// Steps done.
    pub step: u64,
    /// Mean training loss since the line before, nats per character.
    pub train: f64,
    /// Learning rate of the last step.
    pub lr: f64,
    /// Global norm of the last gradients.
    pub grad_norm: f64,
    /// Training speed since the line before.
    pub tokens_per_s: f64,
    /// Seconds of training.
    pub seconds: f64,
    /// Loss of the weights on dev.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dev_f32: Option<f64>,
    /// Loss of the averaged weights on dev.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dev_ema: Option<f64>,
}

/// The metrics file of a run and its lines.
#[derive(Debug)]
pub struct Metrics {
    dir: PathBuf,
    lines: Vec<Line>,
}

impl Metrics {
    /// Opens the metrics of a run that has done `step` steps; later lines are dropped, they belong
    /// to steps that will be taken again.
    ///
    /// # Errors
    ///
    /// A file that cannot be written.
    pub fn open(dir: &Path, step: u64) -> Result<Self> {
        let path = dir.join(runs::METRICS);
        let old = std::fs::read_to_string(&path).unwrap_or_default();
        let lines: Vec<Line> = old
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok())
            .filter(|line: &Line| line.step <= step)
            .collect();
        let mut text = String::new();
        for line in &lines {
            text += &serde_json::to_string(line)?;
            text.push('\n');
        }
        std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
        Ok(Self {
            dir: dir.to_owned(),
            lines,
        })
    }

    /// Appends a line.
    ///
    /// # Errors
    ///
    /// A file that cannot be written.
    pub fn push(&mut self, line: Line) -> Result<()> {
        let path = self.dir.join(runs::METRICS);
        let mut file = std::fs::OpenOptions::new().append(true).open(&path)?;
        writeln!(file, "{}", serde_json::to_string(&line)?)
            .with_context(|| format!("cannot write {}", path.display()))?;
        self.lines.push(line);
        Ok(())
    }

    /// Draws training loss, loss on dev and learning rate over the steps.
    ///
    /// # Errors
    ///
    /// A file that cannot be written.
    pub fn draw(&self) -> Result<()> {
        let path = self.dir.join(runs::LOSS);
        let series = |value: fn(&Line) -> Option<f64>| -> Vec<(f64, f64)> {
            self.lines
                .iter()
                .filter_map(|line| Some((line.step as f64, value(line)?)))
                .collect()
        };
        let train = series(|line| Some(line.train));
        let dev = series(|line| line.dev_ema);
        let lr = series(|line| Some(line.lr));
        let losses = || train.iter().chain(&dev).map(|&(_, loss)| loss);
        let top = |values: &mut dyn Iterator<Item = f64>| values.fold(0.0, f64::max);
        let low = losses().fold(f64::INFINITY, f64::min);
        if !low.is_finite() {
            return Ok(());
        }
        let high = top(&mut losses()).min(low + 2.0).max(low + 0.1);
        let last_step = self.lines.last().map_or(1.0, |line| line.step as f64);
        let top_lr = top(&mut lr.iter().map(|&(_, lr)| lr)).max(1e-12);

        let area = SVGBackend::new(&path, (900, 500)).into_drawing_area();
        area.fill(&WHITE)?;
        let mut chart = ChartBuilder::on(&area)
            .margin(10)
            .x_label_area_size(40)
            .y_label_area_size(50)
            .right_y_label_area_size(60)
            .build_cartesian_2d(0.0..last_step, low - 0.05..high)?
            .set_secondary_coord(0.0..last_step, 0.0..top_lr * 1.05);
        chart
            .configure_mesh()
            .max_light_lines(0)
            .x_desc("step")
            .y_desc("nats per character")
            .draw()?;
        chart
            .configure_secondary_axes()
            .y_desc("learning rate")
            .draw()?;
        let grey = RGBColor(170, 170, 170);
        let legend = |colour: RGBColor| {
            move |(x, y): (i32, i32)| PathElement::new(vec![(x, y), (x + 20, y)], colour)
        };
        chart
            .draw_secondary_series(LineSeries::new(lr, grey))?
            .label("learning rate (right)")
            .legend(legend(grey));
        chart
            .draw_series(LineSeries::new(train, BLUE))?
            .label("train")
            .legend(legend(BLUE));
        chart
            .draw_series(LineSeries::new(dev, RED))?
            .label("dev, averaged weights")
            .legend(legend(RED));
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::UpperMiddle)
            .background_style(WHITE)
            .border_style(BLACK)
            .draw()?;
        area.present()
            .with_context(|| format!("cannot write {}", path.display()))
    }
}
