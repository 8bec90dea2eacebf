//! The report of a run of the lesson: one HTML file that needs nothing beside it.

use std::path::Path;

use anyhow::{Context, Result};
use checkpoint::LessonCheckpoint;
use gpt::attention::Maps;
use gpt::metrics::Line;
use gpt::{chart, html, report};

/// Writes the report into the folder of its run.
///
/// `said` is what the run has to say about val, its samples among it; `maps` what its attention goes to.
///
/// # Errors
///
/// A chart that cannot be drawn, or a file that cannot be written.
pub fn write(
    dir: &Path,
    best: &LessonCheckpoint,
    lines: &[Line],
    said: &str,
    maps: Option<&Maps>,
) -> Result<()> {
    let path = dir.join(report::FILE);
    let curves = chart::run(lines)?.unwrap_or_else(|| "<p>No numbers yet.</p>".to_owned());
    let n_params: usize = best.ema.iter().map(|tensor| tensor.data.len()).sum();
    let row = |name: &str, value: String| vec![name.to_owned(), value];
    let losses = html::table(&[
        row("nats per token", "loss".to_owned()),
        row("dev, averaged weights", format!("{:.4}", best.best_dev)),
        row("step of these weights", best.step.to_string()),
        row("seconds of training", format!("{:.0}", best.seconds)),
        row("parameters", n_params.to_string()),
        row("text", best.corpus_name.clone()),
    ]);
    let said = format!("<pre>{}</pre>", html::escape(said));
    let mut sections = vec![
        ("Losses", losses),
        ("Curves", curves),
        ("Samples and val", said),
    ];
    if let Some(maps) = maps {
        let drawing = format!(
            "<p>Every head of the decoder that looks at the source, on the first string of val: a row says \
             how a character of the answer divides its attention among those of the source.</p>\n\
             <div class=\"wide\">{}</div>",
            maps.to_svg()
        );
        sections.push(("Attention to the source", drawing));
    }
    sections.push(("Settings", report::settings(&best.settings)));
    let page = html::page(&format!("Run {}: {}", best.run, best.model), &sections);
    std::fs::write(&path, page).with_context(|| format!("cannot write {}", path.display()))
}
