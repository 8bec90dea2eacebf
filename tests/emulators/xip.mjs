// The registers of the RP2040's flash cache, which rp2040js lacks (RP2040 datasheet, 2.6.3).
//
// A write of flash asks them whether a stream is under way. With `streams` they stream: words of flash
// come from the FIFO as fast as the DMA reads it. Without, no word ever comes.

const CONTROL = (0x14000000 >>> 14) << 2;
const FIFO = (0x50400000 >>> 14) << 2;
const FLASH = 0x10000000;
const DREQ_XIP_STREAM = 37;
const [STATUS, ADDRESS, COUNT, DATA] = [0x08, 0x14, 0x18, 0x1c];
const FIFO_EMPTY = 2;

/// Puts the registers in their places.
export function installXip(mcu, streams) {
  let [address, count] = [0, 0];
  const next = () => {
    if (!count) throw new Error('the FIFO is read when it is empty');
    const word = mcu.flashView.getUint32(address - FLASH, true);
    address += 4;
    count -= 1;
    if (!count) mcu.dma.clearDREQ(DREQ_XIP_STREAM);
    return word;
  };
  const read = (offset) => {
    if (offset === STATUS) return count ? 0 : FIFO_EMPTY;
    if (offset === COUNT) return count;
    if (offset === DATA) return next();
    return 0;
  };
  const write = (offset, value) => {
    if (!streams) return;
    if (offset === ADDRESS) address = value;
    if (offset !== COUNT) return;
    count = value;
    if (count) mcu.dma.setDREQ(DREQ_XIP_STREAM);
    else mcu.dma.clearDREQ(DREQ_XIP_STREAM);
  };
  mcu.peripherals[CONTROL] = { readUint32: read, writeUint32Atomic: write };
  mcu.peripherals[FIFO] = { readUint32: next };
}
