# a0 scores, a1 scales of the keys, a2 end of the scores, a3 scales of the values; returns the largest
# score and, in a1, the smallest scale of a value.
chapbook_function chapbook_rv32_scale_scores
li a4, 0x80000000
li a5, 0x10000
chapbook_odd a1, a3
.macro chapbook_score at, half, n
lw t0, (\at)(a0)
lhu t1, (\half)(a1)
lhu t2, (\half)(a3)
andi t3, t1, 255
mul t0, t0, t3
srli t1, t1, 11
sra t0, t0, t1
sw t0, (\at)(a0)
blt a4, t0, 7\n\()f
8\n\():
bltu t2, a5, 5\n\()f
6\n\():
.endm
.macro chapbook_note n
7\n\():
mv a4, t0
j 8\n\()b
5\n\():
mv a5, t2
j 6\n\()b
.endm
1:
chapbook_score 0, 0, 1
2:
chapbook_score 4, 2, 2
addi a0, a0, 8
addi a1, a1, 4
addi a3, a3, 4
bne a0, a2, 1b
mv a0, a4
mv a1, a5
ret
chapbook_note 1
chapbook_note 2
.size chapbook_rv32_scale_scores, . - chapbook_rv32_scale_scores
.purgem chapbook_score
.purgem chapbook_note
# a0 scores, a1 scales of the values, a2 end of the scores, a3 weights, a4 largest score, a5 `Octaves`, a6
# shift, a7 table; returns the sum.
chapbook_function chapbook_rv32_weigh
lw t4, 0(a5)
lw t5, 4(a5)
lw t6, 8(a5)
li a5, 0
chapbook_odd a1, a3
.macro chapbook_weight at, half, n
lw t0, (\at)(a0)
lhu t2, (\half)(a1)
sub t0, a4, t0
srl t0, t0, t4
bltu t5, t0, 7\n\()f
mul t0, t0, t6
srli t1, t0, 19
andi t1, t1, 0x1fe
add t1, t1, a7
lhu t1, 0(t1)
srli t0, t0, 28
andi t3, t2, 255
srl t1, t1, t0
add a5, a5, t1
mul t1, t1, t3
srli t2, t2, 11
add t2, t2, a6
srl t1, t1, t2
8\n\():
sh t1, (\half)(a3)
.endm
.macro chapbook_zero n
7\n\():
li t1, 0
j 8\n\()b
.endm
1:
chapbook_weight 0, 0, 1
2:
chapbook_weight 4, 2, 2
addi a0, a0, 8
addi a1, a1, 4
addi a3, a3, 4
bne a0, a2, 1b
mv a0, a5
ret
chapbook_zero 1
chapbook_zero 2
.size chapbook_rv32_weigh, . - chapbook_rv32_weigh
.purgem chapbook_weight
.purgem chapbook_zero
