//! What the chip has to help with the products of the model: the stream of the flash cache, and, with
//! the feature `both-cores`, the second core.

use core::cell::Cell;

use app::{Helpers, Stream};
use embassy_rp::Peri;
#[cfg(feature = "both-cores")]
use embassy_rp::peripherals::CORE1;
use embassy_rp::peripherals::DMA_CH11;
use embassy_sync::blocking_mutex::CriticalSectionMutex;
#[cfg(feature = "both-cores")]
use runtime::Job;
use runtime::{Assist, Rows};

use crate::xip::Xip;

/// What the helpers are made of.
pub(crate) struct Parts {
    pub(crate) channel: Peri<'static, DMA_CH11>,
    #[cfg(feature = "both-cores")]
    pub(crate) core: Peri<'static, CORE1>,
}

/// The one helper; each part is taken out while it works.
pub(crate) struct Help {
    stream: Place<Stream<Xip>>,
    #[cfg(feature = "both-cores")]
    pair: Place<app::Pair<crate::core1::Core1>>,
}

/// Where something is while nobody has it.
type Place<T> = CriticalSectionMutex<Cell<Option<T>>>;

const fn empty<T>() -> Place<T> {
    Place::new(Cell::new(None))
}

pub(crate) static HELP: Help = Help {
    stream: empty(),
    #[cfg(feature = "both-cores")]
    pair: empty(),
};

impl Help {
    /// Tries what there is.
    pub(crate) fn start(&self, parts: Parts) {
        let stream = Stream::probe(Xip::new(parts.channel), crate::xip::sample());
        self.stream.lock(|place| place.set(Some(stream)));
        #[cfg(feature = "both-cores")]
        {
            let pair = crate::core1::Core1::launch(parts.core).map(app::Pair::new);
            self.pair.lock(|place| place.set(pair));
        }
    }

    /// Returns how each part is.
    pub(crate) fn states(&self) -> Helpers {
        Helpers {
            stream: with(&self.stream, |stream| stream.state()).unwrap_or_default(),
            #[cfg(feature = "both-cores")]
            core: with(&self.pair, |pair| pair.state()).unwrap_or_default(),
            #[cfg(not(feature = "both-cores"))]
            core: app::Helper::Absent,
        }
    }
}

/// Takes something out of its place for a while; `None` when it is not there.
fn with<T, R>(place: &Place<T>, work: impl FnOnce(&mut T) -> R) -> Option<R> {
    let mut taken = place.lock(Cell::take)?;
    let result = work(&mut taken);
    place.lock(|place| place.set(Some(taken)));
    Some(result)
}

impl Assist for Help {
    fn each(&self, rows: Rows<'_>, next: Rows<'_>, take: &mut dyn FnMut(&[u32])) {
        let streamed = with(&self.stream, |stream| stream.each(rows, next, take));
        if streamed.is_none() {
            take(rows.words);
        }
    }

    #[cfg(feature = "both-cores")]
    fn compute(&self, job: Job<'_>, lanes: &mut [u32]) {
        let mut job = Some(job);
        with(&self.pair, |pair| {
            if let Some(job) = job.take() {
                pair.compute(job, lanes);
            }
        });
        // Nobody had a second core to give.
        if let Some(mut job) = job {
            job.run(lanes);
        }
    }
}
