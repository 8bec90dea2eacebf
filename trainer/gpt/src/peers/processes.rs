//! Workers that are processes, on one machine or several, over TCP.
//!
//! The first listens, the others join it and learn from it all that they need but the text. They
//! send the gradients of their shards; it adds all in the order of the shards and answers with the
//! sum. A connection that closes is a worker that is gone, and so is one that says nothing for as long
//! as the run has patience.
//!
//! `burn-collective` 0.21 has a level for several processes too. Its barrier never forgets who has
//! been there (`global/node/sync.rs` clears a copy of the list), so that the second sum waits for
//! ever: it cannot train.
//!
//! Nothing is encrypted and nobody is asked who they are: the port is for a network that is trusted.

use std::io::{self, BufWriter, Read, Write};
use std::net::{TcpListener, TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};
use burn::tensor::Tensor;
use checkpoint::Checkpoint;
use socket2::{SockRef, TcpKeepalive};

use super::{Ended, Lost, Peers};
use crate::backend::TrainBackend;
use crate::evaluation::host;
use crate::optimizer::upload;
use crate::training::Record;

/// First bytes on either side; another version of the protocol has another number.
const MAGIC: &[u8; 16] = b"CHAPBOOK WORKER1";
/// A worker that has built the run and waits for its first step.
const READY: u8 = 1;
/// An answer with a sum.
const SUM: u8 = 2;
/// An answer without one: the run has ended.
const END: u8 = 3;
/// Largest run that is taken over a connection, in bytes.
const LARGEST: u64 = 1 << 34;
/// How long a stranger may hold up those that want to join.
const GREETING: Duration = Duration::from_secs(10);
/// How long a worker tries to reach the first.
const REACH: Duration = Duration::from_secs(60);
/// Silence after which the kernel asks whether the other side is still there, and how long it may
/// leave the question unanswered.
const SILENCE: Duration = Duration::from_secs(30);

/// Has the kernel close a connection whose other side has vanished without a word, or takes no data for
/// longer than `patience`.
fn guarded(stream: &TcpStream, patience: Duration) -> io::Result<()> {
    let socket = SockRef::from(stream);
    let keepalive = TcpKeepalive::new()
        .with_time(SILENCE)
        .with_interval(SILENCE / 3);
    socket.set_tcp_keepalive(&keepalive)?;
    #[cfg(target_os = "linux")]
    socket.set_tcp_user_timeout(Some(patience))?;
    stream.set_write_timeout(Some(patience))?;
    stream.set_nodelay(true)
}

/// Says why nothing more comes from a worker.
fn reason(error: &io::Error, patience: Duration) -> String {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => format!(
            "silent for {} s; if it was at work, give it more --patience",
            patience.as_secs()
        ),
        _ => error.to_string(),
    }
}

/// Does what [`reason`] does for an error that may be another's.
fn reason_of(error: &anyhow::Error, patience: Duration) -> String {
    match error.downcast_ref() {
        Some(error) => reason(error, patience),
        None => format!("{error:#}"),
    }
}

fn read_u64(stream: &mut impl Read) -> io::Result<u64> {
    let mut bytes = [0; 8];
    stream.read_exact(&mut bytes)?;
    Ok(u64::from_le_bytes(bytes))
}

/// Numbers on the wire, in a buffer that is kept.
#[derive(Debug, Default)]
struct Wire(Vec<u8>);

impl Wire {
    fn write(&mut self, stream: &mut impl Write, values: &[f32]) -> io::Result<()> {
        self.0.clear();
        self.0
            .extend(values.iter().flat_map(|value| value.to_le_bytes()));
        stream.write_all(&self.0)
    }

    fn read(
        &mut self,
        stream: &mut impl Read,
        len: usize,
    ) -> io::Result<impl Iterator<Item = f32>> {
        self.0.resize(4 * len, 0);
        stream.read_exact(&mut self.0)?;
        let values = self.0.as_chunks().0.iter();
        Ok(values.map(|&bytes| f32::from_le_bytes(bytes)))
    }
}

/// A worker that has joined, as the first sees it.
#[derive(Debug)]
struct Joined {
    stream: TcpStream,
    name: String,
}

impl Joined {
    /// Reads what precedes its gradients.
    fn header(&mut self, step: u64, len: usize) -> Result<()> {
        let found = (read_u64(&mut self.stream)?, read_u64(&mut self.stream)?);
        ensure!(
            found == (step, len as u64),
            "it sent {} numbers for step {}; expected {len} for step {step}",
            found.1,
            found.0
        );
        Ok(())
    }
}

/// The first worker.
#[derive(Debug)]
pub struct Hub {
    joined: Vec<Joined>,
    /// Shards of each worker.
    own: usize,
    wire: Wire,
    patience: Duration,
}

