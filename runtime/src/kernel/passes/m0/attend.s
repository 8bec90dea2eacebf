@ r0 scores, r1 scales of the keys, r2 of the values, r3 end of the scores; returns the largest
@ score and, in r1, the smallest scale of a value. Here and below: an odd number of elements starts
@ with the second of a pair.
chapbook_function chapbook_m0_scale_scores
push {r4-r7, lr}
mov lr, r3
movs r3, #1
lsls r7, r3, #31
mov r12, r7
lsls r3, r3, #16
mov r4, lr
subs r4, r4, r0
lsls r4, r4, #29
beq 1f
subs r0, r0, #4
subs r1, r1, #2
subs r2, r2, #2
b 2f
.macro chapbook_score at, half, n
ldr r4, [r0, #\at]
ldrh r5, [r1, #\half]
uxtb r6, r5
muls r4, r6, r4
lsrs r5, r5, #11
asrs r4, r4, r5
str r4, [r0, #\at]
chapbook_max r4, r12, \n, gt
ldrh r6, [r2, #\half]
cmp r6, r3
blo 5\n\()f
6\n\():
.endm
.macro chapbook_smaller n
5\n\():
movs r3, r6
b 6\n\()b
.endm
1:
chapbook_score 0, 0, 1
2:
chapbook_score 4, 2, 2
adds r0, r0, #8
adds r1, r1, #4
adds r2, r2, #4
cmp r0, lr
bne 1b
mov r0, r12
movs r1, r3
pop {r4-r7, pc}
.irp n, 1, 2
chapbook_note r4, r12, \n
chapbook_smaller \n
.endr
.size chapbook_m0_scale_scores, . - chapbook_m0_scale_scores
.purgem chapbook_score
.purgem chapbook_smaller
@ r0 scores, r1 scales of the values, r2 weights, r3 what `Weigh` holds; returns the sum.
chapbook_function chapbook_m0_weigh
push {r4-r7, lr}
chapbook_push_high
ldm r3!, {r4-r7}
mov r10, r4
mov r8, r5
mov r9, r7
mov r7, r6
ldm r3!, {r4-r6}
mov r11, r4
mov lr, r5
movs r3, r6
movs r4, #0
mov r12, r4
@ r3 table, r7 factor, r8 limit, r9 maximum, r10 cut, r11 shift, r12 sum, lr end
mov r4, lr
subs r4, r4, r0
lsls r4, r4, #29
beq 1f
subs r0, r0, #4
subs r1, r1, #2
subs r2, r2, #4
b 2f
.macro chapbook_weight at, half, n
ldr r4, [r0, #\at]
mov r5, r9
subs r4, r5, r4
mov r6, r10
lsrs r4, r4, r6
cmp r4, r8
bhi 7\n\()f
muls r4, r7, r4
lsls r5, r4, #4
lsrs r5, r5, #24
lsls r5, r5, #1
ldrh r5, [r3, r5]
lsrs r4, r4, #28
lsrs r5, r5, r4
add r12, r5
ldrh r4, [r1, #\half]
uxtb r6, r4
muls r5, r6, r5
lsrs r4, r4, #11
add r4, r11
lsrs r5, r5, r4
8\n\():
str r5, [r2, #\at]
.endm
.macro chapbook_zero n
7\n\():
movs r5, #0
b 8\n\()b
.endm
1:
chapbook_weight 0, 0, 1
2:
chapbook_weight 4, 2, 2
adds r0, r0, #8
adds r1, r1, #4
adds r2, r2, #8
cmp r0, lr
bne 1b
mov r0, r12
chapbook_pop_high
pop {r4-r7, pc}
chapbook_zero 1
chapbook_zero 2
.size chapbook_m0_weigh, . - chapbook_m0_weigh
.purgem chapbook_weight
.purgem chapbook_zero
@ r0 vector, r1 its end, r2 mantissa, r3 shift less one; rounds to the nearest and returns the
@ largest magnitude. One element at a time until a multiple of four is left.
chapbook_function chapbook_m0_scale
push {r4-r7, lr}
mov lr, r1
movs r4, #0
mov r12, r4
b 2f
.macro chapbook_scale x, n
asrs r1, \x, #16
muls r1, r2, r1
uxth \x, \x
muls \x, r2, \x
lsrs \x, \x, #16
adds \x, \x, r1
asrs \x, \x, r3
adds \x, \x, #1
asrs \x, \x, #1
asrs r1, \x, #31
eors r1, \x
chapbook_max r1, r12, \n, hi
.endm
1:
ldr r4, [r0]
chapbook_scale r4, 0
stm r0!, {r4}
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
chapbook_scale r4, 1
chapbook_scale r5, 2
chapbook_scale r6, 3
chapbook_scale r7, 4
stm r0!, {r4-r7}
cmp r0, lr
bne 3b
4:
mov r0, r12
pop {r4-r7, pc}
.irp n, 0, 1, 2, 3, 4
chapbook_note r1, r12, \n
.endr
.size chapbook_m0_scale, . - chapbook_m0_scale
.purgem chapbook_scale
