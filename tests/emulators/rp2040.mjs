// Runs an RP2040 ELF in rp2040js with its UART0 on standard input and output.
//
//   node rp2040.mjs ELF [--defmt FILE]
//
// Ends when standard input ends. Bytes that arrive are fed at 115200 baud of emulated time. With
// --defmt the frames of the RTT channel go to FILE, for defmt-print.
//
// rp2040js has no boot ROM, so the program starts at the vector table behind boot2.

import fs from 'node:fs';
import { RP2040 } from 'rp2040js';
// The package exports no clock.
import { SimulationClock } from './node_modules/rp2040js/dist/esm/clock/simulation-clock.js';

const FLASH = 0x10000000;
const RAM = 0x20000000;
const VECTOR_TABLE = 0x10000100;
const NS_PER_BYTE = 1e9 / 11520;
const STEPS_PER_SLICE = 200_000;

const [elfPath, option, framesPath] = process.argv.slice(2);
if (!elfPath || (option && option !== '--defmt')) {
  console.error('usage: node rp2040.mjs ELF [--defmt FILE]');
  process.exit(2);
}
const elf = fs.readFileSync(elfPath);
const frames = framesPath ? fs.openSync(framesPath, 'w') : null;

const clock = new SimulationClock();
const mcu = new RP2040(clock);
const complain = (name, message) => console.error(`rp2040js: ${name}: ${message}`);
mcu.logger = { debug() {}, info() {}, warn: complain, error: complain };

loadFlash();
const core = mcu.core;
core.VTOR = VECTOR_TABLE;
core.SP = mcu.flashView.getUint32(VECTOR_TABLE - FLASH, true);
core.PC = mcu.flashView.getUint32(VECTOR_TABLE - FLASH + 4, true) & ~1;
patchInterrupts();
mcu.uart.forEach(patchUart);
const rtt = symbol('_SEGGER_RTT');

const typed = [];
let nextByteAt = 0;
process.stdin.on('data', (bytes) => typed.push(...bytes));
process.stdin.on('end', () => process.exit(0));
mcu.uart[0].onByte = (byte) => sent.push(byte);
mcu.onBreak = (code) => {
  console.error(`rp2040js: breakpoint ${code} at ${core.PC.toString(16)}`);
  process.exit(1);
};
const sent = [];

// NOTE: slices, so that standard input is read between them.
function slice() {
  for (let step = 0; step < STEPS_PER_SLICE; step++) {
    if (core.waiting) {
      // Asleep until a timer or a byte; without either there is nothing to emulate.
      if (!typed.length && clock.nanosToNextAlarm <= 0) break;
      const untilByte = typed.length ? Math.max(nextByteAt - clock.nanos, 1) : Infinity;
      const untilAlarm = clock.nanosToNextAlarm > 0 ? clock.nanosToNextAlarm : Infinity;
      clock.tick(Math.min(untilByte, untilAlarm));
    } else {
      clock.tick((core.executeInstruction() * 1e9) / mcu.clkSys);
    }
    if (typed.length && clock.nanos >= nextByteAt) {
      mcu.uart[0].feedByte(typed.shift());
      nextByteAt = clock.nanos + NS_PER_BYTE;
    }
  }
  if (sent.length) fs.writeSync(1, Buffer.from(sent.splice(0)));
  if (frames !== null) drainRtt();
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
  throw new Error(`${elfPath} has no symbol ${name}: is it built with defmt-rtt?`);
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
