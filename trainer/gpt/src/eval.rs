//! `trainer eval`: losses of a run's weights and of a blob on val.

use std::path::Path;

use anyhow::{Context, Result};
use burn::tensor::Tensor;
use burn_flex::{Flex, FlexDevice};
use checkpoint::corpus::hex;
use checkpoint::{
    AlignedBytes, Checkpoint, Corpus, NamedTensor, Origin, Split, Vocabulary, runs, score,
};
use runtime::Model;
use serde::Serialize;
use sha2::{Digest, Sha256};

use crate::evaluation::Evaluator;
use crate::model::Gpt;
use crate::request::{EvalArgs, Protocol};
use crate::run::deployed;
use crate::shards::Shards;
use crate::{optimizer, params, protocol, sample, training};

/// Losses of a model; the JSON of `trainer eval --json`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Report {
    /// What the losses are counted in: nats per character, or per token of byte pairs.
    pub unit: &'static str,
    /// Of the blob: every transition of val once, fresh windows of `context_len`.
    pub val: f64,
    /// `val` over the first half of the characters.
    pub val_first: f64,
    /// `val` over the second half.
    pub val_second: f64,
    /// Of the blob: second halves of streams of 2,000 characters, the device's cache policy.
    pub streaming: Option<f64>,
    /// The characters of `streaming` in fresh windows.
    pub streaming_in_window: Option<f64>,
    /// Streams scored.
    pub n_stream: usize,
    /// Context of the model.
    pub context_len: u16,
    /// SHA-256 of the blob.
    pub blob_sha256: String,
    /// Bytes of the blob.
    pub blob_len: usize,
    /// Of the float weights, where the checkpoint is at hand; windows as in `val`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub f32: Option<f64>,
    /// Of the averaged float weights, where there is an average.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub f32_ema: Option<f64>,
    /// Run that the blob comes from.
    pub run: String,
    /// Step that the weights come from.
    pub step: u64,
    /// Seed of the run.
    pub seed: u64,
    /// Parameters of the model.
    pub n_params: u64,
    /// Bytes of RAM that a session takes, cache included.
    pub state_bytes: usize,
    /// Seconds of training, where the checkpoint is at hand.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
    /// Command and machine of the run, where its folder is at hand.
    #[serde(flatten)]
    pub origin: Option<Origin>,
}

/// Scores a blob, a run, or both, and prints the result.
///
/// # Errors
///
/// A missing run, blob or text.
pub fn eval(args: &EvalArgs) -> Result<()> {
    if args.protocol == Protocol::NanoGpt {
        return protocol::nanogpt(args);
    }
    let report = report(args)?;
    if args.json {
        crate::say!("{}", serde_json::to_string_pretty(&report)?);
        return Ok(());
    }
    crate::say!(
        "run {}, step {}, context {}",
        report.run,
        report.step,
        report.context_len
    );
    crate::say!("{} on val:", report.unit);
    let line = |name: &str, value: Option<f64>| {
        if let Some(value) = value {
            crate::say!("  {name:24} {value:.4}");
        }
    };
    line("float weights", report.f32);
    line("float average", report.f32_ema);
    line("blob", Some(report.val));
    line("  first half", Some(report.val_first));
    line("  second half", Some(report.val_second));
    line("blob, streaming", report.streaming);
    line("  same, in window", report.streaming_in_window);
    Ok(())
}

