//! This machine in the place of a board: the boards' own REPL over a line in memory.

use std::convert::Infallible;
use std::io;
use std::sync::mpsc::{self, Receiver, Sender, TryRecvError};
use std::thread;

use checkpoint::AlignedBytes;
use embedded_io::{ErrorType, Read, ReadReady, Write};
use parity::emulators::Chat;
use tools::stand_in::{NAP, serve};

/// Boots the REPL with this blob; it ends with the conversation.
pub(crate) fn boot(blob: AlignedBytes) -> Chat {
    let (typed, receiver) = mpsc::channel();
    let (sender, said) = mpsc::channel();
    thread::spawn(move || {
        let serial = Serial {
            receiver,
            sender,
            waiting: Vec::new(),
            ended: false,
        };
        serve("this machine", serial, &blob, None);
    });
    Chat::over(Box::new(Typist(typed)), Listener(said, Vec::new()))
}

/// The board's end of the line.
struct Serial {
    receiver: Receiver<Vec<u8>>,
    sender: Sender<Vec<u8>>,
    waiting: Vec<u8>,
    ended: bool,
}

impl ErrorType for Serial {
    type Error = Infallible;
}

impl ReadReady for Serial {
    fn read_ready(&mut self) -> Result<bool, Infallible> {
        if self.waiting.is_empty() {
            match self.receiver.try_recv() {
                Ok(bytes) => self.waiting = bytes,
                Err(TryRecvError::Empty) => {}
                Err(TryRecvError::Disconnected) => self.ended = true,
            }
        }
        Ok(self.ended || !self.waiting.is_empty())
    }
}

impl Read for Serial {
    fn read(&mut self, bytes: &mut [u8]) -> Result<usize, Infallible> {
        while !self.read_ready()? {
            thread::sleep(NAP);
        }
        let count = bytes.len().min(self.waiting.len());
        for (place, byte) in bytes.iter_mut().zip(self.waiting.drain(..count)) {
            *place = byte;
        }
        Ok(count)
    }
}

impl Write for Serial {
    fn write(&mut self, bytes: &[u8]) -> Result<usize, Infallible> {
        // Nobody listens any more once the program ends.
        let _ = self.sender.send(bytes.to_vec());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> Result<(), Infallible> {
        Ok(())
    }
}

/// The program's end of the line, to type on.
struct Typist(Sender<Vec<u8>>);

impl io::Write for Typist {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let sent = self.0.send(bytes.to_vec());
        // not a broken pipe: that stands for a reader of this program that has gone, which is no error
        sent.map_err(|_| io::Error::from(io::ErrorKind::NotConnected))?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The program's end of the line, to read from.
struct Listener(Receiver<Vec<u8>>, Vec<u8>);

impl io::Read for Listener {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        if self.1.is_empty() {
            self.1 = self.0.recv().unwrap_or_default();
        }
        let count = io::Read::read(&mut self.1.as_slice(), bytes)?;
        self.1.drain(..count);
        Ok(count)
    }
}