impl Hub {
    /// Waits on a socket until all others of `count` workers have joined and have built `run`, of
    /// whose shards each takes `own`. One that has joined counts as gone when it says nothing for
    /// longer than `patience`.
    ///
    /// # Errors
    ///
    /// A run that cannot be sent, or a worker that leaves before the start.
    pub fn gather(
        listener: &TcpListener,
        count: usize,
        own: usize,
        run: &Checkpoint,
        patience: Duration,
    ) -> Result<Self> {
        let run = run.to_bytes()?;
        let mut joined = Vec::new();
        while joined.len() + 1 < count {
            let (mut stream, address) = listener.accept().context("cannot let a worker join")?;
            let mut greeting = [0; MAGIC.len()];
            stream.set_read_timeout(Some(GREETING))?;
            if stream.read_exact(&mut greeting).is_err() || greeting != *MAGIC {
                crate::say!("{address} is no worker of this version; it is turned away");
                continue;
            }
            stream.set_read_timeout(Some(patience))?;
            guarded(&stream, patience)?;
            let rank = joined.len() + 1;
            let name = format!("worker {rank} at {address}");
            let send = || -> io::Result<()> {
                let mut out = BufWriter::new(&stream);
                out.write_all(MAGIC)?;
                for number in [rank, count, run.len()] {
                    out.write_all(&(number as u64).to_le_bytes())?;
                }
                out.write_all(&run)?;
                out.flush()
            };
            send().with_context(|| format!("{name} left before the start"))?;
            crate::say!("{name} has joined");
            joined.push(Joined { stream, name });
        }
        for Joined { stream, name } in &mut joined {
            let mut ready = [0];
            stream.read_exact(&mut ready).map_err(|error| {
                let why = reason(&error, patience);
                anyhow!("{name} left before the start, and says why ({why})")
            })?;
        }
        Ok(Self {
            joined,
            own,
            wire: Wire::default(),
            patience,
        })
    }
}

impl<B: TrainBackend> Peers<B> for Hub {
    fn place(&self) -> (usize, usize) {
        (0, self.joined.len() + 1)
    }

    fn sum(
        &mut self,
        step: u64,
        parts: Vec<Tensor<B, 1>>,
        record: &mut Record,
    ) -> Result<Tensor<B, 1>> {
        let device = parts[0].device();
        let mut parts = parts.into_iter().map(host);
        let mut sum = parts.next().unwrap_or_default();
        for part in parts {
            add(&mut sum, part.into_iter());
        }
        let len = sum.len();
        for joined in &mut self.joined {
            let mut take = || -> Result<()> {
                joined.header(step, len)?;
                for _ in 0..self.own {
                    add(&mut sum, self.wire.read(&mut joined.stream, len)?);
                }
                Ok(())
            };
            take().map_err(|error| {
                let why = reason_of(&error, self.patience);
                Lost(format!("{} is gone: {why}", joined.name))
            })?;
        }
        for Joined { stream, name } in &mut self.joined {
            let mut give = || -> io::Result<()> {
                stream.write_all(&[SUM])?;
                stream.write_all(&packed(record))?;
                self.wire.write(stream, &sum)
            };
            give().map_err(|error| {
                let why = reason(&error, self.patience);
                Lost(format!("{name} is gone: {why}"))
            })?;
        }
        Ok(upload(sum, &device))
    }

    fn end(&mut self, step: u64, steps: u64) {
        if step == steps {
            return;
        }
        for Joined { stream, .. } in &mut self.joined {
            // Its gradients are on their way; an answer ahead of them would be lost with the
            // connection. One that is gone needs none.
            let mut answer = || -> io::Result<()> {
                let _step = read_u64(stream)?;
                let bytes = 4 * read_u64(stream)? * self.own as u64;
                io::copy(&mut Read::by_ref(stream).take(bytes), &mut io::sink())?;
                stream.write_all(&[END])
            };
            let _ = answer();
        }
    }
}

/// Another worker than the first, as it sees that one.
#[derive(Debug)]
pub struct Leaf {
    stream: TcpStream,
    address: String,
    place: (usize, usize),
    wire: Wire,
    patience: Duration,
}

