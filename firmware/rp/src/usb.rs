//! The USB serial port (CDC-ACM). Its task runs in an interrupt, so that the forward pass, which
//! yields to nobody, does not starve it.

use embassy_executor::InterruptExecutor;
use embassy_futures::join::join4;
use embassy_rp::interrupt::{self, InterruptExt, Priority};
use embassy_rp::peripherals::USB;
use embassy_rp::usb::{Driver, InterruptHandler};
use embassy_rp::{Peri, bind_interrupts};
use embassy_sync::blocking_mutex::raw::CriticalSectionRawMutex;
use embassy_sync::pipe::Pipe;
use embassy_time::{Duration, Instant};
use embassy_usb::class::cdc_acm::{CdcAcmClass, State};
use embassy_usb::{Builder, Config};
use portable_atomic::{AtomicBool, Ordering};
use static_cell::{ConstStaticCell, StaticCell};

/// The test identity of pid.codes: this is no product with an identity of its own.
const VENDOR: u16 = 0x1209;
const PRODUCT: u16 = 0x0001;
/// Bytes of a full-speed bulk packet.
const PACKET: usize = 64;
/// A reader that takes nothing for so long is no reader.
const PATIENCE: Duration = Duration::from_millis(100);

/// A host that sends more is held back by USB itself: the next packet waits for room.
static RECEIVED: Pipe<CriticalSectionRawMutex, 512> = Pipe::new();
static TO_SEND: Pipe<CriticalSectionRawMutex, 1024> = Pipe::new();
/// A terminal is open at the other end and takes what it gets.
static READER: AtomicBool = AtomicBool::new(false);
static EXECUTOR: InterruptExecutor = InterruptExecutor::new();

bind_interrupts!(struct Interrupts {
    USBCTRL_IRQ => InterruptHandler<USB>;
});

/// Starts the USB serial port.
pub(crate) fn start(usb: Peri<'static, USB>) {
    interrupt::SWI_IRQ_1.set_priority(Priority::P3);
    let spawner = EXECUTOR.start(interrupt::SWI_IRQ_1);
    // There is room for one task, and this is the first.
    if let Ok(task) = serve(usb) {
        spawner.spawn(task);
    }
}

#[embassy_rp::interrupt]
unsafe fn SWI_IRQ_1() {
    // SAFETY: this is the interrupt that the executor was started with.
    unsafe { EXECUTOR.on_interrupt() };
}

/// Returns whether bytes have come.
pub(crate) fn has_received() -> bool {
    !RECEIVED.is_empty()
}

/// Takes bytes that have come, if any.
pub(crate) fn receive(bytes: &mut [u8]) -> Option<usize> {
    RECEIVED.try_read(bytes).ok()
}

/// Sends bytes to a reader, if there is one; waits for it as long as it takes anything.
pub(crate) fn send(mut bytes: &[u8]) {
    let mut last = Instant::now();
    while !bytes.is_empty() && READER.load(Ordering::Relaxed) {
        if let Ok(count) = TO_SEND.try_write(bytes) {
            bytes = &bytes[count..];
            last = Instant::now();
        } else if last.elapsed() > PATIENCE {
            READER.store(false, Ordering::Relaxed);
        }
    }
}

#[embassy_executor::task]
async fn serve(usb: Peri<'static, USB>) {
    static CONFIGURATION: ConstStaticCell<[u8; 128]> = ConstStaticCell::new([0; 128]);
    static CONTROL: ConstStaticCell<[u8; 64]> = ConstStaticCell::new([0; 64]);
    static STATE: StaticCell<State<'static>> = StaticCell::new();

    let mut config = Config::new(VENDOR, PRODUCT);
    config.product = Some("Chapbook");
    let mut builder = Builder::new(
        Driver::new(usb, Interrupts),
        config,
        CONFIGURATION.take(),
        &mut [],
        &mut [],
        CONTROL.take(),
    );
    let class = CdcAcmClass::new(&mut builder, STATE.init(State::new()), PACKET as u16);
    let (mut sender, mut receiver, control) = class.split_with_control();
    let mut device = builder.build();

    let receive = async {
        let mut packet = [0; PACKET];
        loop {
            receiver.wait_connection().await;
            // An error is the end of the connection.
            while let Ok(count) = receiver.read_packet(&mut packet).await {
                RECEIVED.write_all(&packet[..count]).await;
            }
        }
    };
    let send = async {
        let mut packet = [0; PACKET];
        loop {
            sender.wait_connection().await;
            loop {
                let count = TO_SEND.read(&mut packet).await;
                if sender.write_packet(&packet[..count]).await.is_err() {
                    break;
                }
                // Full packets go on in the next one; an empty one ends them for the host.
                if count == PACKET && sender.write_packet(&[]).await.is_err() {
                    break;
                }
                READER.store(sender.dtr(), Ordering::Relaxed);
            }
            READER.store(false, Ordering::Relaxed);
        }
    };
    let listen = async {
        loop {
            control.control_changed().await;
            READER.store(control.dtr(), Ordering::Relaxed);
        }
    };
    // None of them ends.
    join4(device.run(), receive, send, listen).await;
}
