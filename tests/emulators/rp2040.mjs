// Runs an RP2040 ELF in rp2040js with its serial line on standard input and output.
//
//   node rp2040.mjs ELF [--usb] [--usb-unread] [--logs-unread] [--streams] [--defmt FILE]
//     [--model FILE --model-at ADDRESS]
//
// Ends when standard input ends. Bytes that arrive are fed to UART0 at 115200 baud of emulated time,
// or with --usb to the USB serial port. With --usb-unread a host opens that port, and then reads nothing;
// typing begins when it has. With --defmt the frames of the RTT channel go to FILE, for defmt-print; with
// --logs-unread a probe has asked the channel to wait for it, and then reads nothing. With --model the file lies in flash at that address. With --streams the flash cache
// has its stream, which xip.mjs stands in for. There is no second core.
//
// rp2040js has no boot ROM, so the program starts at the vector table behind boot2; boot-rom.mjs
// stands in for the ROM functions that write flash. A watchdog that bites starts the chip over, with
// flash and RAM as they were.

import fs from 'node:fs';
import { parseArgs } from 'node:util';
import { RP2040, USBCDC } from 'rp2040js';
// The package exports no clock.
import { SimulationClock } from './node_modules/rp2040js/dist/esm/clock/simulation-clock.js';
import { installBootRom } from './boot-rom.mjs';
import { installXip } from './xip.mjs';

const FLASH = 0x10000000;
const RAM = 0x20000000;
const VECTOR_TABLE = 0x10000100;
const NS_PER_BYTE = 1e9 / 11520;
const STEPS_PER_SLICE = 200_000;

const { values: options, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    usb: { type: 'boolean' },
    'usb-unread': { type: 'boolean' },
    'logs-unread': { type: 'boolean' },
    streams: { type: 'boolean' },
    defmt: { type: 'string' },
    model: { type: 'string' },
    'model-at': { type: 'string' },
  },
});
if (positionals.length !== 1 || !options.model !== !options['model-at']) {
  console.error('usage: node rp2040.mjs ELF [--usb] [--usb-unread] [--logs-unread] [--streams] [--defmt FILE] [--model FILE --model-at ADDRESS]');
  process.exit(2);
}
const elf = fs.readFileSync(positionals[0]);
const frames = options.defmt ? fs.openSync(options.defmt, 'w') : null;
const rtt = symbol('_SEGGER_RTT');

const typed = [];
process.stdin.on('data', (bytes) => typed.push(...bytes));
process.stdin.on('end', () => process.exit(0));
const sent = [];

let mcu, core, clock, wanted, nextByteAt, bitten, opened;
start(null);

/// Powers the chip up, or starts it over with the memories of `before`.
function start(before) {
  clock = new SimulationClock();
  mcu = new RP2040(clock);
  const complain = (name, message) => console.error(`rp2040js: ${name}: ${message}`);
  mcu.logger = { debug() {}, info() {}, warn: complain, error: complain };
  if (before) {
    mcu.flash.set(before.flash);
    mcu.sram.set(before.sram);
  } else {
    loadFlash();
  }
  core = mcu.core;
  core.VTOR = VECTOR_TABLE;
  core.SP = mcu.flashView.getUint32(VECTOR_TABLE - FLASH, true);
  core.PC = mcu.flashView.getUint32(VECTOR_TABLE - FLASH + 4, true) & ~1;
  patchInterrupts();
  mcu.uart.forEach(patchUart);
  installXip(mcu, options.streams);
  patchSio();
  wanted = null;
  nextByteAt = 0;
  bitten = false;
  const watchdog = mcu.peripherals[0x40058];
  watchdog.onWatchdogTrigger = () => {
    bitten = true;
    // Else it would go off again at the same moment, for ever.
    watchdog.alarm.enable = false;
  };
  const romCall = installBootRom(mcu);
  mcu.onBreak = (code) => {
    if (romCall(code)) return;
    console.error(`rp2040js: breakpoint ${code} at ${core.PC.toString(16)}`);
    process.exit(1);
  };
  if (options.usb) {
    const cdc = new USBCDC(mcu.usbCtrl);
    cdc.onSerialData = (bytes) => sent.push(...bytes);
    patchUsb(cdc);
  } else {
    mcu.uart[0].onByte = (byte) => sent.push(byte);
  }
  opened = !options['usb-unread'];
  if (!opened) {
    const cdc = new USBCDC(mcu.usbCtrl);
    cdc.onDeviceConnected = () => (opened = true);
    patchUsb(cdc);
    leaveUnread(cdc);
  }
}

