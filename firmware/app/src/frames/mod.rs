#![doc = include_str!("../../FRAMES.md")]

mod codec;
mod message;
mod serve;

pub use codec::{FRAME_BYTES, FrameError, PAYLOAD_BYTES, Reader, decode, encode};
pub use message::{
    End, Error, Message, ModelInfo, Reply, Request, Settings, StackUse, Stats, VERSION,
};
