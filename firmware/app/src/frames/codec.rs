//! Messages to frames and back: postcard, CRC-32, COBS, a zero.

use core::fmt;

use runtime::crc32;
use serde::{Deserialize, Serialize};

use super::message::{Error, Message};

/// Bytes of the longest message, its CRC-32 included.
pub const PAYLOAD_BYTES: usize = 320;
/// Bytes of the longest frame, its zero included.
pub const FRAME_BYTES: usize = cobs::max_encoding_length(PAYLOAD_BYTES) + 1;
/// Bytes of a CRC-32.
const CRC: usize = 4;

/// Why bytes between two zeros are no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FrameError {
    /// They are more than the reader's buffer holds.
    TooLong,
    /// COBS or CRC-32 is wrong.
    Damaged,
    /// They are no message of this version.
    Unknown,
}

impl From<FrameError> for Error<'static> {
    fn from(error: FrameError) -> Self {
        match error {
            FrameError::TooLong => Self::TooLong,
            FrameError::Damaged => Self::Damaged,
            FrameError::Unknown => Self::Unknown,
        }
    }
}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TooLong => "a frame is longer than the longest message",
            Self::Damaged => "a frame is damaged: its CRC-32 or COBS is wrong",
            Self::Unknown => "a frame holds no message of this version",
        })
    }
}

impl core::error::Error for FrameError {}

/// Writes a message as a frame, its zero included, to `out` and returns it.
///
/// # Errors
///
/// [`FrameError::TooLong`] for a message of more than [`PAYLOAD_BYTES`].
pub fn encode<'o, T: Serialize>(
    message: &Message<T>,
    out: &'o mut [u8; FRAME_BYTES],
) -> Result<&'o [u8], FrameError> {
    let mut payload = [0; PAYLOAD_BYTES];
    let len = match postcard::to_slice(message, &mut payload[..PAYLOAD_BYTES - CRC]) {
        Ok(message) => message.len(),
        Err(_) => return Err(FrameError::TooLong),
    };
    Ok(pack(&mut payload, len, out))
}

/// Seals `len` bytes of a payload into a frame.
fn pack<'o>(
    payload: &mut [u8; PAYLOAD_BYTES],
    len: usize,
    out: &'o mut [u8; FRAME_BYTES],
) -> &'o [u8] {
    let crc = crc32(&payload[..len]);
    payload[len..len + CRC].copy_from_slice(&crc.to_le_bytes());
    // NOTE: `out` has room for the longest payload, and COBS leaves no zero.
    let end = cobs::encode(&payload[..len + CRC], out);
    out[end] = 0;
    &out[..=end]
}

/// Reads the message of a payload.
///
/// # Errors
///
/// [`FrameError::Unknown`].
pub fn decode<'p, T: Deserialize<'p>>(payload: &'p [u8]) -> Result<Message<T>, FrameError> {
    match postcard::take_from_bytes(payload) {
        Ok((message, [])) => Ok(message),
        _ => Err(FrameError::Unknown),
    }
}

/// Finds the frames in a stream of bytes.
#[derive(Debug)]
pub struct Reader<B> {
    buffer: B,
    /// Bytes since the last zero, also those that found the buffer full.
    len: usize,
}

impl<B: AsRef<[u8]> + AsMut<[u8]>> Reader<B> {
    /// Creates a reader of frames that fit `buffer` without their zero.
    pub fn new(buffer: B) -> Self {
        Self { buffer, len: 0 }
    }

    /// Takes a byte; the one that ends a frame brings its payload, or what is wrong with it.
    ///
    /// Nothing between two zeros is no frame.
    pub fn feed(&mut self, byte: u8) -> Option<Result<&[u8], FrameError>> {
        if byte != 0 {
            if let Some(place) = self.buffer.as_mut().get_mut(self.len) {
                *place = byte;
            }
            self.len = self.len.saturating_add(1);
            return None;
        }
        match core::mem::take(&mut self.len) {
            0 => None,
            len => Some(match self.buffer.as_mut().get_mut(..len) {
                Some(frame) => unpack(frame),
                None => Err(FrameError::TooLong),
            }),
        }
    }

    /// Returns what has come since the last zero; nothing if the buffer did not hold it.
    pub fn waiting(&self) -> &[u8] {
        self.buffer.as_ref().get(..self.len).unwrap_or_default()
    }
}

/// Opens a frame in place.
fn unpack(frame: &mut [u8]) -> Result<&[u8], FrameError> {
    let read = cobs::decode_in_place(frame).map_err(|_| FrameError::Damaged)?;
    let (payload, crc) = frame[..read]
        .split_last_chunk::<CRC>()
        .ok_or(FrameError::Damaged)?;
    if crc32(payload) != u32::from_le_bytes(*crc) {
        return Err(FrameError::Damaged);
    }
    Ok(payload)
}
