//! What every importer ends with: the tensors of a model under the names of this program.

use checkpoint::{Checkpoint, NamedTensor};
use runtime::{Config, Kind, TensorSpec};

use crate::error::ImportError;

/// A model that came from another program.
#[derive(Clone, Debug, PartialEq)]
pub struct Guest {
    /// Shape.
    pub config: Config,
    /// The vocabulary, as checkpoints store it.
    pub vocab: Vec<u8>,
    /// Tensors, in the order of the runtime's list.
    pub weights: Vec<NamedTensor>,
    /// Training steps, where the file says.
    pub step: u64,
}

impl Guest {
    /// Makes the checkpoint that `tools/export` takes.
    ///
    /// The text of the training is not known, and neither are losses.
    #[must_use]
    pub fn into_checkpoint(self, run: &str) -> Checkpoint {
        Checkpoint {
            config: self.config,
            settings: String::new(),
            corpus_name: String::new(),
            corpus_sha256: [0; 32],
            vocab: self.vocab,
            run: run.to_string(),
            step: self.step,
            seed: 0,
            seconds: 0.0,
            dev_f32: f64::NAN,
            dev_ema: f64::NAN,
            best_dev: f64::NAN,
            best_step: 0,
            weights: self.weights,
            ema: Vec::new(),
            moment_1: Vec::new(),
            moment_2: Vec::new(),
            rng: Vec::new(),
        }
    }
}

/// Checks that a configuration can run, and that its blob has a size.
pub(crate) fn check(config: &Config) -> Result<(), ImportError> {
    config.validate()?;
    match config.tensors().next() {
        Some(_) => Ok(()),
        None => Err(ImportError::TooLarge),
    }
}

/// Makes a number of a header one of the configuration.
pub(crate) fn dimension(field: &'static str, found: i64, max: u16) -> Result<u16, ImportError> {
    match u16::try_from(found) {
        Ok(value) if (1..=max).contains(&value) => Ok(value),
        _ => Err(ImportError::Dimension {
            field,
            max: max.into(),
            found,
        }),
    }
}

/// Collects the tensors of a model from `read`, which returns the elements of one.
pub(crate) fn collect(
    config: &Config,
    mut read: impl FnMut(&TensorSpec) -> Result<Vec<f32>, ImportError>,
) -> Result<Vec<NamedTensor>, ImportError> {
    config
        .tensors()
        .filter(|spec| spec.kind != Kind::U32)
        .map(|spec| {
            let data = read(&spec)?;
            if let Some(index) = data.iter().position(|x| !x.is_finite()) {
                return Err(ImportError::NotFinite {
                    name: spec.to_string(),
                    index,
                });
            }
            let shape = match spec.rows {
                1 => vec![spec.cols],
                rows => vec![rows, spec.cols],
            };
            let name = spec.to_string();
            Ok(NamedTensor { name, shape, data })
        })
        .collect()
}