/// Scores a blob, a run, or both.
///
/// # Errors
///
/// A missing run, blob or text.
pub fn report(args: &EvalArgs) -> Result<Report> {
    // a blob names its run: the checkpoint is looked up unless another is asked for
    let from_file = args.blob.as_deref().map(read).transpose()?;
    let checkpoint = match (&from_file, &args.run) {
        (Some(bytes), None) => partner(&Model::from_bytes(bytes)?),
        (_, run) => Some(deployed(run.as_deref())?),
    };
    let bytes = match (from_file, &checkpoint) {
        (Some(bytes), _) => bytes,
        (None, Some(from)) => sample::blob(from)?.bytes,
        (None, None) => unreachable!("without a blob there is a run"),
    };
    let model = Model::from_bytes(&bytes)?;
    let val = val_tokens(args.data.as_deref(), checkpoint.as_ref(), &model)?;

    let losses = score::transitions(&model, &val)?;
    let (first, second) = score::halves(&losses);
    let streaming = score::streaming(&model, &val, &losses)?;
    let provenance = model.header().provenance;
    let mut report = Report {
        unit: score::unit(model.vocab()),
        val: score::mean(&losses),
        val_first: score::mean(first),
        val_second: score::mean(second),
        streaming: streaming.map(|streaming| streaming.loss),
        streaming_in_window: streaming.map(|streaming| streaming.in_window),
        n_stream: streaming.map_or(0, |streaming| streaming.n_stream),
        context_len: model.config().context_len,
        blob_sha256: hex(&Sha256::digest(&bytes[..model.len()])),
        blob_len: model.len(),
        f32: None,
        f32_ema: None,
        run: provenance.run.to_owned(),
        step: u64::from(provenance.step),
        seed: provenance.seed,
        n_params: model.config().n_params(),
        state_bytes: model.state_bytes(),
        seconds: checkpoint.as_ref().map(|from| from.seconds),
        origin: runs::dir(provenance.run)
            .ok()
            .filter(|_| checkpoint.is_some())
            .and_then(|dir| Origin::load(&dir)),
    };
    if let Some(from) = &checkpoint {
        report.f32 = Some(float_loss(from, &from.weights, &val)?);
        if !from.ema.is_empty() {
            report.f32_ema = Some(float_loss(from, &from.ema, &val)?);
        }
    }
    Ok(report)
}

/// Reads a blob and checks that it is one.
fn read(path: &Path) -> Result<AlignedBytes> {
    let bytes = AlignedBytes::read_blob(path)
        .with_context(|| format!("cannot read the blob {}", path.display()))?;
    Model::from_bytes(&bytes).with_context(|| path.display().to_string())?;
    Ok(bytes)
}

/// Finds the checkpoint that a blob was made of, if its run is here and has not moved on.
fn partner(model: &Model<'_>) -> Option<Checkpoint> {
    let provenance = model.header().provenance;
    let dir = runs::dir(provenance.run).ok()?;
    let from = Checkpoint::load(&runs::best_checkpoint(&dir).ok()?).ok()?;
    let same = from.config == *model.config()
        && from.step == u64::from(provenance.step)
        && from.seed == provenance.seed
        && from.corpus_sha256 == provenance.corpus_sha256;
    same.then_some(from)
}

fn val_tokens(
    data: Option<&Path>,
    checkpoint: Option<&Checkpoint>,
    model: &Model<'_>,
) -> Result<Vec<u16>> {
    let expected = model.header().provenance.corpus_sha256;
    let corpus = match (data, checkpoint) {
        (Some(path), _) => Corpus::open(path)?,
        (None, Some(from)) => Corpus::reopen(&from.corpus_name, &from.corpus_sha256)?,
        (None, None) => {
            let corpus = Corpus::tiny_shakespeare()?;
            corpus.check_hash(&expected)?;
            corpus
        }
    };
    let tokens = corpus.tokens(&Vocabulary::from_bytes(model.header().vocab)?)?;
    let split = Split::of(tokens.len());
    Ok(tokens[split.val].to_vec())
}

/// Scores float weights on the CPU.
fn float_loss(from: &Checkpoint, tensors: &[NamedTensor], val: &[u16]) -> Result<f64> {
    let (evaluator, shards, weights) = float(from, tensors)?;
    Ok(crate::evaluation::mean(
        &evaluator.nll(&shards, &weights, val),
    ))
}

/// Returns what scores float weights on the CPU.
///
/// # Errors
///
/// A checkpoint without these tensors.
pub(crate) fn float(
    from: &Checkpoint,
    tensors: &[NamedTensor],
) -> Result<(Evaluator<Flex>, Shards, Tensor<Flex, 1>)> {
    let device = FlexDevice;
    let entries = params::entries(&Gpt::<Flex>::zeroed(&from.config, &device));
    let weights = optimizer::upload(training::flatten(&entries, tensors)?, &device);
    let threads = std::thread::available_parallelism().map_or(1, Into::into);
    let shards = Shards::new(threads, threads)?;
    Ok((Evaluator::new(from.config, &device), shards, weights))
}
