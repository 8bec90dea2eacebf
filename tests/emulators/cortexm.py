"""Runs the ELF of a Cortex-M board in Unicorn with its serial line on standard input and output.

    python3 cortexm.py BOARD ELF [--defmt FILE] [--model FILE --model-at ADDRESS] [--noise SEED] [--streams]

BOARD is blackpill (stm32f411.py) or pico2 (rp2350.py). Ends when standard input ends.

Unicorn has the core and nothing around it. Here are interrupt controller, tick, exception entry and
return; the chips' files have clocks, UART, timers, watchdog, flash. An instruction takes one cycle of
the clock, interrupts come between slices of instructions, and a floating-point context is kept aside
instead of on the stack. Bytes that arrive are fed to the UART at 115200 baud of emulated time. With
--defmt the frames of the RTT channel go to FILE, for defmt-print. With --model the file lies in flash
at that address. With --noise the chip has a source of noise; without, a stuck one. With --streams the
flash cache of pico2 streams what a DMA channel asks for; without, nothing comes. A watchdog that
bites starts the chip over, with flash and RAM as they were.
"""

import argparse
import importlib
import os
import select
import struct
import sys

from unicorn import (
    UC_ARCH_ARM,
    UC_HOOK_INTR,
    UC_MODE_MCLASS,
    UC_MODE_THUMB,
    Uc,
    UcError,
)
from unicorn import arm_const as arm

CHIPS = {"blackpill": "stm32f411", "pico2": "rp2350"}
BAUD_BYTES = 11_520
SLICE = 5_000
# Nothing says how far a slice got that ended asleep.
PART = SLICE // 20
SYSTEM = 0xE000E000
HARD_FAULT, PENDSV, SYSTICK, FIRST_IRQ = 3, 14, 15, 16
# Looks at the clock in one slice that computing takes at most.
LOOKS = 16
WFI, YIELD = b"\x30\xbf", b"\x10\xbf"
# Unicorn's numbers of what reaches its interrupt hook.
BREAKPOINT, EXCEPTION_RETURN = 7, 8
STACKED = [
    arm.UC_ARM_REG_R0,
    arm.UC_ARM_REG_R1,
    arm.UC_ARM_REG_R2,
    arm.UC_ARM_REG_R3,
    arm.UC_ARM_REG_R12,
    arm.UC_ARM_REG_LR,
    arm.UC_ARM_REG_PC,
    arm.UC_ARM_REG_XPSR,
]
FLOATS = [getattr(arm, f"UC_ARM_REG_D{n}") for n in range(16)] + [arm.UC_ARM_REG_FPSCR]


class Elf:
    """The parts of an ELF file that are loaded, and its symbols."""

    def __init__(self, path):
        with open(path, "rb") as file:
            self.bytes = file.read()

    def words(self, at, count):
        return struct.unpack_from(f"<{count}I", self.bytes, at)

    def table(self, at, sizes):
        (start,), (size, count) = self.words(at, 1), struct.unpack_from("<2H", self.bytes, sizes)
        return [start + index * size for index in range(count)]

    def loaded(self):
        for header in self.table(28, 42):
            kind, offset, _, address, size = self.words(header, 5)
            if kind == 1 and size:
                yield address, self.bytes[offset : offset + size]

    def symbol(self, name):
        sections = [self.words(at, 7) for at in self.table(32, 46)]
        for _, kind, _, _, offset, size, link in sections:
            for entry in range(offset, offset + size, 16) if kind == 2 else ():
                start = sections[link][4] + self.words(entry, 1)[0]
                if self.bytes[start : self.bytes.index(0, start)] == name.encode():
                    return self.words(entry, 2)[1]
        sys.exit(f"no symbol {name}: is it built with defmt-rtt?")


