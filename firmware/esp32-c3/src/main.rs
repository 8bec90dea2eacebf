//! ESP32-C3-DevKitM-1: serial line on GPIO21 (out) and GPIO20 (in), which the USB plug shows, at 115200
//! baud; the LED on GPIO8 takes a protocol of its own and is left alone: GPIO7 is the activity pin.

#![no_std]
#![no_main]

#[cfg(not(target_os = "none"))]
compile_error!(
    "build this package from its own folder: cd firmware/esp32-c3 && cargo build --release"
);

mod device;
mod serial;

use core::fmt::Write as _;
use core::panic::PanicInfo;

use esp_hal::clock::CpuClock;
use esp_hal::gpio::{Level, Output, OutputConfig};
use esp_hal::uart::{Config, Uart};
use static_cell::ConstStaticCell;

esp_bootloader_esp_idf::esp_app_desc!();

/// RAM for the model's state: 256 of the 313 KiB of data RAM less 48 KiB for queues and line editor;
/// the rest is stack.
const STATE_WORDS: usize = (256 - 48) * 1024 / 4;
static STATE: ConstStaticCell<[u32; STATE_WORDS]> = ConstStaticCell::new([0; STATE_WORDS]);
static MEMORY: ConstStaticCell<app::Memory> = ConstStaticCell::new(app::Memory::new());

/// Tensors are 16-aligned in the blob, so the blob is 16-aligned in flash.
#[repr(align(16))]
struct Aligned<T: ?Sized>(T);
static MODEL: &Aligned<[u8]> = &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/model.bin")));

#[esp_hal::main]
fn main() -> ! {
    chip::stack::prepare();
    let p = esp_hal::init(esp_hal::Config::default().with_cpu_clock(CpuClock::max()));
    let uart = Uart::new(p.UART0, Config::default()).expect("115200 baud can be divided");
    let uart = uart.with_rx(p.GPIO20).with_tx(p.GPIO21);
    let board = app::Board {
        name: "esp32-c3",
        serial: serial::Serial::new(uart),
        led: Output::new(p.GPIO7, Level::Low, OutputConfig::default()),
        chip: chip::Common::new(device::Device::new(p.TIMG0, p.FLASH, p.RNG, p.ADC1)),
    };
    app::run(board, &MODEL.0, MEMORY.take(), STATE.take());
    esp_hal::system::software_reset()
}

#[panic_handler]
fn panic(info: &PanicInfo) -> ! {
    chip::announce(app::Reset::Panic);
    let _ = write!(serial::Raw, "{}", app::PanicLine(info));
    // The watchdog starts the chip over.
    loop {
        core::hint::spin_loop();
    }
}
