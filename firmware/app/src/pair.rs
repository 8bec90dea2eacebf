//! Half of the rows for a second core.

use runtime::{Job, UNIT_ROWS};

use crate::board::Helper;

/// Another core of the same kind.
pub trait SecondCore {
    /// Has the other core run `theirs` while this one runs `mine`, and returns when both are done.
    ///
    /// Returns false when the other core has not done it in time. It has been stopped then, and touches
    /// nothing from here on.
    fn beside(&mut self, theirs: &mut Job<'_>, mine: &mut dyn FnMut()) -> bool;
}

/// This core and a second one; a second one that fails once is never asked again.
#[derive(Debug)]
pub struct Pair<S> {
    core: S,
    state: Helper,
}

impl<S: SecondCore> Pair<S> {
    /// Creates a pair.
    pub const fn new(core: S) -> Self {
        Self {
            core,
            state: Helper::Works,
        }
    }

    /// Returns whether the second core works.
    pub const fn state(&self) -> Helper {
        self.state
    }

    /// Does what [`Assist::compute`](runtime::Assist::compute) says: the first half of the rows here,
    /// the second half there.
    pub fn compute(&mut self, mut job: Job<'_>, lanes: &mut [u32]) {
        if self.state != Helper::Works || job.rows() < 2 * UNIT_ROWS {
            return job.run(lanes);
        }
        let (mut mine, mut theirs) = job.split();
        if !self.core.beside(&mut theirs, &mut || mine.run(lanes)) {
            self.state = Helper::Failed;
            theirs.run(lanes);
        }
    }
}
