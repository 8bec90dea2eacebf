"""STM32F411CE around the core of cortexm.py: clocks, USART1, TIM2, watchdog, flash, ADC (RM0383)."""

import random

from unicorn import UC_HOOK_MEM_WRITE
from unicorn.arm_const import UC_CPU_ARM_CORTEX_M4

RCC_CR, RCC_CFGR, RCC_CSR = 0x40023800, 0x40023808, 0x40023874
PWR_CSR = 0x40007004
USART_SR, USART_DR, USART_CR1 = 0x40011000, 0x40011004, 0x4001100C
TIM_DIER, TIM_SR, TIM_EGR, TIM_CNT = 0x4000000C, 0x40000010, 0x40000014, 0x40000024
TIM_PSC, TIM_ARR, TIM_CCR1 = 0x40000028, 0x4000002C, 0x40000034
IWDG_KR, IWDG_PR, IWDG_RLR = 0x40003000, 0x40003004, 0x40003008
FLASH_KEYR, FLASH_SR, FLASH_CR = 0x40023C04, 0x40023C0C, 0x40023C10
ADC_SR, ADC_DR = 0x40012000, 0x4001204C
TIM2, USART1 = 28, 37
RXNE, TC, TXE, ORE = 1 << 5, 1 << 6, 1 << 7, 1 << 3
PROGRAM, ERASE, START, LOCK = 1 << 0, 1 << 1, 1 << 16, 1 << 31
PROGRAM_ERRORS = 0xF0
WATCHDOG_HZ = 32_000
BAUD_BYTES = 11_520
FLASH_START = 0x08000000
SECTORS = [16 << 10] * 4 + [64 << 10] + [128 << 10] * 3


