# a0 vector, a1 its end; returns the bits of all magnitudes. Here and below: one element at a time until
# a multiple of four is left.
chapbook_function chapbook_rv32_norm_bits
mv a2, a0
li a0, 0
.macro chapbook_bits x
chapbook_magnitude t4, \x
or a0, a0, t4
.endm
j 2f
1:
lw t0, 0(a2)
addi a2, a2, 4
chapbook_bits t0
2:
sub t0, a1, a2
andi t0, t0, 12
bnez t0, 1b
beq a2, a1, 4f
3:
lw t0, 0(a2)
lw t1, 4(a2)
lw t2, 8(a2)
lw t3, 12(a2)
chapbook_bits t0
chapbook_bits t1
chapbook_bits t2
chapbook_bits t3
addi a2, a2, 16
bne a2, a1, 3b
4:
ret
.size chapbook_rv32_norm_bits, . - chapbook_rv32_norm_bits
.purgem chapbook_bits
# a0 vector, a1 its end, a2 shift, a3 place of the sum; returns the sum of the squares, of which four fit
# a word.
chapbook_function chapbook_rv32_norm_sums
mv a4, a0
mv a5, a1
li a0, 0
li a1, 0
li a6, 0
.macro chapbook_square x
sra \x, \x, a2
add a6, a6, \x
mul \x, \x, \x
.endm
.macro chapbook_long
add a0, a0, t0
sltu t0, a0, t0
add a1, a1, t0
.endm
j 2f
1:
lw t0, 0(a4)
addi a4, a4, 4
chapbook_square t0
chapbook_long
2:
sub t0, a5, a4
andi t0, t0, 12
bnez t0, 1b
beq a4, a5, 4f
3:
lw t0, 0(a4)
lw t1, 4(a4)
lw t2, 8(a4)
lw t3, 12(a4)
chapbook_square t0
chapbook_square t1
chapbook_square t2
chapbook_square t3
add t0, t0, t1
add t2, t2, t3
add t0, t0, t2
chapbook_long
addi a4, a4, 16
bne a4, a5, 3b
4:
sw a6, 0(a3)
ret
.size chapbook_rv32_norm_sums, . - chapbook_rv32_norm_sums
.purgem chapbook_square
.purgem chapbook_long
# a0 vector, a1 gains, a2 end of the vector, a3 products, a4 shift, a5 mean; returns the largest magnitude.
# An odd number of elements starts with the second of a pair.
chapbook_function chapbook_rv32_norm_products
li a6, 0
beq a0, a2, 3f
sub t0, a2, a0
andi t0, t0, 4
beqz t0, 1f
addi a0, a0, -4
addi a1, a1, -2
addi a3, a3, -4
j 2f
.macro chapbook_norm at, half, n
lw t0, (\at)(a0)
lh t1, (\half)(a1)
sra t0, t0, a4
sub t0, t0, a5
mul t0, t0, t1
sw t0, (\at)(a3)
chapbook_magnitude t1, t0
bltu a6, t1, 7\n\()f
8\n\():
.endm
.macro chapbook_note n
7\n\():
mv a6, t1
j 8\n\()b
.endm
1:
chapbook_norm 0, 0, 1
2:
chapbook_norm 4, 2, 2
addi a0, a0, 8
addi a1, a1, 4
addi a3, a3, 8
bne a0, a2, 1b
3:
mv a0, a6
ret
chapbook_note 1
chapbook_note 2
.size chapbook_rv32_norm_products, . - chapbook_rv32_norm_products
.purgem chapbook_norm
.purgem chapbook_note
