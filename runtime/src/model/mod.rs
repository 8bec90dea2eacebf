//! The model: weights in place, and one forward pass.

mod forward;
mod heads;
#[cfg(feature = "assist")]
mod order;
mod tensors;

use crate::config::Config;
use crate::format::{self, Header, LoadError, MAX_EXPONENT};
use crate::layout::Layout;
use crate::state::Plan;
use crate::tensor::{self, TensorMap, TensorSpec};
use crate::vocab::Vocab;

pub(crate) use forward::Place;

/// A checked blob, used in place.
#[derive(Clone, Debug)]
pub struct Model<'a> {
    header: Header<'a>,
    map: TensorMap,
    layout: Layout,
    tensors: &'a [u8],
    total_len: u32,
    crc: u32,
    #[cfg(feature = "assist")]
    assist: crate::assist::Assistant<'a>,
}

impl<'a> Model<'a> {
    /// Checks a blob once and borrows it.
    ///
    /// Bytes after the blob's own length are ignored, because a flash region is longer than the
    /// blob that lies in it.
    ///
    /// # Panics
    ///
    /// Never, whatever the bytes.
    ///
    /// # Errors
    ///
    /// See [`LoadError`].
    pub fn from_bytes(bytes: &'a [u8]) -> Result<Self, LoadError> {
        Self::parse(bytes, format::FORMAT_VERSION)
    }

    /// Does the same with a blob of an older format version too.
    ///
    /// Its weights are read as they are, but its self-test may be that of an older arithmetic and
    /// fail; write it anew with one of this engine.
    ///
    /// # Errors
    ///
    /// See [`LoadError`].
    pub fn from_older(bytes: &'a [u8]) -> Result<Self, LoadError> {
        Self::parse(bytes, format::OLDEST_VERSION)
    }

    fn parse(bytes: &'a [u8], oldest: u16) -> Result<Self, LoadError> {
        let parsed = format::parse(bytes, oldest)?;
        let model = Self {
            header: parsed.header,
            map: parsed.map,
            layout: parsed.layout,
            tensors: parsed.tensors,
            total_len: parsed.total_len,
            crc: parsed.crc,
            #[cfg(feature = "assist")]
            assist: crate::assist::Assistant::default(),
        };
        let exponents = if model.header.kinds.is_f32() {
            [].as_slice()
        } else {
            tensor::ALL.as_slice()
        };
        for &id in exponents {
            let of_layer = tensor::is_of_layer(id);
            let n_layer = if of_layer { model.config().n_layer } else { 1 };
            for layer in 0..usize::from(n_layer) {
                let exponent = model.exponent(id, layer);
                if exponent.unsigned_abs() > MAX_EXPONENT.unsigned_abs() {
                    return Err(LoadError::BadExponent(exponent));
                }
            }
        }
        Ok(model)
    }

    /// Returns the shape of the model.
    #[must_use]
    pub const fn config(&self) -> &Config {
        &self.header.config
    }

    /// Returns everything about the model that is not a tensor.
    #[must_use]
    pub const fn header(&self) -> &Header<'a> {
        &self.header
    }

    /// Returns the vocabulary.
    #[must_use]
    pub fn vocab(&self) -> Vocab<'a> {
        // The loader has read it once already.
        Vocab::from_bytes(self.header.vocab).unwrap_or(Vocab::Chars(""))
    }

    /// Returns the bytes of the blob.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "a blob is never empty")]
    pub const fn len(&self) -> usize {
        self.total_len as usize
    }

    /// Returns the blob's CRC-32.
    #[must_use]
    pub const fn crc(&self) -> u32 {
        self.crc
    }

    /// Returns the order of the weights in the tensor section.
    #[must_use]
    pub const fn layout(&self) -> Layout {
        self.layout
    }

    /// Returns every tensor of the blob, in blob order.
    pub fn tensors(&self) -> impl Iterator<Item = TensorSpec> + use<> {
        self.config().tensors_in(self.header.kinds, self.layout)
    }

    /// Returns the tensor section, see [`Model::tensors`].
    #[must_use]
    pub const fn tensor_bytes(&self) -> &'a [u8] {
        self.tensors
    }

    /// Returns the sizes of the buffers of a session.
    pub(crate) const fn plan(&self) -> Plan {
        #[cfg(feature = "f32")]
        if self.header.kinds.is_f32() {
            return Plan::new_f32(self.config());
        }
        Plan::new(self.config())
    }

    /// Returns the RAM of a [`Session`](crate::Session) in `u32` words, `kv_cache` included: that of
    /// [`Config::state_words`], and more for a blob of [`Kinds::F32`](crate::Kinds::F32).
    #[must_use]
    pub const fn state_words(&self) -> usize {
        self.plan().words
    }

    /// Returns the RAM of a [`Session`](crate::Session) in bytes, `kv_cache` included.
    #[must_use]
    pub const fn state_bytes(&self) -> usize {
        4 * self.state_words()
    }
}