impl Leaf {
    /// Joins the run whose first worker listens at `address`; returns it as well. Once the first step
    /// is taken, that worker counts as gone when it says nothing for longer than `patience`: until
    /// then it may wait for others.
    ///
    /// # Errors
    ///
    /// Nobody there for a minute, or somebody else.
    pub fn join(address: &str, patience: Duration) -> Result<(Self, Checkpoint)> {
        crate::say!(
            "waiting for a run at {address}, {} s at most",
            REACH.as_secs()
        );
        let mut stream = reached(address)?;
        guarded(&stream, patience)?;
        stream.set_read_timeout(Some(patience))?;
        let mut hear = || -> Result<([u64; 2], Vec<u8>)> {
            stream.write_all(MAGIC)?;
            let mut greeting = [0; MAGIC.len()];
            stream.read_exact(&mut greeting)?;
            ensure!(greeting == *MAGIC, "it is no run of this version");
            let place = [read_u64(&mut stream)?, read_u64(&mut stream)?];
            let len = read_u64(&mut stream)?;
            ensure!(
                len <= LARGEST,
                "a run of {len} bytes; expected at most {LARGEST}"
            );
            let mut bytes = Vec::new();
            Read::by_ref(&mut stream)
                .take(len)
                .read_to_end(&mut bytes)?;
            Ok((place, bytes))
        };
        let (place, bytes) = hear().map_err(|error| {
            let why = reason_of(&error, patience);
            anyhow!("cannot join a run at {address}: {why}")
        })?;
        stream.set_read_timeout(None)?;
        let run = Checkpoint::from_bytes(&bytes)
            .with_context(|| format!("what came from {address} is no run"))?;
        let leaf = Self {
            stream,
            address: address.to_owned(),
            place: (place[0] as usize, place[1] as usize),
            wire: Wire::default(),
            patience,
        };
        Ok((leaf, run))
    }

    /// Returns this worker's number and how many there are.
    #[must_use]
    pub fn place(&self) -> (usize, usize) {
        self.place
    }

    /// Tells the first worker that this one can start.
    ///
    /// # Errors
    ///
    /// If that one is gone.
    pub fn ready(&mut self) -> Result<()> {
        let told = self.stream.write_all(&[READY]);
        told.with_context(|| format!("worker 0 at {} is gone", self.address))
    }
}

/// Connects, with patience: the first worker may still be on its way.
fn reached(address: &str) -> Result<TcpStream> {
    let from = Instant::now();
    loop {
        match TcpStream::connect(address) {
            Ok(stream) => return Ok(stream),
            Err(error) if from.elapsed() > REACH || address.to_socket_addrs().is_err() => {
                bail!(
                    "nobody listens at {address} ({error}); start the first worker with --listen"
                );
            }
            Err(_) => std::thread::sleep(Duration::from_millis(200)),
        }
    }
}

impl<B: TrainBackend> Peers<B> for Leaf {
    fn place(&self) -> (usize, usize) {
        self.place
    }

    fn sum(
        &mut self,
        step: u64,
        parts: Vec<Tensor<B, 1>>,
        record: &mut Record,
    ) -> Result<Tensor<B, 1>> {
        let ([len], device) = (parts[0].dims(), parts[0].device());
        let stream = &mut self.stream;
        let ask = || -> io::Result<Option<Vec<f32>>> {
            stream.write_all(&step.to_le_bytes())?;
            stream.write_all(&(len as u64).to_le_bytes())?;
            for part in parts {
                self.wire.write(stream, &host(part))?;
            }
            let mut kind = [0];
            stream.read_exact(&mut kind)?;
            // from here on all are at work
            stream.set_read_timeout(Some(self.patience))?;
            if kind[0] != SUM {
                return Ok(None);
            }
            let mut packed = [0; RECORD];
            stream.read_exact(&mut packed)?;
            *record = unpacked(&packed, record);
            Ok(Some(self.wire.read(stream, len)?.collect()))
        };
        match ask() {
            Ok(Some(sum)) => Ok(upload(sum, &device)),
            Ok(None) => Err(Ended.into()),
            Err(error) => {
                let why = reason(&error, self.patience);
                Err(Lost(format!("worker 0 at {} is gone: {why}", self.address)).into())
            }
        }
    }

    fn end(&mut self, _step: u64, _steps: u64) {}
}

fn add(sum: &mut [f32], part: impl Iterator<Item = f32>) {
    for (sum, part) in sum.iter_mut().zip(part) {
        *sum += part;
    }
}

/// Bytes of [`packed`].
const RECORD: usize = 40;

/// Lays out what a checkpoint keeps of the losses so far.
fn packed(record: &Record) -> [u8; RECORD] {
    let numbers = [
        record.dev_f32.to_bits(),
        record.dev_ema.to_bits(),
        record.best_dev.to_bits(),
        record.best_step,
        record.seconds.to_bits(),
    ];
    let mut bytes = [0; RECORD];
    for (place, number) in bytes.chunks_exact_mut(8).zip(numbers) {
        place.copy_from_slice(&number.to_le_bytes());
    }
    bytes
}

fn unpacked(bytes: &[u8; RECORD], old: &Record) -> Record {
    let number = |i: usize| u64::from_le_bytes(bytes.as_chunks().0[i]);
    Record {
        dev_f32: f64::from_bits(number(0)),
        dev_ema: f64::from_bits(number(1)),
        best_dev: f64::from_bits(number(2)),
        best_step: number(3),
        seconds: f64::from_bits(number(4)),
        ..*old
    }
}
