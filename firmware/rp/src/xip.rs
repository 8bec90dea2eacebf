//! The stream of the flash cache, which a DMA channel carries to RAM (RP2040 datasheet, 2.6.3.3;
//! RP2350 datasheet, 4.4.3).

use core::cell::UnsafeCell;
use core::sync::atomic::{Ordering, compiler_fence};

use app::Copier;
use embassy_rp::Peri;
use embassy_rp::pac;
use embassy_rp::pac::dma::vals::{DataSize, TreqSel};
use embassy_rp::peripherals::DMA_CH11;
use embassy_time::{Duration, Instant};

/// Words of a buffer: a unit of a matrix of 1,024 columns.
const WORDS: usize = 1_024;
/// The channel of [`DMA_CH11`], which nothing else uses.
const CHANNEL: usize = 11;
/// The FIFO as the DMA reads it, on a bus of its own: reads of the register would wait for the cache.
#[cfg(feature = "rp2040")]
const FIFO: u32 = 0x5040_0000;
#[cfg(feature = "rp235x")]
const FIFO: u32 = 0x5050_0000;
/// A full buffer takes 32,768 cycles when the flash is clocked at a quarter of the core, 0.3 ms.
const PATIENCE: Duration = Duration::from_millis(5);
/// No hardware takes more reads of a register to come to rest.
const TRIES: u32 = 1_000;
/// Words compared by the trial.
const SAMPLE: usize = 256;

struct Buffers(UnsafeCell<[[u32; WORDS]; 2]>);

// SAFETY: only `Xip` reads them, of which there is one; the DMA writes what is not complete.
unsafe impl Sync for Buffers {}

static BUFFERS: Buffers = Buffers(UnsafeCell::new([[0; WORDS]; 2]));

/// The stream and its channel.
pub(crate) struct Xip {
    _channel: Peri<'static, DMA_CH11>,
}

/// Returns flash that is always there: the firmware's own first words.
pub(crate) fn sample() -> &'static [u32] {
    unsafe extern "C" {
        // The vector table, from the linker script of cortex-m-rt.
        static __vector_table: u32;
    }
    let start = &raw const __vector_table;
    // SAFETY: the firmware is longer than this, and its flash is never written.
    unsafe { core::slice::from_raw_parts(start, SAMPLE) }
}

impl Xip {
    /// Takes the stream with its channel.
    pub(crate) fn new(channel: Peri<'static, DMA_CH11>) -> Self {
        Self { _channel: channel }
    }
}

/// Waits for a register a while; returns whether it came to rest.
fn settle(mut is_at_rest: impl FnMut() -> bool) -> bool {
    (0..TRIES).any(|_| is_at_rest())
}

impl Copier for Xip {
    fn capacity(&self) -> usize {
        WORDS
    }

    fn start(&mut self, buffer: usize, words: &[u32]) {
        let len = words.len().min(WORDS) as u32;
        // SAFETY: an element of the array, whichever `buffer` is.
        let to = unsafe { BUFFERS.0.get().cast::<[u32; WORDS]>().add(buffer & 1) };
        let xip = pac::XIP_CTRL;
        let at = words.as_ptr().expose_provenance() as u32;
        xip.stream_addr()
            .write_value(pac::xip_ctrl::regs::StreamAddr(at));
        xip.stream_ctr().write(|count| count.set_stream_ctr(len));
        let dma = pac::DMA.ch(CHANNEL);
        dma.read_addr().write_value(FIFO);
        dma.write_addr().write_value(to.expose_provenance() as u32);
        #[cfg(feature = "rp2040")]
        dma.trans_count().write_value(len);
        #[cfg(feature = "rp235x")]
        dma.trans_count().write(|count| count.set_count(len));
        compiler_fence(Ordering::SeqCst);
        dma.ctrl_trig().write(|control| {
            control.set_treq_sel(TreqSel::XIP_STREAM);
            control.set_data_size(DataSize::SIZE_WORD);
            control.set_incr_write(true);
            control.set_chain_to(CHANNEL as u8);
            control.set_irq_quiet(true);
            control.set_en(true);
        });
    }

    fn finish(&mut self) -> bool {
        let control = pac::DMA.ch(CHANNEL).ctrl_trig();
        let start = Instant::now();
        while control.read().busy() {
            if start.elapsed() > PATIENCE {
                return false;
            }
        }
        compiler_fence(Ordering::SeqCst);
        !control.read().ahb_error()
    }

    fn stop(&mut self) {
        let dma = pac::DMA.ch(CHANNEL);
        // An aborted channel could start again while it is enabled (erratum RP2040-E13).
        dma.al1_ctrl().write_value(0);
        pac::DMA
            .chan_abort()
            .write(|abort| abort.set_chan_abort(1 << CHANNEL));
        let _ = settle(|| pac::DMA.chan_abort().read().chan_abort() == 0);
        let xip = pac::XIP_CTRL;
        xip.stream_ctr().write(|count| count.set_stream_ctr(0));
        // One word may be on its way still.
        let _ = settle(|| {
            let empty = xip.stat().read().fifo_empty();
            if !empty {
                xip.stream_fifo().read();
            }
            empty
        });
    }

    fn buffer(&self, buffer: usize) -> &[u32] {
        // SAFETY: the buffer is complete, and the DMA writes to the other one until `start` takes
        // this by `&mut self`.
        unsafe { &*BUFFERS.0.get().cast::<[u32; WORDS]>().add(buffer & 1) }
    }
}