class Machine:
    """A core with its interrupt controller, and the chip around it."""

    def __init__(self, make_chip, elf, options):
        self.make_chip = make_chip
        self.typed, self.sent = bytearray(), bytearray()
        self.frames = open(options.defmt, "wb") if options.defmt else None
        self.rtt = elf.symbol("_SEGGER_RTT")
        self.noise = options.noise
        self.streams = options.streams
        contents = [(address, bytes([0xFF]) * size) for address, size in make_chip.FLASH]
        self.start(contents + list(elf.loaded()))
        if options.model:
            with open(options.model, "rb") as file:
                self.uc.mem_write(int(options.model_at, 0), file.read())

    def start(self, contents):
        """Powers the chip up, or starts it over, with what memories hold."""
        self.uc = uc = Uc(UC_ARCH_ARM, UC_MODE_THUMB | UC_MODE_MCLASS)
        uc.ctl_set_cpu_model(self.make_chip.CORE)
        for address, size in self.make_chip.FLASH + self.make_chip.RAM:
            uc.mem_map(address, size)
        for address, data in contents:
            if any(start <= address < start + size for start, size in self.memories()):
                uc.mem_write(address, data)
        # The unit for floating-point numbers is there; CPACR is not looked at.
        uc.reg_write(arm.UC_ARM_REG_C1_C0_2, 0xF << 20)
        uc.reg_write(arm.UC_ARM_REG_FPEXC, 1 << 30)
        self.now = 0
        self.next_byte_at = 0
        self.system = {}
        self.priorities = bytearray(512)
        self.enabled, self.pended = set(), set()
        self.next_tick = None
        self.active, self.floats = [], []
        self.starting_over = False
        self.fault = False
        uc.mmio_map(SYSTEM, 0x1000, self.read_system, None, self.write_system, None)
        uc.hook_add(UC_HOOK_INTR, self.interrupted)
        self.chip = self.make_chip(self)
        self.vectors = self.make_chip.VECTORS
        sp, self.pc = struct.unpack("<2I", uc.mem_read(self.vectors, 8))
        uc.reg_write(arm.UC_ARM_REG_SP, sp)

    def memories(self):
        return self.make_chip.FLASH + self.make_chip.RAM

    def start_over(self):
        kept = [(address, bytes(self.uc.mem_read(address, size))) for address, size in self.memories()]
        self.start(kept)

    # The interrupt controller and the tick.

    def read_system(self, _uc, offset, size, _):
        word = offset & ~3
        if word == 0x018 and self.next_tick is not None:
            value = max(self.next_tick - self.now, 0)
        elif 0x100 <= word < 0x300:
            first, kind = (word & 0x7F) * 8, (word >> 7) & 1
            irqs = self.pended if word >= 0x200 else self.enabled
            value = sum(1 << (irq - first) for irq in irqs if first <= irq < first + 32)
        elif 0x400 <= word < 0x600:
            value = int.from_bytes(self.priorities[word - 0x400 : word - 0x3FC], "little")
        else:
            value = self.system.get(word, 0)
        return value >> (8 * (offset & 3)) & ((1 << (8 * size)) - 1)

    def write_system(self, _uc, offset, size, value, _):
        if 0x400 <= offset < 0x600:
            self.priorities[offset - 0x400 : offset - 0x400 + size] = value.to_bytes(size, "little")
        elif 0x100 <= offset < 0x300:
            irqs = {(offset & 0x7F) * 8 + bit for bit in range(32) if value >> bit & 1}
            which = self.pended if offset >= 0x200 else self.enabled
            (which.difference_update if offset & 0x80 else which.update)(irqs)
        elif offset == 0xF00:
            self.pended.add(value & 0x1FF)
        elif offset == 0xD0C:
            self.starting_over |= value == 0x05FA0004
            self.uc.emu_stop()
        elif offset == 0xD04:
            if value >> 28 & 1:
                self.pended.add(PENDSV - FIRST_IRQ)
        else:
            if offset == 0xD08:
                self.vectors = value
            shift, mask = 8 * (offset & 3), (1 << (8 * size)) - 1
            word = self.system.get(offset & ~3, 0) & ~(mask << shift)
            self.system[offset & ~3] = word | value << shift
            if offset in (0x010, 0x018):
                self.next_tick = self.now + self.period() if self.system.get(0x010, 0) & 1 else None

    def period(self):
        return self.system.get(0x014, 0) + 1

    def priority(self, number):
        if number == HARD_FAULT:
            return -1
        if number >= FIRST_IRQ:
            return self.priorities[number - FIRST_IRQ]
        return self.system.get(0xD18 + (number - 4 & ~3), 0) >> (8 * (number & 3)) & 0xFF

    def update(self):
        """Brings tick and chip up to the present moment."""
        if self.next_tick is not None and self.now >= self.next_tick:
            self.next_tick += self.period() * ((self.now - self.next_tick) // self.period() + 1)
            if self.system[0x010] & 2:
                self.pended.add(SYSTICK - FIRST_IRQ)
        self.chip.update()

    def waiting(self):
        """Returns the exceptions that are pending and enabled, the first one first."""
        irqs = (self.pended | self.chip.lines()) & self.enabled
        irqs |= {irq for irq in self.pended if irq < 0}
        numbers = [irq + FIRST_IRQ for irq in irqs]
        return sorted((self.priority(number), number) for number in numbers)

    def due(self):
        """Returns the exception that the core takes now, if any."""
        if self.fault:
            self.fault = False
            return HARD_FAULT
        waiting = self.waiting()
        if not waiting or self.uc.reg_read(arm.UC_ARM_REG_PRIMASK) & 1:
            return None
        running = min((self.priority(number) for number in self.active), default=256)
        return waiting[0][1] if waiting[0][0] < running else None

    # Exceptions.

    def enter(self, number):
        uc = self.uc
        values = [uc.reg_read(register) for register in STACKED]
        sp = uc.reg_read(arm.UC_ARM_REG_SP) - 32
        values[-1] = values[-1] & ~(1 << 9) | (sp & 4) << 7
        sp &= ~7
        try:
            uc.mem_write(sp, struct.pack("<8I", *values))
        except UcError:
            # As the core does, for the handler of a stack overflow: it is entered with nothing stacked.
            pass
        self.floats.append([uc.reg_read(register) for register in FLOATS])
        uc.reg_write(arm.UC_ARM_REG_SP, sp)
        uc.reg_write(arm.UC_ARM_REG_LR, 0xFFFFFFF1 if self.active else 0xFFFFFFF9)
        uc.reg_write(arm.UC_ARM_REG_IPSR, number)
        self.active.append(number)
        self.pended.discard(number - FIRST_IRQ)
        (self.pc,) = struct.unpack("<I", uc.mem_read(self.vectors + 4 * number, 4))
        uc.reg_write(arm.UC_ARM_REG_PC, self.pc)

    def leave(self):
        uc = self.uc
        sp = uc.reg_read(arm.UC_ARM_REG_SP)
        values = struct.unpack("<8I", uc.mem_read(sp, 32))
        for register, value in zip(FLOATS, self.floats.pop()):
            uc.reg_write(register, value)
        self.active.pop()
        uc.reg_write(arm.UC_ARM_REG_IPSR, self.active[-1] if self.active else 0)
        for register, value in zip(STACKED[:6], values):
            uc.reg_write(register, value)
        uc.reg_write(arm.UC_ARM_REG_APSR_NZCVQ, values[7] & 0xF8000000)
        uc.reg_write(arm.UC_ARM_REG_SP, sp + 32 + (values[7] >> 7 & 4))
        self.pc = values[6] | 1
        uc.reg_write(arm.UC_ARM_REG_PC, self.pc)

    def interrupted(self, uc, what, _):
        if what == EXCEPTION_RETURN:
            self.leave()
            following = self.due()
            if following:
                self.enter(following)
        elif what == BREAKPOINT:
            at = uc.reg_read(arm.UC_ARM_REG_PC)
            self.chip.rom_call(uc.mem_read(at, 1)[0])
            uc.reg_write(arm.UC_ARM_REG_PC, at + 2 | 1)
        else:
            self.fault = True
            uc.emu_stop()

    # Time.

    def look_at_clock(self):
        """Hurries a loop that does nothing but wait by the clock."""
        self.looks += 1
        if self.looks > LOOKS:
            self.now += SLICE

    def step(self):
        """Runs a slice and returns whether the core is asleep after it."""
        self.pc |= 1
        self.looks = 0
        try:
            self.uc.emu_start(self.pc, 0, count=SLICE)
        except UcError:
            # Unicorn takes the hint that a loop only waits for an invalid instruction.
            if self.before_pc() != YIELD:
                self.fault = True
            else:
                self.now = max(self.now + PART, self.next_event())
        self.pc = self.uc.reg_read(arm.UC_ARM_REG_PC)
        if self.fault or self.before_pc() == YIELD:
            return False
        # An exception must not come within a block of IT, whose state is not stacked here.
        while self.uc.reg_read(arm.UC_ARM_REG_XPSR) & 0x0600FC00:
            self.uc.emu_start(self.pc | 1, 0, count=1)
            self.pc = self.uc.reg_read(arm.UC_ARM_REG_PC)
        asleep = self.before_pc() == WFI
        self.now += PART if asleep else SLICE
        return asleep

    def before_pc(self):
        """Returns the instruction of two bytes that the core executed last, if it did not jump."""
        try:
            return self.uc.mem_read((self.uc.reg_read(arm.UC_ARM_REG_PC) & ~1) - 2, 2)
        except UcError:
            return None

    def sleep(self):
        """Lets time pass until an interrupt; without anything typed no faster than a person types."""
        while not self.waiting() and not self.starting_over:
            if self.typed:
                self.now = max(self.now, min(self.next_byte_at, self.next_event()))
            elif not select.select([0], [], [], 0.005)[0]:
                self.now = self.next_event()
            self.receive()
            self.update()

    def next_event(self):
        events = [self.next_tick, self.chip.next_event()]
        return max(self.now, min((event for event in events if event is not None), default=self.now))

    def receive(self):
        """Takes what has been typed, and feeds the UART as fast as its line."""
        if select.select([0], [], [], 0)[0]:
            typed = os.read(0, 4096)
            if not typed:
                sys.exit()
            self.typed += typed
        if self.typed and self.now >= self.next_byte_at:
            self.chip.receive(self.typed.pop(0))
            self.next_byte_at = self.now + self.make_chip.HZ // BAUD_BYTES

    def emit(self):
        if self.sent:
            os.write(1, self.sent)
            self.sent.clear()
        if not self.frames:
            return
        at, size, write, read = struct.unpack("<4I", self.uc.mem_read(self.rtt + 28, 16))
        if size and read != write:
            ring = bytes(self.uc.mem_read(at, size))
            part = ring[read:write] if read < write else ring[read:] + ring[:write]
            self.frames.write(part)
            self.frames.flush()
            self.uc.mem_write(self.rtt + 40, struct.pack("<I", write))

    def run(self):
        while True:
            self.receive()
            self.update()
            if self.starting_over:
                self.start_over()
            number = self.due()
            if number:
                self.enter(number)
            asleep = self.step()
            self.emit()
            if asleep:
                self.sleep()


def main():
    parser = argparse.ArgumentParser(description="Runs a Cortex-M board's ELF in Unicorn.")
    parser.add_argument("board", choices=CHIPS)
    parser.add_argument("elf")
    parser.add_argument("--defmt")
    parser.add_argument("--model")
    parser.add_argument("--model-at")
    parser.add_argument("--noise", type=int)
    parser.add_argument("--streams", action="store_true")
    options = parser.parse_args()
    if bool(options.model) != bool(options.model_at):
        parser.error("--model and --model-at go together")
    chip = importlib.import_module(CHIPS[options.board]).Chip
    Machine(chip, Elf(options.elf), options).run()


if __name__ == "__main__":
    main()
