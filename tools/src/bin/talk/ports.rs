//! The serial ports of this machine.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use serial2::SerialPort;

/// What the USB port of a Pico calls itself.
const PRODUCT: &str = "Chapbook";

/// A serial port that is plugged in.
#[derive(Clone, Debug)]
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
    let ports = SerialPort::available_ports()
        .context("cannot list the serial ports; name one with --port")?
        .into_iter()
        .filter(|path| is_pluggable(path))
        .map(|path| Port {
            product: product(&path),
            path,
        });
    choose(ports.collect())
}

fn choose(mut ports: Vec<Port>) -> anyhow::Result<PathBuf> {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn port(path: &str, product: Option<&str>) -> Port {
        Port {
            path: path.into(),
            product: product.map(str::to_owned),
        }
    }

    #[test]
    fn ours_is_taken_or_else_the_only_one() {
        let (ours, other) = (
            port("/dev/ttyACM1", Some(PRODUCT)),
            port("/dev/ttyUSB0", None),
        );
        for ports in [vec![other.clone(), ours.clone()], vec![ours.clone()]] {
            assert_eq!(choose(ports).unwrap(), ours.path);
        }
        assert_eq!(choose(vec![other.clone()]).unwrap(), other.path);
    }

    #[test]
    fn none_and_several_are_said() {
        let said = |ports| choose(ports).unwrap_err().to_string();
        assert!(said(vec![]).starts_with("no board found: "));
        let several = vec![
            port("/dev/ttyUSB0", None),
            port("/dev/ttyACM0", Some("J-Link")),
        ];
        let expected =
            "several serial ports are plugged in: /dev/ttyACM0 (J-Link), /dev/ttyUSB0; name one";
        assert!(said(several).starts_with(expected));
        let twice = vec![
            port("/dev/ttyACM0", Some(PRODUCT)),
            port("/dev/ttyACM1", Some(PRODUCT)),
        ];
        assert!(said(twice).contains("/dev/ttyACM0 (Chapbook), /dev/ttyACM1 (Chapbook)"));
    }

    #[test]
    fn only_what_is_plugged_in_is_a_board() {
        for (path, plugged) in [
            ("/dev/ttyACM0", true),
            ("/dev/ttyUSB3", true),
            ("/dev/cu.usbmodem1101", true),
            ("COM3", true),
            ("/dev/ttyS0", false),
            ("/dev/cu.Bluetooth-Incoming-Port", false),
        ] {
            assert_eq!(is_pluggable(Path::new(path)), plugged, "{path}");
        }
    }
}
