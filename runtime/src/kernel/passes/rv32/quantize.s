# a0 sums, a1 multipliers, a2 end of the sums, a3 cut; returns the largest magnitude.
chapbook_function chapbook_rv32_products
li a4, 1
sll a4, a4, a3
srli a4, a4, 1
li a5, 0
beq a0, a2, 3f
chapbook_odd a1
.macro chapbook_product at, half, n
lw t0, (\at)(a0)
lhu t1, (\half)(a1)
add t0, t0, a4
sra t0, t0, a3
mul t0, t0, t1
sw t0, (\at)(a0)
chapbook_magnitude t1, t0
bltu a5, t1, 7\n\()f
8\n\():
.endm
.macro chapbook_note n
7\n\():
mv a5, t1
j 8\n\()b
.endm
1:
chapbook_product 0, 0, 1
2:
chapbook_product 4, 2, 2
addi a0, a0, 8
addi a1, a1, 4
bne a0, a2, 1b
3:
mv a0, a5
ret
chapbook_note 1
chapbook_note 2
.size chapbook_rv32_products, . - chapbook_rv32_products
.purgem chapbook_product
.purgem chapbook_note
# a0 vector, a1 where it goes, a2 end of the vector, a3 shift, a4 factor, a5 the last shift, which rounds
# to the nearest. One element at a time until a multiple of four is left.
chapbook_function chapbook_rv32_narrow
li a6, 1
sll a6, a6, a5
srli a6, a6, 1
.macro chapbook_narrow x, at
sra \x, \x, a3
mul \x, \x, a4
add \x, \x, a6
sra \x, \x, a5
sh \x, (\at)(a1)
.endm
j 2f
1:
lw t0, 0(a0)
addi a0, a0, 4
chapbook_narrow t0, 0
addi a1, a1, 2
2:
sub t0, a2, a0
andi t0, t0, 12
bnez t0, 1b
beq a0, a2, 4f
3:
lw t0, 0(a0)
lw t1, 4(a0)
lw t2, 8(a0)
lw t3, 12(a0)
chapbook_narrow t0, 0
chapbook_narrow t1, 2
chapbook_narrow t2, 4
chapbook_narrow t3, 6
addi a0, a0, 16
addi a1, a1, 8
bne a0, a2, 3b
4:
ret
.size chapbook_rv32_narrow, . - chapbook_rv32_narrow
.purgem chapbook_narrow
