//! The serial ports of this machine.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use serial2::SerialPort;

/// What the USB port of a Pico calls itself.
const PRODUCT: &str = "Chapbook";

/// A serial port that is plugged in.
struct Port {
    path: PathBuf,
    /// What the device calls itself, where the system says.
    product: Option<String>,
}

/// Finds the port of a board: the only one that calls itself ours, or else the only one there is.
///
/// # Errors
///
/// If there is none or more than one; the message has their names.
pub(crate) fn find() -> anyhow::Result<PathBuf> {
    let mut ports: Vec<Port> = SerialPort::available_ports()
        .context("cannot list the serial ports; name one with --port")?
        .into_iter()
        .filter(|path| is_pluggable(path))
        .map(|path| Port {
            product: product(&path),
            path,
        })
        .collect();
    ports.sort_by(|a, b| a.path.cmp(&b.path));
    let ours: Vec<&Port> = ports
        .iter()
        .filter(|port| port.product.as_deref() == Some(PRODUCT))
        .collect();
    match (ours.as_slice(), ports.as_slice()) {
        ([only], _) => Ok(only.path.clone()),
        (_, [only]) => Ok(only.path.clone()),
        (_, []) => bail!(
            "no board found: no USB serial port is plugged in; plug the board in, name a port with --port, \
             or try --emulate qemu"
        ),
        (_, several) => {
            let names: Vec<String> = several
                .iter()
                .map(|port| match &port.product {
                    Some(product) => format!("{} ({product})", port.path.display()),
                    None => port.path.display().to_string(),
                })
                .collect();
            bail!(
                "several serial ports are plugged in: {}; name one with --port",
                names.join(", ")
            )
        }
    }
}

/// Returns whether a port is one of those that appear when something is plugged in.
fn is_pluggable(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    ["ttyACM", "ttyUSB", "cu.usb", "cuaU", "COM"]
        .iter()
        .any(|prefix| name.starts_with(prefix))
}

/// Returns what the USB device of a port calls itself, on Linux.
fn product(path: &Path) -> Option<String> {
    let device = Path::new("/sys/class/tty")
        .join(path.file_name()?)
        .join("device");
    // ttyACM: the interface's folder lies in the device's; ttyUSB: one deeper.
    ["../product", "../../product"]
        .iter()
        .find_map(|place| std::fs::read_to_string(device.join(place)).ok())
        .map(|name| name.trim().to_owned())
}
