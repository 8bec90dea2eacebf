//! Everything that decides a run: the model's shape, the optimiser, the length, the seed.
//!
//! The settings are data: a preset is a value, the run folder keeps them as JSON, and the command
//! line sets any field by its name.

use anyhow::{Context, Result, anyhow, bail};
use checkpoint::int4;
use runtime::{Config, Kinds, Position};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::init::Init;
use crate::precision::Precision;

/// Settings of a training run. The names are those of the JSON file and of the command line.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// Shape of the model; its fields stand beside the others in JSON.
    #[serde(flatten)]
    pub model: Config,
    /// Length of a training sequence; longer than `context_len` only with rotary positions, under
    /// a sliding window of `context_len`.
    pub train_len: usize,
    /// Sequences per step.
    pub batch: usize,
    /// Parts of a batch whose gradients are computed apart and summed in order.
    pub shards: usize,
    /// Optimiser steps.
    pub steps: u64,
    /// Peak learning rate.
    pub lr: f64,
    /// Last learning rate as a fraction of the peak.
    pub min_lr_ratio: f64,
    /// Steps of linear warm-up.
    pub warmup: u64,
    /// Decay of the first moment.
    pub beta1: f64,
    /// Decay of the second moment.
    pub beta2: f64,
    /// Added to the root of the second moment.
    pub eps: f64,
    /// Decoupled weight decay of matrices.
    pub weight_decay: f64,
    /// Largest global norm of the gradients.
    pub clip: f64,
    /// Dropout on the outputs of attention and feed-forward part.
    pub dropout: f32,
    /// Decay of the weight average.
    pub ema_decay: f64,
    /// Rule for the initial weights; runs of before `--init RUN` call it `init`.
    #[serde(default, alias = "init")]
    pub init_rule: Init,
    /// Number format of the forward and backward pass.
    #[serde(default)]
    pub precision: Precision,
    /// Seed of weights, order and dropout.
    pub seed: u64,
    /// Steps between evaluations on dev, with a sample each.
    pub eval_every: u64,
    /// Characters of a sample.
    pub sample_len: usize,
    /// Share of the teachers' distribution in the targets, the rest is the text's own character;
    /// without effect where there is no teacher.
    #[serde(default)]
    pub teacher_share: f64,
    /// Share of the steps, the last of them, whose forward pass sees the weights as a blob of int4 rounds
    /// them; above 0, what is deployed is chosen by the loss of the rounded average.
    #[serde(default)]
    pub quantize_aware: f64,
    /// Trains on dev too; its loss then says nothing, and the last weights are deployed instead of
    /// the best on dev.
    pub train_on_dev: bool,
}

/// Fields that the command line sets, with their help.
pub const FIELDS: &[(&str, &str)] = &[
    ("n_layer", "Transformer blocks"),
    ("n_head", "Query heads"),
    ("n_kv_head", "Key and value heads; divides n_head"),
    ("d_model", "Width of the residual stream"),
    ("d_ff", "Width of the feed-forward part"),
    ("context_len", "Positions that attention can see"),
    ("position", "sinusoidal, learned or rope"),
    ("rope_base", "Base of the rotary angles"),
    ("norm", "layernorm or rmsnorm"),
    ("activation", "gelu, relu, relu2 or swiglu"),
    ("tied", "Head shares the embedding's matrix: true or false"),
    (
        "embed_scale",
        "Embedding times sqrt(d_model): true or false",
    ),
    ("attn_bias", "Biases in attention: true or false"),
    ("ff_bias", "Biases in the feed-forward part: true or false"),
    ("norm_bias", "Biases in norms: true or false"),
    ("head_bias", "Bias of the head: true or false"),
    ("train_len", "Length of a training sequence"),
    ("batch", "Sequences per step"),
    ("shards", "Parts of a batch, one per thread at most"),
    ("steps", "Optimiser steps"),
    ("lr", "Peak learning rate"),
    ("min_lr_ratio", "Last learning rate / peak"),
    ("warmup", "Steps of linear warm-up"),
    ("beta1", "AdamW: decay of the first moment"),
    ("beta2", "AdamW: decay of the second moment"),
    ("eps", "AdamW: added to the root"),
    ("weight_decay", "AdamW: decay of matrices"),
    ("clip", "Largest global norm of the gradients"),
    ("dropout", "Dropout on attention and feed-forward outputs"),
    ("ema_decay", "Decay of the weight average"),
    ("init_rule", "identity or gpt2"),
    ("precision", "f32, or on a GPU bf16 or f16"),
    ("seed", "Seed of weights, order and dropout"),
    ("eval_every", "Steps between evaluations"),
    ("sample_len", "Characters of a sample"),
    (
        "teacher_share",
        "Share of the teachers' distribution in the targets",
    ),
    (
        "quantize_aware",
        "Share of the steps, the last, that see weights rounded as by tools/export --bits 4",
    ),
    ("train_on_dev", "Trains on dev too: true or false"),
];

impl Settings {
    /// Returns the settings with the named fields replaced, in order.
    ///
    /// `context_len` alone moves `train_len` along when the two were equal.
    ///
    /// # Errors
    ///
    /// An unknown field or a value that the field cannot hold.
    pub fn with(&self, overrides: &[(String, String)]) -> Result<Self> {
        let follows = self.train_len == usize::from(self.model.context_len);
        let moved = |(name, text): &(String, String)| {
            let both = follows
                && name == "context_len"
                && overrides.iter().all(|(name, _)| name != "train_len");
            both.then(|| ("train_len".to_owned(), text.clone()))
        };
        let first: Vec<_> = overrides.iter().filter_map(moved).collect();
        replaced(self, &[FIELDS], &[&first, overrides].concat())
    }

