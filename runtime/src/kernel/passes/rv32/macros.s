# The target's extensions do not reach here.
.option push
.option arch, +m
.macro chapbook_function name
.section .text.\name, "ax"
.balign 4
.global \name
.type \name, %function
\name:
.endm
# An odd number of words from a0 to a2 starts with the second of a pair; the others are the registers that
# go back by half a word, and by a word.
.macro chapbook_odd half:req, word
sub t0, a2, a0
andi t0, t0, 4
beqz t0, 1f
addi a0, a0, -4
addi \half, \half, -2
.ifnb \word
addi \word, \word, -2
.endif
j 2f
.endm
# The magnitude of x.
.macro chapbook_magnitude to, x
srai \to, \x, 31
xor \to, \to, \x
.endm