class Chip:
    """What the firmware of the Black Pill uses of the chip."""

    CORE = UC_CPU_ARM_CORTEX_M4
    HZ = 96_000_000
    FLASH = [(FLASH_START, 512 << 10)]
    # The second one holds registers for a debug probe.
    RAM = [(0x20000000, 128 << 10), (0xE0042000, 0x1000)]
    VECTORS = FLASH_START

    def __init__(self, machine):
        self.machine = machine
        self.regs = {FLASH_CR: LOCK}
        self.received, self.flags = 0, TXE | TC
        # The byte that is being sent has left by then.
        self.sent_at = None
        self.timer_start, self.timer_seen = 0, 0
        self.bite_at = None
        self.keys = []
        self.writes = []
        self.noise = None if machine.noise is None else random.Random(machine.noise)
        # No further than the fast peripherals: what nothing answers is a fault.
        machine.uc.mmio_map(0x40000000, 0x00080000, self.read, None, self.write, None)
        end = FLASH_START + (512 << 10) - 1
        machine.uc.hook_add(UC_HOOK_MEM_WRITE, self.write_flash, None, FLASH_START, end)

    def reg(self, address):
        return self.regs.get(address, 0)

    def read(self, _uc, offset, size, _):
        word = 0x40000000 + (offset & ~3)
        value = self.reg(word)
        if word == RCC_CR:
            # Oscillators and PLLs are ready at once.
            on = 1 << 0 | 1 << 16 | 1 << 24 | 1 << 26
            value |= (value & on) << 1
        elif word == RCC_CFGR:
            value = value & ~0xC | (value & 3) << 2
        elif word == RCC_CSR:
            value |= (value & 1) << 1
        elif word == PWR_CSR:
            value |= 1 << 14
        elif word == USART_SR:
            value = self.flags
        elif word == USART_DR:
            value = self.received
            self.flags &= ~(RXNE | ORE)
        elif word == TIM_CNT:
            self.machine.look_at_clock()
            value = self.count() & self.top()
        elif word == FLASH_SR:
            self.settle_flash()
            value = self.reg(FLASH_SR)
        elif word == ADC_SR:
            value |= 1 << 1
        elif word == ADC_DR:
            value = 950 + (self.noise.getrandbits(2) if self.noise else 0)
        return value >> (8 * (offset & 3)) & ((1 << (8 * size)) - 1)

    def write(self, _uc, offset, size, value, _):
        word, shift = 0x40000000 + (offset & ~3), 8 * (offset & 3)
        mask = ((1 << (8 * size)) - 1) << shift
        value = self.reg(word) & ~mask | value << shift
        if word == USART_DR:
            self.machine.sent.append(value & 0xFF)
            self.flags &= ~(TXE | TC)
            self.sent_at = self.machine.now + self.HZ // BAUD_BYTES
        elif word == USART_SR:
            self.flags &= value | ~(TC | RXNE)
        elif word == TIM_CNT:
            self.timer_start = self.machine.now - value * (self.reg(TIM_PSC) + 1)
            self.timer_seen = self.count()
        elif word == TIM_EGR:
            self.timer_start = self.machine.now
            self.timer_seen = 0
            self.regs[TIM_SR] = self.reg(TIM_SR) | value & 1
        elif word == TIM_SR:
            self.regs[TIM_SR] = self.reg(TIM_SR) & value
        elif word == IWDG_KR:
            self.watchdog(value)
        elif word == FLASH_KEYR:
            self.keys = (self.keys + [value])[-2:]
            if self.keys == [0x45670123, 0xCDEF89AB]:
                self.regs[FLASH_CR] = self.reg(FLASH_CR) & ~LOCK
        elif word == FLASH_SR:
            self.regs[FLASH_SR] = self.reg(FLASH_SR) & ~value
        elif word == FLASH_CR:
            self.settle_flash()
            if value & LOCK or not self.reg(FLASH_CR) & LOCK:
                self.regs[FLASH_CR] = value & ~START
                if value & ERASE and value & START:
                    self.erase(value >> 3 & 0xF)
        else:
            self.regs[word] = value

    # Flash: what the core stored lies there already, and is put right before anybody can look.

    def write_flash(self, uc, _access, address, size, _value, _):
        self.writes.append((address, bytes(uc.mem_read(address, size))))

    def settle_flash(self):
        for address, old in self.writes:
            new = self.machine.uc.mem_read(address, len(old))
            allowed = self.reg(FLASH_CR) & PROGRAM and not self.reg(FLASH_CR) & LOCK
            # Programming clears bits; it sets none.
            kept = bytes(a & b for a, b in zip(old, new)) if allowed else old
            self.machine.uc.mem_write(address, kept)
            if not allowed:
                self.regs[FLASH_SR] = self.reg(FLASH_SR) | PROGRAM_ERRORS
        self.writes.clear()

    def erase(self, sector):
        start = FLASH_START + sum(SECTORS[:sector])
        self.machine.uc.mem_write(start, b"\xff" * SECTORS[sector])

    # TIM2, which counts the core's clock: the bus of 48 MHz doubles it.

    def top(self):
        return self.reg(TIM_ARR) or 0xFFFFFFFF

    def count(self):
        return (self.machine.now - self.timer_start) // (self.reg(TIM_PSC) + 1)

    def crossings(self):
        """Returns the flags of TIM_SR with the counts at which they are set next."""
        period = self.top() + 1
        compares = [(0, 0)] + [(n + 1, self.reg(TIM_CCR1 + 4 * n)) for n in range(4)]
        for bit, count in compares:
            ahead = (count - self.timer_seen - 1) % period + 1
            yield bit, self.timer_seen + ahead

    def update(self):
        self.settle_flash()
        if self.sent_at is not None and self.machine.now >= self.sent_at:
            self.flags |= TXE | TC
            self.sent_at = None
        now = self.count()
        for bit, count in list(self.crossings()):
            if count <= now:
                self.regs[TIM_SR] = self.reg(TIM_SR) | 1 << bit
        self.timer_seen = now
        if self.bite_at is not None and self.machine.now >= self.bite_at:
            self.machine.starting_over = True

    def next_event(self):
        counts = [count for bit, count in self.crossings() if self.reg(TIM_DIER) >> bit & 1]
        times = [self.timer_start + count * (self.reg(TIM_PSC) + 1) for count in counts]
        times += [at for at in (self.bite_at, self.sent_at) if at is not None]
        return min(times, default=None)

    # The watchdog.

    def watchdog(self, key):
        if key == 0xCCCC or key == 0xAAAA and self.bite_at is not None:
            divider = 4 << (self.reg(IWDG_PR) & 7)
            ticks = ((self.regs.get(IWDG_RLR, 0xFFF) & 0xFFF) + 1) * divider
            self.bite_at = self.machine.now + ticks * self.HZ // WATCHDOG_HZ

    # The serial line.

    def receive(self, byte):
        if self.flags & RXNE:
            self.flags |= ORE
        else:
            self.received = byte
            self.flags |= RXNE

    def lines(self):
        lines = set()
        enabled = self.reg(USART_CR1)
        if self.flags & (RXNE | TC | TXE) & enabled or self.flags & ORE and enabled & RXNE:
            lines.add(USART1)
        if self.reg(TIM_SR) & self.reg(TIM_DIER):
            lines.add(TIM2)
        return lines

    def rom_call(self, _code):
        """The chip has no ROM that firmware calls: a breakpoint is a fault."""
        self.machine.fault = True
        self.machine.uc.emu_stop()
