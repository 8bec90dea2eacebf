# The sum at a0 times its multiplier at a1, before the last shift, in t0: a3 2^16 times the factor, a4
# cut, a5 half of what is cut.
.macro chapbook_rescale at, half
lw t0, (\at)(a0)
lhu t1, (\half)(a1)
add t0, t0, a5
sra t0, t0, a4
mulhu t1, t1, a3
mul t0, t0, t1
.endm
# a2 end of the sums, a6 last shift, a7 the bits that a negative result loses; returns the largest
# magnitude.
chapbook_function chapbook_rv32_rescale
li t6, 0
1:
chapbook_rescale 0, 0
sra t0, t0, a6
srai t1, t0, 31
and t1, t1, a7
xori t1, t1, -1
and t0, t0, t1
sw t0, 0(a0)
chapbook_magnitude t1, t0
bltu t6, t1, 2f
3:
addi a0, a0, 4
addi a1, a1, 2
bne a0, a2, 1b
mv a0, t6
ret
2:
mv t6, t1
j 3b
.size chapbook_rv32_rescale, . - chapbook_rv32_rescale
# The same with GELU of the results, whose table is at a7 and ends at 4.5; returns the largest result or 0.
chapbook_function chapbook_rv32_gelu
li t6, 0
li t5, 145 << 11
chapbook_odd a1
.macro chapbook_gelu at, half, n
chapbook_rescale \at, \half
sra t0, t0, a6
srai t1, t0, 31
xor t2, t0, t1
xori t1, t1, -1
and t0, t0, t1
bgeu t2, t5, 5\n\()f
srli t3, t2, 11
slli t3, t3, 2
add t3, t3, a7
lh t4, 0(t3)
lw t3, 0(t3)
andi t2, t2, 0x7ff
mul t2, t2, t4
add t3, t3, t2
srai t3, t3, 16
sub t0, t0, t3
5\n\():
sw t0, (\at)(a0)
blt t6, t0, 7\n\()f
8\n\():
.endm
.macro chapbook_note n
7\n\():
mv t6, t0
j 8\n\()b
.endm
1:
chapbook_gelu 0, 0, 1
2:
chapbook_gelu 4, 2, 2
addi a0, a0, 8
addi a1, a1, 4
bne a0, a2, 1b
mv a0, t6
ret
chapbook_note 1
chapbook_note 2
.size chapbook_rv32_gelu, . - chapbook_rv32_gelu
.purgem chapbook_note
.purgem chapbook_gelu
.purgem chapbook_rescale
