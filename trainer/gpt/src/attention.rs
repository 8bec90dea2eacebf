//! Attention maps: what every head looks at, as SVG.

use std::fs;
use std::ops::Range;

use anyhow::{Context, Result, bail};
use burn::tensor::{Tensor, TensorData};
use burn_flex::{Flex, FlexDevice};
use checkpoint::{Checkpoint, runs};

use crate::evaluation::host;
use crate::model::Gpt;
use crate::request::AttentionArgs;
use crate::run::{run_dir, trained};
use crate::tables::Tables;
use crate::{optimizer, params, sample, training};

/// Name of the drawing in the folder of its run.
pub const FILE: &str = "attention.svg";

/// Longest prompt that is drawn; the number of squares grows with its square.
pub const MAX_PROMPT: usize = 48;
/// Side of a square in the drawing.
const SIDE: usize = 9;
/// Room for the characters beside a map.
const MARGIN: usize = 14;
/// Room for what stands below a map.
const CAPTION: usize = 88;
/// Shares below this are left white.
const VISIBLE: f32 = 0.01;

/// The maps of a prompt.
#[derive(Clone, Debug, PartialEq)]
pub struct Maps {
    /// What each query stands for, as text: the tokens of the prompt.
    pub queries: Vec<String>,
    /// What each key stands for: the same, unless attention goes to another text.
    pub keys: Vec<String>,
    /// Layers.
    pub layers: Vec<Vec<Map>>,
}

/// Shares of one head, `[queries, keys]` row-major: row `query` says how it divides its attention among
/// the keys; rows sum to 1.
pub type Map = Vec<f32>;

/// Draws the maps of a run that has a checkpoint: of all heads, or of one layer, one head.
///
/// # Errors
///
/// A missing run, a prompt that the model cannot read, a layer or head that it does not have, or a file
/// that cannot be written.
pub fn draw(args: &AttentionArgs) -> Result<()> {
    let dir = run_dir(args.run.as_deref())?;
    trained(&dir, runs::METRICS)?;
    let best = Checkpoint::load(&runs::best_checkpoint(&dir)?)?;
    let layers = chosen(args.layer, best.config.n_layer, "layer")?;
    let heads = chosen(args.head, best.config.n_head, "head")?;
    let prompt = match &args.prompt {
        Some(prompt) => prompt.clone(),
        None => sample::known(sample::PROMPT, &best.vocabulary()?),
    };
    let svg = maps(&best, &prompt)?.draw(layers, heads);
    let path = args.svg.clone().unwrap_or_else(|| dir.join(FILE));
    fs::write(&path, svg).with_context(|| format!("cannot write {}", path.display()))?;
    crate::say!("wrote {}", path.display());
    Ok(())
}

/// Returns the one that is asked for, or all.
fn chosen(one: Option<usize>, n: impl Into<usize>, what: &str) -> Result<Range<usize>> {
    let n = n.into();
    match one {
        None => Ok(0..n),
        Some(one) if one < n => Ok(one..one + 1),
        Some(one) => bail!(
            "there is no {what} {one}; the model has {what}s 0 to {}",
            n.saturating_sub(1)
        ),
    }
}

/// Computes the maps of a checkpoint's deployed float weights.
///
/// # Errors
///
/// A prompt that is empty, too long, or has a character that the model does not know.
pub fn maps(from: &Checkpoint, prompt: &str) -> Result<Maps> {
    let vocab = from.vocabulary()?;
    let tokens = vocab.encode(prompt)?;
    let limit = MAX_PROMPT.min(usize::from(from.config.context_len));
    if tokens.is_empty() || tokens.len() > limit {
        bail!(
            "the prompt has {} tokens; attention maps are drawn of 1 to {limit}",
            tokens.len()
        );
    }
    let (config, len) = (&from.config, tokens.len());
    let skeleton = Gpt::<Flex>::zeroed(config, &FlexDevice);
    let flat = training::flatten(&params::entries(&skeleton), from.deployed())?;
    let model = params::with_values(skeleton, optimizer::upload(flat, &FlexDevice));
    let tables = Tables::new(config, len, &FlexDevice);
    let values: Vec<i32> = tokens.iter().map(|&token| i32::from(token)).collect();
    let input = Tensor::from_data(TensorData::new(values, [1, len]), &FlexDevice);
    let layers = model
        .attention(config, &tables, input)
        .into_iter()
        .map(|shares| {
            let n = shares.shape().num_elements();
            let flat = host(shares.reshape([n]));
            flat.chunks(len * len).map(<[f32]>::to_vec).collect()
        })
        .collect();
    let labels: Vec<String> = tokens.iter().map(|&token| vocab.decode(&[token])).collect();
    Ok(Maps {
        queries: labels.clone(),
        keys: labels,
        layers,
    })
}

