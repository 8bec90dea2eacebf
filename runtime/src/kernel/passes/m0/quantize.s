@ r0 sums, r1 multipliers, r2 end of the sums, r3 cut; returns the largest magnitude. One element at
@ a time until a multiple of four is left.
chapbook_function chapbook_m0_products
push {r4-r7, lr}
mov r4, r8
push {r4}
mov lr, r2
movs r4, #1
lsls r4, r4, r3
lsrs r4, r4, #1
mov r8, r4
movs r4, #0
mov r12, r4
b 2f
.macro chapbook_product x, half, n
add \x, r8
asrs \x, \x, r3
ldrh r2, [r1, #\half]
muls \x, r2, \x
asrs r2, \x, #31
eors r2, \x
chapbook_max r2, r12, \n, hi
.endm
1:
ldr r4, [r0]
chapbook_product r4, 0, 0
stm r0!, {r4}
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
subs r0, r0, #16
chapbook_product r4, 0, 1
chapbook_product r5, 2, 2
chapbook_product r6, 4, 3
chapbook_product r7, 6, 4
stm r0!, {r4-r7}
adds r1, r1, #8
cmp r0, lr
bne 3b
4:
mov r0, r12
pop {r4}
mov r8, r4
pop {r4-r7, pc}
.irp n, 0, 1, 2, 3, 4
chapbook_note r2, r12, \n
.endr
.size chapbook_m0_products, . - chapbook_m0_products
.purgem chapbook_product
@ r0 vector, r1 where it goes, r2 end of the vector, r3 shift, on the stack the factor and the last
@ shift, which rounds to the nearest. Three elements make a turn, so that no register is missing.
chapbook_function chapbook_m0_narrow
push {r4-r7, lr}
subs r2, r2, #12
mov r12, r2
movs r2, r3
ldr r3, [sp, #20]
ldr r4, [sp, #24]
movs r5, #1
lsls r5, r5, r4
lsrs r5, r5, #1
mov lr, r5
.macro chapbook_narrow x
asrs \x, \x, r2
muls \x, r3, \x
add \x, lr
asrs \x, \x, r4
.endm
b 2f
1:
ldm r0!, {r5-r7}
chapbook_narrow r5
chapbook_narrow r6
chapbook_narrow r7
stm r1!, {r5-r7}
2:
cmp r0, r12
bls 1b
mov r5, r12
adds r5, r5, #12
mov r12, r5
b 4f
3:
ldm r0!, {r5}
chapbook_narrow r5
stm r1!, {r5}
4:
cmp r0, r12
bne 3b
pop {r4-r7, pc}
.size chapbook_m0_narrow, . - chapbook_m0_narrow
.purgem chapbook_narrow
