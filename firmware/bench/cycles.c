/* Counts the cycles that a core would take, as a plugin of QEMU (API version 1, QEMU 6 or later).

   gcc -O2 -shared -fPIC -o cycles.so cycles.c
   qemu-system-arm ... -plugin ./cycles.so,core=m0plus,part=NAME:START:END -d plugin -D FILE

   core    m0plus, m3, m4f or rv32 (Hazard3, as in RP2350)
   part    a function by its addresses in hexadecimal; may be given 64 times

   The costs are those of Arm's technical reference manuals (M0+: DDI 0484, M3: DDI 0337, M4: DDI 0439)
   and of Hazard3's table of instruction timings: memory without wait states, branches that are
   taken, loads in a row, loads used at once, and Hazard3's one-entry branch predictor. Registers of the
   floating-point unit cost what it takes to move them; interrupts and floating-point arithmetic have no
   costs.

   Between two marks (Arm yield and sev, RISC-V slti x0, x0, 1 and 2) everything is counted; each pair
   prints a line

       region INDEX instructions N cycles N [NAME N]...

   where the numbers behind the names are cycles spent in that part itself. QEMU installs no header for
   plugins with its packages, so the functions used are declared here. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef uint64_t plugin_id;
struct block;
struct instruction;
extern size_t qemu_plugin_tb_n_insns(const struct block *);
extern struct instruction *qemu_plugin_tb_get_insn(const struct block *, size_t);
extern const void *qemu_plugin_insn_data(const struct instruction *);
extern size_t qemu_plugin_insn_size(const struct instruction *);
extern uint64_t qemu_plugin_insn_vaddr(const struct instruction *);
extern void qemu_plugin_register_vcpu_tb_trans_cb(plugin_id, void (*)(plugin_id, struct block *));
extern void qemu_plugin_register_vcpu_insn_exec_cb(struct instruction *, void (*)(unsigned, void *), int, void *);
extern void qemu_plugin_outs(const char *);
__attribute__((visibility("default"))) int qemu_plugin_version = 1;

enum { M0PLUS, M3, M4F, RV32 };
static int core;

enum { LOAD = 1, STORE = 2 };                             /* memory */
enum { CONDITIONAL = 1, JUMP = 2, CALL = 3 };             /* branch */
enum { MARK_START = 1, MARK_END = 2 };                    /* mark */
typedef struct {
    uint32_t pc;
    uint8_t size, base, memory, branch, mark;
    uint8_t rd, rs1, rs2;                                 /* RISC-V */
    int8_t part;
} decoded;

enum { MAX_PARTS = 64 };
static struct { char name[40]; uint32_t start, end; uint64_t cycles; } parts[MAX_PARTS];
static int n_parts;

static uint64_t cycles, instructions, cycles_start, instructions_start;
static decoded before;
static int any_before, region, in_region;
static uint32_t predicted;

static int bits(uint32_t x) { return __builtin_popcount(x); }

static void decode_thumb16(decoded *d, uint16_t h) {
    if (h == 0xbf10) { d->mark = MARK_START; d->base = 0; return; }
    if (h == 0xbf40) { d->mark = MARK_END; d->base = 0; return; }
    int literal = (h & 0xf800) == 0x4800, by_register = (h & 0xf000) == 0x5000;
    if (literal || by_register || (h & 0xe000) == 0x6000 || (h & 0xf000) == 0x8000 || (h & 0xf000) == 0x9000) {
        int store = literal ? 0 : by_register ? ((h >> 9) & 7) < 3 : !(h & 0x0800);
        d->memory = store ? STORE : LOAD;
        d->base = core == M0PLUS || !store ? 2 : 1;
        return;
    }
    if ((h & 0xf000) == 0xc000) { d->base = 1 + bits(h & 0xff); return; }               /* ldm, stm */
    if ((h & 0xfe00) == 0xb400) { d->base = 1 + bits(h & 0x1ff); return; }              /* push */
    if ((h & 0xfe00) == 0xbc00) {                                                       /* pop */
        int n = bits(h & 0xff);
        d->base = 1 + n + (h & 0x100 ? (core == M0PLUS ? 2 : 3) : 0);
        return;
    }
    if ((h & 0xf000) == 0xd000 && ((h >> 8) & 15) < 14) { d->branch = CONDITIONAL; return; }
    if ((h & 0xf800) == 0xe000) { d->branch = CONDITIONAL; return; }                    /* b */
    if ((h & 0xff00) == 0x4700) { d->branch = JUMP; return; }                           /* bx, blx */
    if ((h & 0xf500) == 0xb100) { d->branch = CONDITIONAL; return; }                    /* cbz, cbnz */
}

