@ What all of these read at r3, see `Sums`: r2 factor, r3 cut, r8 half of what is cut, r6 shift, r7
@ the last one. r2 was the end of the sums, which is in lr then.
.macro chapbook_sums
mov lr, r2
ldm r3!, {r2, r4-r7}
mov r8, r5
movs r3, r4
.endm
@ An odd number of elements starts with the second of a pair.
.macro chapbook_odd more:vararg
mov r4, lr
subs r4, r4, r0
lsls r4, r4, #29
beq 1f
subs r0, r0, #4
subs r1, r1, #2
\more
b 2f
.endm
@ The sum at r0 times its multiplier at r1, before the last shift, in r4.
.macro chapbook_rescale at, half
ldr r4, [r0, #\at]
ldrh r5, [r1, #\half]
muls r5, r2, r5
lsrs r5, r5, #16
add r4, r8
asrs r4, r4, r3
muls r4, r5, r4
.endm
@ r0 sums, r1 multipliers, r2 end of the sums, r3 `Sums`, the last of which are the bits that a
@ negative result loses; returns the largest magnitude.
chapbook_function chapbook_m0_rescale
push {r4-r7, lr}
mov r4, r8
push {r4}
chapbook_sums
movs r4, #0
mov r12, r4
chapbook_odd
.macro chapbook_linear at, half, n
chapbook_rescale \at, \half
asrs r4, r4, r6
asrs r5, r4, #31
ands r5, r7
bics r4, r5
str r4, [r0, #\at]
asrs r5, r4, #31
eors r5, r4
chapbook_max r5, r12, \n, hi
.endm
1:
chapbook_linear 0, 0, 1
2:
chapbook_linear 4, 2, 2
adds r0, r0, #8
adds r1, r1, #4
cmp r0, lr
bne 1b
mov r0, r12
pop {r4}
mov r8, r4
pop {r4-r7, pc}
chapbook_note r5, r12, 1
chapbook_note r5, r12, 2
.size chapbook_m0_rescale, . - chapbook_m0_rescale
.purgem chapbook_linear
@ The same with GELU of the results, whose table is the last of `Sums` and ends at 4.5; returns the
@ largest result or 0.
chapbook_function chapbook_m0_gelu
push {r4-r7, lr}
chapbook_push_high
chapbook_sums
mov r9, r6
mov r11, r7
movs r4, #0
mov r10, r4
movs r4, #145
lsls r4, r4, #11
mov r12, r4
chapbook_odd
.macro chapbook_gelu at, half, n
chapbook_rescale \at, \half
mov r5, r9
asrs r4, r4, r5
asrs r5, r4, #31
movs r6, r4
bics r4, r5
eors r6, r5
cmp r6, r12
bhs 5\n\()f
lsrs r5, r6, #11
lsls r5, r5, #2
add r5, r11
ldr r5, [r5]
lsls r6, r6, #21
lsrs r6, r6, #21
sxth r7, r5
muls r6, r7, r6
adds r5, r5, r6
asrs r5, r5, #16
subs r4, r4, r5
5\n\():
str r4, [r0, #\at]
chapbook_max r4, r10, \n, gt
.endm
1:
chapbook_gelu 0, 0, 1
2:
chapbook_gelu 4, 2, 2
adds r0, r0, #8
adds r1, r1, #4
cmp r0, lr
bne 1b
mov r0, r10
chapbook_pop_high
pop {r4-r7, pc}
chapbook_note r4, r10, 1
chapbook_note r4, r10, 2
.size chapbook_m0_gelu, . - chapbook_m0_gelu
.purgem chapbook_gelu
@ The same added to the vector that is the last of `Sums`; saturates.
chapbook_function chapbook_m0_rescale_add
push {r4-r7, lr}
mov r4, r8
push {r4}
chapbook_sums
chapbook_odd subs r7, r7, #4
.macro chapbook_add at, half, n
chapbook_rescale \at, \half
asrs r4, r4, r6
ldr r5, [r7, #\at]
adds r4, r4, r5
bvs 7\n\()f
8\n\():
str r4, [r7, #\at]
.endm
.macro chapbook_saturate n
7\n\():
asrs r4, r4, #31
movs r5, #1
lsls r5, r5, #31
eors r4, r5
b 8\n\()b
.endm
1:
chapbook_add 0, 0, 1
2:
chapbook_add 4, 2, 2
adds r0, r0, #8
adds r1, r1, #4
adds r7, r7, #8
cmp r0, lr
bne 1b
pop {r4}
mov r8, r4
pop {r4-r7, pc}
chapbook_saturate 1
chapbook_saturate 2
.size chapbook_m0_rescale_add, . - chapbook_m0_rescale_add
.purgem chapbook_add
.purgem chapbook_saturate
.purgem chapbook_rescale
.purgem chapbook_odd
.purgem chapbook_sums
