@ r0 vector, r1 its end, r2 2^32 times the factor; returns the largest magnitude.
chapbook_function chapbook_m4_scale
push {r4-r7, lr}
mov r12, #0
.balign 4
1:
ldm r0, {r4-r7}
.irp x, r4, r5, r6, r7
smmulr \x, \x, r2
eor r3, \x, \x, asr #31
cmp r3, r12
it hi
movhi r12, r3
.endr
stm r0!, {r4-r7}
cmp r0, r1
bne 1b
mov r0, r12
pop {r4-r7, pc}
.size chapbook_m4_scale, . - chapbook_m4_scale
@ r0 vector, r1 its end; returns the bits of all magnitudes.
chapbook_function chapbook_m4_norm_bits
push {r4, lr}
mov lr, #0
.balign 4
1:
ldm r0!, {r2-r4, r12}
.irp x, r2, r3, r4, r12
eor \x, \x, \x, asr #31
orr lr, lr, \x
.endr
cmp r0, r1
bne 1b
mov r0, lr
pop {r4, pc}
.size chapbook_m4_norm_bits, . - chapbook_m4_norm_bits
@ r0 vector, r1 its end, r2 shift, r3 place of the sum; returns the sum of the squares.
chapbook_function chapbook_m4_norm_sums
push {r4-r8, lr}
mov r7, #0
mov r8, #0
mov lr, #0
.balign 4
1:
ldm r0!, {r4-r6, r12}
.irp x, r4, r5, r6, r12
asr \x, \x, r2
add lr, lr, \x
smlal r7, r8, \x, \x
.endr
cmp r0, r1
bne 1b
str lr, [r3]
mov r0, r7
mov r1, r8
pop {r4-r8, pc}
.size chapbook_m4_norm_sums, . - chapbook_m4_norm_sums
@ r0 vector, r1 gains, r2 end of the vector, r3 products, on the stack the shift and the mean;
@ returns the largest magnitude. What is multiplied fits 16 bits.
chapbook_function chapbook_m4_norm_products
push {r4-r11, lr}
ldrd r10, r11, [sp, #36]
mov r12, #0
.macro chapbook_norm x, n, half, gains
asr \x, \x, r10
sub \x, \x, r11
smulb\half \x, \x, \gains
eor lr, \x, \x, asr #31
chapbook_max lr, \n, hi
.endm
.balign 4
1:
ldm r0!, {r4-r7}
ldm r1!, {r8, r9}
chapbook_norm r4, 1, b, r8
chapbook_norm r5, 2, t, r8
chapbook_norm r6, 3, b, r9
chapbook_norm r7, 4, t, r9
stm r3!, {r4-r7}
cmp r0, r2
bne 1b
mov r0, r12
pop {r4-r11, pc}
chapbook_note lr, 1
chapbook_note lr, 2
chapbook_note lr, 3
chapbook_note lr, 4
.size chapbook_m4_norm_products, . - chapbook_m4_norm_products
.purgem chapbook_norm