    /// Reads settings from JSON.
    ///
    /// # Errors
    ///
    /// Text that is no settings.
    pub fn from_json(json: &str) -> Result<Self> {
        serde_json::from_str(json).context("cannot read the settings")
    }

    /// Returns the settings as JSON, one field a line.
    ///
    /// # Panics
    ///
    /// Never: numbers, words and flags have a JSON form.
    #[must_use]
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("settings have a JSON form")
    }

    /// Checks that the fields fit together.
    ///
    /// # Errors
    ///
    /// The first rule that is broken.
    pub fn validate(&self) -> Result<()> {
        self.model.validate()?;
        let context_len = usize::from(self.model.context_len);
        if self.train_len < context_len {
            bail!(
                "train_len is {}, but sequences must be at least context_len = {context_len} long",
                self.train_len
            );
        }
        if self.train_len > context_len && self.model.position != Position::Rope {
            bail!(
                "train_len {} is longer than context_len {context_len}; only rotary positions \
                 (--position rope) go past the context",
                self.train_len
            );
        }
        if self.batch == 0 || self.shards == 0 || !self.batch.is_multiple_of(self.shards) {
            bail!(
                "a batch of {} sequences does not divide into {} shards; choose a multiple",
                self.batch,
                self.shards
            );
        }
        if self.steps == 0 || self.eval_every == 0 || self.sample_len == 0 {
            bail!("steps, eval_every and sample_len must be at least 1");
        }
        let ranges = [
            ("lr", self.lr, 0.0, 10.0),
            ("min_lr_ratio", self.min_lr_ratio, 0.0, 1.0),
            ("beta1", self.beta1, 0.0, 0.999_999_9),
            ("beta2", self.beta2, 0.0, 0.999_999_9),
            ("eps", self.eps, 1e-30, 1.0),
            ("weight_decay", self.weight_decay, 0.0, 100.0),
            ("clip", self.clip, 1e-9, f64::MAX),
            ("dropout", f64::from(self.dropout), 0.0, 0.99),
            ("ema_decay", self.ema_decay, 0.0, 0.999_999_9),
            ("teacher_share", self.teacher_share, 0.0, 1.0),
            ("quantize_aware", self.quantize_aware, 0.0, 1.0),
        ];
        for (name, value, low, high) in ranges {
            if !(low..=high).contains(&value) {
                bail!("{name} is {value}; expected a number from {low} to {high}");
            }
        }
        Ok(())
    }

    /// Returns the number formats that the run rounds to: those of `tools/export --bits 4` where it
    /// knows its rounding, else int8.
    #[must_use]
    pub fn kinds(&self) -> Kinds {
        if self.quantize_aware == 0.0 {
            return Kinds::W8;
        }
        // without names there is nothing to refuse
        int4::kinds(&self.model, None, &[]).unwrap_or(Kinds::W8)
    }

    /// Returns the first step whose forward pass sees rounded weights, `steps` if there is none.
    #[must_use]
    pub fn aware_from(&self) -> u64 {
        let share = (self.quantize_aware * self.steps as f64).round() as u64;
        self.steps.saturating_sub(share)
    }
}

/// Returns a field's name as the command line spells it.
#[must_use]
pub fn flag(field: &str) -> String {
    field.replace('_', "-")
}

/// Names of fields, each with its help.
pub type Fields = [(&'static str, &'static str)];

/// Returns settings with the named fields replaced, in order; `help` lists the fields.
///
/// # Errors
///
/// An unknown field or a value that the field cannot hold.
pub fn replaced<T: Serialize + DeserializeOwned>(
    settings: &T,
    help: &[&Fields],
    overrides: &[(String, String)],
) -> Result<T> {
    let Value::Object(mut fields) = serde_json::to_value(settings)? else {
        bail!("settings are not an object");
    };
    for (name, text) in overrides {
        set(&mut fields, help, name, text)?;
        // one field at a time, so that the message names the field
        serde_json::from_value::<T>(Value::Object(fields.clone()))
            .map_err(|_| unfit(&fields, help, name, text))?;
    }
    Ok(serde_json::from_value(Value::Object(fields))?)
}

fn set(fields: &mut Map<String, Value>, help: &[&Fields], name: &str, text: &str) -> Result<()> {
    let old = fields
        .get(name)
        .with_context(|| format!("there is no setting {name:?}; see --help for the list"))?;
    let parsed = serde_json::from_str(text).ok();
    let value = match old {
        Value::String(_) => Some(Value::String(text.to_lowercase())),
        Value::Bool(_) => parsed.filter(Value::is_boolean),
        _ if old.is_u64() => parsed.filter(Value::is_u64),
        _ => parsed.filter(Value::is_number),
    };
    let value = value.ok_or_else(|| unfit(fields, help, name, text))?;
    fields.insert(name.to_owned(), value);
    Ok(())
}

/// Says what a field takes instead of `text`.
fn unfit(fields: &Map<String, Value>, help: &[&Fields], name: &str, text: &str) -> anyhow::Error {
    let words = help
        .iter()
        .flat_map(|fields| fields.iter())
        .find_map(|&(field, help)| (field == name).then_some(help));
    let expected = match fields.get(name) {
        // the help of a word lists the words
        Some(Value::String(_)) => words.unwrap_or("a word"),
        Some(Value::Bool(_)) => "true or false",
        Some(value) if value.is_u64() => match serde_json::from_str::<Value>(text) {
            Ok(found) if found.is_u64() => "a smaller whole number",
            _ => "a whole number",
        },
        _ => "a number",
    };
    anyhow!("--{}: expected {expected}, found {text:?}", flag(name))
}
