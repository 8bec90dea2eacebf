//! The files of a training run: corpus, vocabulary, checkpoint, run folder, blob and its score.
//!
//! Everything that the trainer, the export tool and the tests share about files lives here, free of
//! burn, so that a tool over a finished run compiles in seconds.
//!
//! | module | what it does |
//! |---|---|
//! | [`corpus`], [`vocabulary`], [`byte_pair`] | a text, its split and its tokens |
//! | [`file`](mod@file) | the checkpoint: weights, optimiser state and provenance in one file |
//! | [`origin`] | the command and the machine of a run |
//! | [`lesson`] | the same of a model that no board runs |
//! | [`runs`] | where runs lie and which is the newest |
//! | [`quantize`], [`blob`] | float weights to the int8 blob of the runtime |
//! | [`score`] | loss of a blob through the runtime's forward pass |
//! | [`soft`] | what teachers expect at every place of the training text |
//! | [`boards`] | memories of the boards, and whether a blob fits |
//! | [`synthetic`] | random checkpoints for tests |

mod aligned;
pub mod blob;
pub mod boards;
mod bounded;
pub mod byte_pair;
mod container;
pub mod corpus;
mod durable;
pub mod file;
pub mod int4;
pub mod lesson;
pub mod origin;
pub mod quantize;
pub mod runs;
pub mod score;
pub mod soft;
mod stored;
pub mod synthetic;
mod tiny_shakespeare;
mod turn;
pub mod vocabulary;

pub use aligned::AlignedBytes;
pub use blob::{Blob, BlobError};
pub use boards::{BOARDS, Board, BoardError};
pub use bounded::read_bounded;
pub use corpus::{Corpus, CorpusError, Split};
pub use durable::write_durably;
pub use file::{Checkpoint, ContextError, FileError, FormatError, NamedTensor};
pub use lesson::LessonCheckpoint;
pub use origin::Origin;
pub use score::{ScoreError, Streaming};
pub use soft::{SoftError, SoftTargets};
pub use stored::stored;
pub use vocabulary::{UnknownChar, Vocabulary};
