"""RP2350 around the core of cortexm.py: clocks, UART0, timer, watchdog, boot ROM (RP2350 datasheet)."""

import random
import struct

from unicorn.arm_const import (
    UC_ARM_REG_R0,
    UC_ARM_REG_R1,
    UC_ARM_REG_R2,
    UC_CPU_ARM_CORTEX_M33,
)

CLOCKS, RESETS, XOSC, PLL_SYS, PLL_USB = 0x40010000, 0x40020000, 0x40048000, 0x40050000, 0x40058000
UART, TIMER, WATCHDOG, ROSC, TICKS = 0x40070000, 0x400B0000, 0x400D8000, 0x400E8000, 0x40108000
XIP_STAT, BOOT_RAM, USB_RAM = 0x400C8008, 0x400E0000, 0x50100000
STREAM_ADDRESS, STREAM_COUNT, STREAM_FIFO = 0x400C8014, 0x400C8018, 0x50500000
DMA, DMA_CHANNELS, TREQ_XIP_STREAM = 0x50000000, 16, 49
TIMER0_IRQ, UART0_IRQ = 0, 33
RX_FULL, TX_READY = 1 << 4, 1 << 5
FIFO_LEN = 32
FLASH_START, FLASH_SECTOR = 0x10000000, 4096
ROM_LOOKUP, ROM_FUNCTIONS = 0xFF, ["IF", "EX", "RE", "RP", "FC", "CX"]