static void decode_thumb32(decoded *d, uint16_t h, uint16_t g) {
    if ((h & 0xf800) == 0xf000 && (g & 0xd000) == 0xd000) { d->branch = CALL; return; }
    if ((h & 0xf800) == 0xf000 && (g & 0x8000)) { d->branch = CONDITIONAL; return; }
    if ((h & 0xfe40) == 0xe800) { d->base = 1 + bits(g); return; }                      /* ldm, stm */
    if ((h & 0xfe40) == 0xe840) { d->base = 3; return; }                                /* ldrd, strd */
    if ((h & 0xfe00) == 0xf800) {
        int load = h & 0x10;
        d->memory = load ? LOAD : STORE;
        d->base = core == M0PLUS || load ? 2 : 1;
        return;
    }
    if ((h & 0xfe00) == 0xec00 && (g & 0x0e00) == 0x0a00) {                             /* registers of the FPU */
        if ((h & 0xffe0) == 0xec40) d->base = 2;                                        /* two at once */
        else if ((h & 0x0120) == 0x0100) d->base = 2;                                   /* vldr, vstr */
        else d->base = 1 + (g & 0xff);                                                  /* vldm, vstm */
        return;
    }
    int op = (h >> 4) & 7;
    if ((h & 0xff80) == 0xfb80) { d->base = op == 1 || op == 3 ? 6 : core == M3 ? 4 : 1; return; } /* div, long mul */
    if ((h & 0xff80) == 0xfb00 && core == M3 && op == 0 && (g >> 12) != 15) d->base = 2; /* mla */
}

static void decode_riscv(decoded *d, uint32_t w) {
    if (d->size == 4) {
        int op = w & 0x7f, rd = (w >> 7) & 31, rs1 = (w >> 15) & 31, rs2 = (w >> 20) & 31, f3 = (w >> 12) & 7;
        if (op == 0x13 && f3 == 2 && rd == 0 && rs1 == 0 && (w >> 20) - 1 < 2) {
            d->mark = w >> 20;
            d->base = 0;
        } else if (op == 0x03) { d->memory = LOAD; d->rd = rd; d->rs1 = rs1; }
        else if (op == 0x23) { d->rs1 = rs1; }
        else if (op == 0x63) { d->branch = CONDITIONAL; d->rs1 = rs1; d->rs2 = rs2; }
        else if (op == 0x6f) { d->branch = JUMP; }
        else if (op == 0x67) { d->branch = JUMP; d->rs1 = rs1; }
        else if (op == 0x13) { d->rd = rd; d->rs1 = rs1; }
        else if (op == 0x33) {
            d->rd = rd; d->rs1 = rs1; d->rs2 = rs2;
            if (w >> 25 == 1 && f3 >= 4) d->base = 18;                                  /* div, rem */
        }
        return;
    }
    int quadrant = w & 3, f3 = (w >> 13) & 7, rd = (w >> 7) & 31, rs2 = (w >> 2) & 31;
    int rd_short = 8 + ((w >> 2) & 7), rs1_short = 8 + ((w >> 7) & 7);
    if (quadrant == 0) {
        if (f3 == 2) { d->memory = LOAD; d->rd = rd_short; d->rs1 = rs1_short; }
        else if (f3 == 6) { d->rs1 = rs1_short; }
        else { d->rd = rd_short; d->rs1 = 2; }
    } else if (quadrant == 1) {
        if (f3 == 1 || f3 == 5) { d->branch = JUMP; }
        else if (f3 >= 6) { d->branch = CONDITIONAL; d->rs1 = rs1_short; }
        else if (f3 == 4) { d->rd = rs1_short; d->rs1 = rs1_short; if (((w >> 10) & 3) == 3) d->rs2 = rd_short; }
        else { d->rd = rd; d->rs1 = f3 == 0 || f3 == 3 ? rd : 0; }
    } else {
        if (f3 == 2) { d->memory = LOAD; d->rd = rd; d->rs1 = 2; }
        else if (f3 == 6) { d->rs1 = 2; }
        else if (f3 == 4 && rs2 == 0) { d->branch = JUMP; d->rs1 = rd; }
        else if (f3 == 4) { d->rd = rd; d->rs2 = rs2; d->rs1 = w & 0x1000 ? rd : 0; }
        else { d->rd = rd; d->rs1 = rd; }
    }
}

