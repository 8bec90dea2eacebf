// The functions of the RP2040's boot ROM that flash is written with, for rp2040js, which has no boot ROM.
//
// Each is a breakpoint and a return; the breakpoint does the work here (RP2040 datasheet, 2.8.3).

const FLASH_SECTOR = 4096;
const LOOKUP = 0xff;
const BREAKPOINT = 0xbe00;
const RETURN = 0x4770;

/// Writes the ROM and returns what handles its breakpoints: true where the code is one of them.
export function installBootRom(mcu) {
  const core = mcu.core;
  const argument = (n) => core.registers[n] >>> 0;
  const functions = {
    C4() {
      const [to, from, count] = [argument(0), argument(1), argument(2)];
      for (let i = 0; i < count; i++) mcu.writeUint8(to + i, mcu.readUint8(from + i));
    },
    IF() {},
    EX() {},
    FC() {},
    CX() {},
    RE() {
      const [start, count] = [argument(0), argument(1)];
      if (start % FLASH_SECTOR || count % FLASH_SECTOR) throw new Error('flash is erased in sectors');
      mcu.flash.fill(0xff, start, start + count);
    },
    RP() {
      const [start, from, count] = [argument(0), argument(1), argument(2)];
      // Programming clears bits; it sets none.
      for (let i = 0; i < count; i++) mcu.flash[start + i] &= mcu.readUint8(from + i);
    },
  };
  const names = Object.keys(functions);
  const rom = new Uint8Array(0x100);
  const view = new DataView(rom.buffer);
  const stub = (address, code) => {
    view.setUint16(address, BREAKPOINT | code, true);
    view.setUint16(address + 2, RETURN, true);
  };
  rom.set([0x4d, 0x75, 1, 1], 0x10);
  view.setUint16(0x14, 0x80, true);
  view.setUint16(0x16, 0x80, true);
  view.setUint16(0x18, 0x41, true);
  stub(0x40, LOOKUP);
  const place = (i) => 0xa0 + 4 * i;
  names.forEach((_, i) => stub(place(i), i));
  // NOTE: loadBootrom would erase the flash.
  mcu.bootrom.set(new Uint32Array(rom.buffer));

  return (code) => {
    if (code === LOOKUP) {
      const tag = String.fromCharCode(argument(1) & 0xff, argument(1) >> 8);
      const found = names.indexOf(tag);
      core.registers[0] = found < 0 ? 0 : place(found) | 1;
      return true;
    }
    const called = functions[names[code]];
    if (called) called();
    return called !== undefined;
  };
}