class Chip:
    """What the firmware of the Pico 2 uses of the chip."""

    CORE = UC_CPU_ARM_CORTEX_M33
    HZ = 150_000_000
    FLASH = [(FLASH_START, 4 << 20)]
    RAM = [(0, 32 << 10), (0x20000000, 520 << 10), (USB_RAM, 0x1000)]
    VECTORS = FLASH_START

    def __init__(self, machine):
        self.machine = machine
        # The boot ROM leaves code there that turns the flash's mapping on again: here, a return.
        self.regs = {RESETS: 0x1FFFFFFF, BOOT_RAM: 0x47704770}
        self.fifo, self.raised = bytearray(), 0
        self.armed, self.rung = {}, 0
        self.bite_at = None
        self.latched = 0
        self.noise = None if machine.noise is None else random.Random(machine.noise)
        uc = machine.uc
        uc.mmio_map(0x40000000, 0x00400000, self.read, 0x40000000, self.write, 0x40000000)
        uc.mmio_map(0x50000000, 0x00100000, self.read, 0x50000000, self.write, 0x50000000)
        uc.mmio_map(0x50110000, 0x00010000, self.read, 0x50110000, self.write, 0x50110000)
        uc.mmio_map(0xD0000000, 0x00001000, self.read_sio, None, self.write_sio, None)
        self.write_rom()

    def reg(self, address):
        return self.regs.get(address, 0)

    def micros(self):
        return self.machine.now // (self.HZ // 1_000_000)

    def read(self, _uc, offset, size, base):
        at = base + (offset & ~3 & ~0x3000)
        block, register = at & ~0xFFF, at & 0xFFF
        value = self.reg(at)
        if at == RESETS + 8:
            value = ~self.reg(RESETS) & 0x1FFFFFFF
        elif at == XOSC + 4:
            value = 1 << 31 | 1 << 12
        elif at in (PLL_SYS, PLL_USB):
            value |= 1 << 31
        elif block == CLOCKS and register < 0x78 and register % 12 == 8:
            # Which source is selected: clk_ref and clk_sys say so, the others are always there.
            value = 1 << (self.reg(at - 8) & 3) if register in (0x38, 0x44) else 1
        elif block == TICKS and register % 12 == 0:
            value |= (value & 1) << 1
        elif at == ROSC + 0x20:
            value = self.noise.getrandbits(1) if self.noise else 1
        elif at == XIP_STAT:
            value = 0b11
        elif block == UART:
            value = self.read_uart(register, value)
        elif block == TIMER:
            value = self.read_timer(register, value)
        return value >> (8 * (offset & 3)) & ((1 << (8 * size)) - 1)

    def write(self, _uc, offset, _size, value, base):
        # The other three copies of a register flip, set and clear bits of it.
        at, old = base + (offset & ~3 & ~0x3000), 0
        if at != UART:
            old = self.reg(at)
            value = [value, old ^ value, old | value, old & ~value][offset >> 12 & 3]
        block, register = at & ~0xFFF, at & 0xFFF
        self.regs[at] = value
        if at == UART:
            self.machine.sent.append(value & 0xFF)
            self.raised |= TX_READY
        elif at == UART + 0x44:
            self.raised &= ~value
        elif block == TIMER:
            self.write_timer(register, value)
        elif block == DMA and register < 0x40 * DMA_CHANNELS and register & 0x3C == 0x0C:
            self.stream(at & ~0x3F, value)
        elif at == WATCHDOG and not value >> 30 & 1:
            self.bite_at = None
        elif at in (WATCHDOG, WATCHDOG + 4) and self.reg(WATCHDOG) >> 30 & 1:
            micros = self.reg(WATCHDOG + 4) & 0xFFFFFF
            self.bite_at = self.machine.now + micros * (self.HZ // 1_000_000)
            self.machine.starting_over |= value >> 31 & 1 and at == WATCHDOG

    def stream(self, channel, control):
        """Carries words of flash to RAM, at once, where a channel is started that waits for the stream."""
        enabled, request = control & 1, control >> 17 & 0x3F
        if not (self.machine.streams and enabled and request == TREQ_XIP_STREAM):
            return
        source, target, count = (self.reg(channel + offset) for offset in (0, 4, 8))
        if source != STREAM_FIFO or count != self.reg(STREAM_COUNT):
            raise ValueError(f"DMA of {count} words from {source:x}")
        words = self.machine.uc.mem_read(self.reg(STREAM_ADDRESS), 4 * count)
        self.machine.uc.mem_write(target, bytes(words))
        self.regs[STREAM_COUNT] = 0

    # The block that each core has for itself: spinlocks are free, and the second core does not answer.

    def read_sio(self, _uc, offset, _size, _):
        if 0x100 <= offset < 0x180:
            return 1 << ((offset - 0x100) // 4)
        return {0x050: 0b10}.get(offset, self.reg(0xD0000000 + offset) if offset else 0)

    def write_sio(self, _uc, offset, _size, value, _):
        self.regs[0xD0000000 + offset] = value

    # UART0, a PL011.

    def read_uart(self, register, value):
        if register == 0x00:
            value = self.fifo.pop(0) if self.fifo else 0
            if not self.fifo:
                self.raised &= ~RX_FULL
        elif register == 0x18:
            value = 1 << 7 | (0 if self.fifo else 1 << 4)
        elif register == 0x3C:
            value = self.raised
        elif register == 0x40:
            value = self.raised & self.reg(UART + 0x38)
        return value

    def receive(self, byte):
        if len(self.fifo) < FIFO_LEN:
            self.fifo.append(byte)
            self.raised |= RX_FULL

    # TIMER0, which counts microseconds.

    def read_timer(self, register, value):
        if register in (0x08, 0x0C, 0x24, 0x28):
            self.machine.look_at_clock()
        micros = self.micros()
        if register in (0x0C, 0x28):
            self.latched = micros >> 32
            value = micros & 0xFFFFFFFF
        elif register == 0x08:
            value = self.latched
        elif register == 0x24:
            value = micros >> 32
        elif register == 0x20:
            value = sum(1 << alarm for alarm in self.armed)
        elif register == 0x3C:
            value = self.rung
        elif register == 0x48:
            value = self.rung & self.reg(TIMER + 0x40)
        return value

    def write_timer(self, register, value):
        if 0x10 <= register < 0x20:
            ahead = (value - self.micros()) % (1 << 32)
            self.armed[(register - 0x10) // 4] = self.micros() + ahead
        elif register == 0x20:
            self.armed = {alarm: at for alarm, at in self.armed.items() if not value >> alarm & 1}
        elif register == 0x3C:
            self.rung &= ~value

    def update(self):
        for alarm, at in list(self.armed.items()):
            if self.micros() >= at:
                del self.armed[alarm]
                self.rung |= 1 << alarm
        if self.bite_at is not None and self.machine.now >= self.bite_at:
            self.machine.starting_over = True

    def next_event(self):
        times = [at * (self.HZ // 1_000_000) for at in self.armed.values()]
        return min(times + ([self.bite_at] if self.bite_at is not None else []), default=None)

    def lines(self):
        rung = self.rung & self.reg(TIMER + 0x40)
        lines = {TIMER0_IRQ + alarm for alarm in range(4) if rung >> alarm & 1}
        if self.raised & self.reg(UART + 0x38):
            lines.add(UART0_IRQ)
        return lines

    # The functions of the boot ROM that flash is written with: each is a breakpoint and a return.

    def write_rom(self):
        stub = struct.Struct("<BBH")
        rom = bytearray(0x100)
        rom[0x10:0x14] = b"Mu\x02\x02"
        struct.pack_into("<H", rom, 0x16, 0x41)
        stub.pack_into(rom, 0x40, ROM_LOOKUP, 0xBE, 0x4770)
        for code in range(len(ROM_FUNCTIONS)):
            stub.pack_into(rom, 0xA0 + 4 * code, code, 0xBE, 0x4770)
        self.machine.uc.mem_write(0, bytes(rom))

    def rom_call(self, code):
        uc = self.machine.uc
        first, second, third = (
            uc.reg_read(r) for r in (UC_ARM_REG_R0, UC_ARM_REG_R1, UC_ARM_REG_R2)
        )
        if code == ROM_LOOKUP:
            tag = first.to_bytes(4, "little")[:2].decode("latin1")
            known = tag in ROM_FUNCTIONS
            place = 0xA1 + 4 * ROM_FUNCTIONS.index(tag) if known else 0
            uc.reg_write(UC_ARM_REG_R0, place)
        elif code < len(ROM_FUNCTIONS) and ROM_FUNCTIONS[code] == "RE":
            if first % FLASH_SECTOR or second % FLASH_SECTOR:
                raise ValueError("flash is erased in sectors")
            uc.mem_write(FLASH_START + first, b"\xff" * second)
        elif code < len(ROM_FUNCTIONS) and ROM_FUNCTIONS[code] == "RP":
            old, new = uc.mem_read(FLASH_START + first, third), uc.mem_read(second, third)
            # Programming clears bits; it sets none.
            uc.mem_write(FLASH_START + first, bytes(a & b for a, b in zip(old, new)))
        elif code >= len(ROM_FUNCTIONS):
            self.machine.fault = True
            uc.emu_stop()