/* What an instruction costs because of the one before it. */
static int stall(const decoded *d) {
    int taken = d->pc != before.pc + before.size, extra = 0;
    /* A long instruction across two words needs a second fetch after a jump. */
    int split = taken && (d->pc & 2) && d->size == 4;
    if (core == RV32) {
        if (before.branch == CONDITIONAL) {
            int backward = taken && d->pc < before.pc, guessed = predicted == before.pc;
            extra += taken != guessed;
            extra += taken && !guessed && split;
            if (!taken && guessed) predicted = 0;
            if (backward) predicted = before.pc;
        } else if (before.branch) {
            extra += 1 + split;
        }
        extra += before.memory == LOAD && before.rd && (d->rs1 == before.rd || d->rs2 == before.rd);
        return extra;
    }
    if (taken && before.branch == CONDITIONAL) extra += 1;
    if (taken && before.branch == JUMP) extra += core == M0PLUS ? 1 : 2;
    if (taken && before.branch == CALL) extra += core == M0PLUS ? 2 : 1;
    if (core != M0PLUS) {
        extra += split;
        /* A load behind a load or store is pipelined. */
        if (before.memory && d->memory && d->base == 2) extra -= 1;
    }
    return extra;
}

static void report(void) {
    char line[8192];
    int at = snprintf(line, sizeof line, "region %d instructions %llu cycles %llu", region++,
                      (unsigned long long)(instructions - instructions_start),
                      (unsigned long long)(cycles - cycles_start));
    for (int p = 0; p < n_parts; p++)
        at += snprintf(line + at, sizeof line - at, " %s %llu", parts[p].name, (unsigned long long)parts[p].cycles);
    snprintf(line + at, sizeof line - at, "\n");
    qemu_plugin_outs(line);
}

static void on_execute(unsigned cpu, void *data) {
    (void)cpu;
    const decoded *d = data;
    int cost = d->base + (any_before ? stall(d) : 0);
    cycles += cost;
    instructions += !d->mark;
    if (in_region && d->part >= 0) parts[d->part].cycles += cost;
    before = *d;
    any_before = 1;
    if (d->mark == MARK_START) {
        cycles_start = cycles;
        instructions_start = instructions;
        for (int p = 0; p < n_parts; p++) parts[p].cycles = 0;
        in_region = 1;
    }
    if (d->mark == MARK_END) {
        in_region = 0;
        report();
    }
}

static void on_translate(plugin_id id, struct block *block) {
    (void)id;
    for (size_t k = 0; k < qemu_plugin_tb_n_insns(block); k++) {
        struct instruction *i = qemu_plugin_tb_get_insn(block, k);
        const uint8_t *b = qemu_plugin_insn_data(i);
        /* QEMU may run it until it ends, so it is never freed. */
        decoded *d = calloc(1, sizeof *d);
        d->pc = qemu_plugin_insn_vaddr(i);
        d->size = qemu_plugin_insn_size(i);
        d->base = 1;
        d->part = -1;
        for (int p = 0; p < n_parts; p++)
            if (d->pc >= parts[p].start && d->pc < parts[p].end) d->part = p;
        uint16_t first = b[0] | b[1] << 8, second = d->size == 4 ? b[2] | b[3] << 8 : 0;
        if (core == RV32) decode_riscv(d, first | (uint32_t)second << 16);
        else if (d->size == 2) decode_thumb16(d, first);
        else decode_thumb32(d, first, second);
        qemu_plugin_register_vcpu_insn_exec_cb(i, on_execute, 0, d);
    }
}

__attribute__((visibility("default"))) int qemu_plugin_install(plugin_id id, const void *info, int argc, char **argv) {
    static const char *const names[] = {"m0plus", "m3", "m4f", "rv32"};
    (void)info;
    for (int i = 0; i < argc; i++) {
        if (!strncmp(argv[i], "core=", 5)) {
            core = -1;
            for (int c = 0; c < 4; c++)
                if (!strcmp(argv[i] + 5, names[c])) core = c;
        } else if (n_parts < MAX_PARTS &&
                   sscanf(argv[i], "part=%39[^:]:%x:%x", parts[n_parts].name, &parts[n_parts].start,
                          &parts[n_parts].end) == 3) {
            n_parts++;
        } else {
            fprintf(stderr, "cycles: %s is no argument of this plugin\n", argv[i]);
            return 1;
        }
    }
    if (core < 0) {
        fprintf(stderr, "cycles: the core is one of m0plus, m3, m4f and rv32\n");
        return 1;
    }
    qemu_plugin_register_vcpu_tb_trans_cb(id, on_translate);
    return 0;
}
