@ r0 vector, r1 its end; returns the bits of all magnitudes. Here and below: one element at a time
@ until a multiple of four is left.
chapbook_function chapbook_m0_norm_bits
push {r4-r7, lr}
movs r7, #0
.macro chapbook_bits x
asrs r6, \x, #31
eors \x, r6
orrs r7, \x
.endm
b 2f
1:
ldm r0!, {r2}
chapbook_bits r2
2:
subs r2, r1, r0
lsls r2, r2, #28
bne 1b
cmp r0, r1
beq 4f
3:
ldm r0!, {r2-r5}
chapbook_bits r2
chapbook_bits r3
chapbook_bits r4
chapbook_bits r5
cmp r0, r1
bne 3b
4:
movs r0, r7
pop {r4-r7, pc}
.size chapbook_m0_norm_bits, . - chapbook_m0_norm_bits
.purgem chapbook_bits
@ r0 vector, r1 its end, r2 shift, r3 place of the sum; returns the sum of the squares, of which
@ four fit a word.
chapbook_function chapbook_m0_norm_sums
push {r3-r7, lr}
mov lr, r1
movs r1, #0
movs r3, #0
mov r12, r1
b 2f
.macro chapbook_square x
asrs \x, \x, r2
add r12, \x
muls \x, \x, \x
.endm
.macro chapbook_long
movs r5, #0
adds r1, r1, r4
adcs r3, r5
.endm
1:
ldm r0!, {r4}
chapbook_square r4
chapbook_long
2:
mov r4, lr
subs r4, r4, r0
lsls r4, r4, #28
bne 1b
cmp r0, lr
beq 4f
3:
ldm r0!, {r4-r7}
chapbook_square r4
chapbook_square r5
chapbook_square r6
chapbook_square r7
adds r4, r4, r5
adds r4, r4, r6
adds r4, r4, r7
chapbook_long
cmp r0, lr
bne 3b
4:
movs r0, r1
movs r1, r3
pop {r3}
mov r2, r12
str r2, [r3]
pop {r4-r7, pc}
.size chapbook_m0_norm_sums, . - chapbook_m0_norm_sums
.purgem chapbook_square
.purgem chapbook_long
@ r0 vector, r1 gains, r2 end of the vector, r3 products, on the stack the shift and the mean;
@ returns the largest magnitude.
chapbook_function chapbook_m0_norm_products
push {r4-r7, lr}
mov r4, r8
mov r5, r9
push {r4, r5}
mov lr, r2
ldr r4, [sp, #28]
mov r9, r4
ldr r4, [sp, #32]
rsbs r4, r4, #0
mov r8, r4
movs r4, #0
mov r12, r4
b 2f
.macro chapbook_norm x, half, n
add \x, r8
ldrh r2, [r1, #\half]
sxth r2, r2
muls \x, r2, \x
asrs r2, \x, #31
eors r2, \x
chapbook_max r2, r12, \n, hi
.endm
1:
ldm r0!, {r4}
mov r2, r9
asrs r4, r4, r2
chapbook_norm r4, 0, 0
stm r3!, {r4}
adds r1, r1, #2
2:
mov r4, lr
subs r4, r4, r0
lsls r4, r4, #28
bne 1b
cmp r0, lr
beq 4f
3:
ldm r0!, {r4-r7}
mov r2, r9
asrs r4, r4, r2
asrs r5, r5, r2
asrs r6, r6, r2
asrs r7, r7, r2
chapbook_norm r4, 0, 1
chapbook_norm r5, 2, 2
chapbook_norm r6, 4, 3
chapbook_norm r7, 6, 4
stm r3!, {r4-r7}
adds r1, r1, #8
cmp r0, lr
bne 3b
4:
mov r0, r12
pop {r4, r5}
mov r8, r4
mov r9, r5
pop {r4-r7, pc}
.irp n, 0, 1, 2, 3, 4
chapbook_note r2, r12, \n
.endr
.size chapbook_m0_norm_products, . - chapbook_m0_norm_products
.purgem chapbook_norm