impl Maps {
    /// Draws all maps, see [`draw`](Self::draw).
    #[must_use]
    pub fn to_svg(&self) -> String {
        let n_head = self.layers.iter().map(Vec::len).max().unwrap_or(0);
        self.draw(0..self.layers.len(), 0..n_head)
    }

    /// Draws the maps of these layers and heads: a row per layer, a column per head.
    ///
    /// Queries go down, keys to the right; the darker a square, the larger the share.
    #[must_use]
    pub fn draw(&self, layers: Range<usize>, heads: Range<usize>) -> String {
        let [across, down] = [&self.keys, &self.queries].map(|x| MARGIN + x.len() * SIDE + MARGIN);
        let across = across.max(CAPTION);
        let (width, height) = (heads.len() * across, layers.len() * down);
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
             viewBox=\"0 0 {width} {height}\" font-family=\"monospace\" font-size=\"8\">\n"
        );
        for (row, layer) in layers.enumerate() {
            for (col, head) in heads.clone().enumerate() {
                let Some(map) = self.layers.get(layer).and_then(|heads| heads.get(head)) else {
                    continue;
                };
                svg += &format!(
                    "<g transform=\"translate({},{})\">\n",
                    col * across,
                    row * down
                );
                svg += &self.head(layer, head, map);
                svg += "</g>\n";
            }
        }
        svg + "</svg>\n"
    }

    fn head(&self, layer: usize, head: usize, map: &Map) -> String {
        let [width, height] = [&self.keys, &self.queries].map(|x| x.len() * SIDE);
        let mut svg = format!(
            "<text x=\"{MARGIN}\" y=\"{}\" fill=\"#888\">layer {layer}, head {head}</text>\n\
             <rect x=\"{MARGIN}\" y=\"{MARGIN}\" width=\"{width}\" height=\"{height}\" fill=\"none\" \
             stroke=\"#ccc\"/>\n",
            MARGIN + height + 10
        );
        let mut sign = |label: &str, x: usize, y: usize| {
            let char = label.chars().next().unwrap_or(char::REPLACEMENT_CHARACTER);
            let char = crate::html::escape(&visible(char).to_string());
            svg += &format!("<text x=\"{x}\" y=\"{y}\">{char}</text>\n");
        };
        for (i, label) in self.queries.iter().enumerate() {
            sign(label, 4, MARGIN + i * SIDE + SIDE - 2);
        }
        for (i, label) in self.keys.iter().enumerate() {
            sign(label, MARGIN + i * SIDE + 2, 10);
        }
        for (query, row) in map.chunks(self.keys.len()).enumerate() {
            for (key, &share) in row
                .iter()
                .enumerate()
                .filter(|&(_, &share)| share >= VISIBLE)
            {
                svg += &format!(
                    "<rect x=\"{}\" y=\"{}\" width=\"{SIDE}\" height=\"{SIDE}\" \
                     fill-opacity=\"{share:.2}\"/>",
                    MARGIN + key * SIDE,
                    MARGIN + query * SIDE
                );
            }
        }
        svg + "\n"
    }
}

/// Returns a sign for characters that leave no mark.
fn visible(char: char) -> char {
    match char {
        '\n' => '↵',
        ' ' => '·',
        other => other,
    }
}