// NOTE: slices, so that standard input is read between them.
function slice() {
  let woken = false;
  for (let step = 0; step < STEPS_PER_SLICE && !bitten; step++) {
    if (core.waiting) {
      // Asleep until a timer or a byte; without either there is nothing to emulate. A chip that
      // only waits for its tick is not hurried through the years.
      const types = typed.length && opened;
      if (!types && (woken || clock.nanosToNextAlarm <= 0)) break;
      woken = true;
      const untilByte = types ? Math.max(nextByteAt - clock.nanos, 1) : Infinity;
      const untilAlarm = clock.nanosToNextAlarm > 0 ? clock.nanosToNextAlarm : Infinity;
      clock.tick(Math.min(untilByte, untilAlarm));
      // rp2040js 1.4.1 does not wake a core for its tick.
      if (core.pendingSystick && core.checkForInterrupts()) core.waiting = false;
    } else {
      clock.tick((core.executeInstruction() * 1e9) / mcu.clkSys);
    }
    if (typed.length && opened && clock.nanos >= nextByteAt) {
      if (!options.usb) {
        mcu.uart[0].feedByte(typed.shift());
      } else if (wanted) {
        const take = wanted;
        wanted = null;
        take();
      }
      nextByteAt = clock.nanos + NS_PER_BYTE;
    }
  }
  if (bitten) start(mcu);
  if (sent.length) fs.writeSync(1, Buffer.from(sent.splice(0)));
  if (options['logs-unread']) fillRtt();
  else if (frames !== null) drainRtt();
  if (core.waiting && !typed.length) setTimeout(slice, 5);
  else setImmediate(slice);
}
slice();

function loadFlash() {
  const [table, entrySize, count] = [elf.readUInt32LE(28), elf.readUInt16LE(42), elf.readUInt16LE(44)];
  for (let i = 0; i < count; i++) {
    const header = table + i * entrySize;
    const [type, offset, , address, size] = [0, 4, 8, 12, 16].map((o) => elf.readUInt32LE(header + o));
    const PT_LOAD = 1;
    if (type === PT_LOAD && size && address >= FLASH && address < FLASH + mcu.flash.length) {
      mcu.flash.set(elf.subarray(offset, offset + size), address - FLASH);
    }
  }
  if (options.model) mcu.flash.set(fs.readFileSync(options.model), options['model-at'] - FLASH);
}

function symbol(name) {
  const [table, entrySize, count] = [elf.readUInt32LE(32), elf.readUInt16LE(46), elf.readUInt16LE(48)];
  const section = (i) => {
    const header = table + i * entrySize;
    const [type, offset, size, link] = [4, 16, 20, 24].map((o) => elf.readUInt32LE(header + o));
    return { type, offset, size, link };
  };
  const SYMBOL_TABLE = 2;
  for (let i = 0; i < count; i++) {
    const { type, offset, size, link } = section(i);
    if (type !== SYMBOL_TABLE) continue;
    const names = section(link).offset;
    for (let entry = offset; entry < offset + size; entry += 16) {
      const start = names + elf.readUInt32LE(entry);
      if (elf.toString('latin1', start, elf.indexOf(0, start)) === name) {
        return elf.readUInt32LE(entry + 4);
      }
    }
  }
  throw new Error(`${positionals[0]} has no symbol ${name}: is it built with defmt-rtt?`);
}

/// Moves what the firmware wrote to its first RTT up-channel into the frames file.
function drainRtt() {
  const word = (address) => mcu.sramView.getUint32(address - RAM, true);
  const channel = rtt + 24;
  const [buffer, size, write, read] = [4, 8, 12, 16].map((o) => word(channel + o));
  if (!size || read === write) return;
  const at = buffer - RAM;
  const bytes = Buffer.from(mcu.sram.subarray(at, at + size));
  const parts = read < write ? [bytes.subarray(read, write)] : [bytes.subarray(read), bytes.subarray(0, write)];
  parts.forEach((part) => fs.writeSync(frames, part));
  mcu.sramView.setUint32(channel + 16 - RAM, write, true);
}

/// Makes the first RTT up-channel one that is full and whose reader wants the firmware to wait.
function fillRtt() {
  const BLOCK_IF_FULL = 2;
  const channel = rtt + 24 - RAM;
  const [size, write] = [8, 12].map((o) => mcu.sramView.getUint32(channel + o, true));
  if (!size) return;
  mcu.sramView.setUint32(channel + 16, (write + 1) % size, true);
  mcu.sramView.setUint32(channel + 20, BLOCK_IF_FULL, true);
}

/// rp2040js 1.4.1 keeps an interrupt that software has pended, and after a handler it does not look
/// at the UART's lines again.
function patchInterrupts() {
  const enter = core.exceptionEntry.bind(core);
  core.exceptionEntry = (number) => {
    if (number >= 16) core.pendingInterrupts &= ~(1 << (number - 16));
    enter(number);
  };
  const leave = core.exceptionReturn.bind(core);
  core.exceptionReturn = (value) => {
    leave(value);
    mcu.uart.forEach((uart) => uart.checkInterrupts());
  };
}

/// rp2040js 1.4.1 lacks the FIFO to the second core; here it takes words, and none ever comes back.
function patchSio() {
  const [STATUS, WRITE, READY] = [0x50, 0x54, 2];
  const [read, write] = [mcu.sio.readUint32.bind(mcu.sio), mcu.sio.writeUint32.bind(mcu.sio)];
  mcu.sio.readUint32 = (offset) => (offset === STATUS ? READY : read(offset));
  mcu.sio.writeUint32 = (offset, value) => {
    if (offset !== STATUS && offset !== WRITE) write(offset, value);
  };
}

/// rp2040js 1.4.1 lacks the registers UARTRSR and UARTDMACR and asserts the transmit interrupt for
/// ever; here it is raised by a byte that leaves.
function patchUart(uart) {
  const [DATA, RSR, DMACR, TX_INTERRUPT] = [0, 4, 0x48, 0x20];
  const [read, write] = [uart.readUint32.bind(uart), uart.writeUint32.bind(uart)];
  uart.readUint32 = (offset) => (offset === RSR || offset === DMACR ? 0 : read(offset));
  uart.checkInterrupts = () => {
    mcu.setInterrupt(uart.irq, !!(uart.interruptStatus & uart.interruptMask));
  };
  uart.writeUint32 = (offset, value) => {
    if (offset === DATA) uart.interruptStatus |= TX_INTERRUPT;
    if (offset !== RSR && offset !== DMACR) write(offset, value);
    if (offset === DATA) uart.checkInterrupts();
  };
}

/// rp2040js 1.4.1 asks the device for what CDC has the interface asked for, and says at once that an
/// empty packet has filled a buffer; a host waits for bytes.
function patchUsb(cdc) {
  const [AVAILABLE, OUT_CONTROL] = [1 << 10, 0x84];
  const setup = mcu.usbCtrl.sendSetupPacket.bind(mcu.usbCtrl);
  mcu.usbCtrl.sendSetupPacket = (packet) => {
    const [CLASS_TO_DEVICE, CLASS_TO_INTERFACE] = [0x20, 0x21];
    if (packet[0] === CLASS_TO_DEVICE) packet[0] = CLASS_TO_INTERFACE;
    setup(packet);
  };
  mcu.usbCtrl.onEndpointRead = (endpoint, size) => {
    if (endpoint !== cdc.outEndpoint) return;
    const at = OUT_CONTROL + 8 * endpoint;
    const control = mcu.usbDPRAMView.getUint32(at, true);
    mcu.usbDPRAMView.setUint32(at, control | AVAILABLE, true);
    wanted = () => {
      mcu.usbDPRAMView.setUint32(at, control, true);
      mcu.usbCtrl.finishRead(endpoint, Uint8Array.from(typed.splice(0, size)));
    };
  };
}

/// Has the host take none of what the serial port sends.
function leaveUnread(cdc) {
  const IN_CONTROL = 0x80;
  const updated = mcu.usbCtrl.DPRAMUpdated.bind(mcu.usbCtrl);
  mcu.usbCtrl.DPRAMUpdated = (offset, value) => {
    if (offset !== IN_CONTROL + 8 * cdc.inEndpoint) updated(offset, value);
  };
}
