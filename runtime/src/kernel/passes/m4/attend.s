@ r0 scores, r1 scales of the keys, r2 of the values, r3 end of the scores; returns the largest
@ score and, in r1, the smallest scale of a value.
chapbook_function chapbook_m4_scale_scores
push {r4-r11, lr}
mov r12, #0x80000000
mov lr, #-1
.macro chapbook_low score, word, n
uxtb r10, \word
ubfx r11, \word, #11, #5
mul \score, \score, r10
asr \score, \score, r11
chapbook_max \score, \n, gt
.endm
.macro chapbook_high score, word, n
uxtb r10, \word, ror #16
lsr r11, \word, #27
mul \score, \score, r10
asr \score, \score, r11
chapbook_max \score, \n, gt
.endm
sub r3, r3, #16
cmp r0, r3
bhi 2f
.balign 4
1:
ldm r0, {r4-r7}
ldr r8, [r1], #4
ldr r9, [r1], #4
chapbook_low r4, r8, 1
chapbook_high r5, r8, 2
chapbook_low r6, r9, 3
chapbook_high r7, r9, 4
stm r0!, {r4-r7}
ldr r8, [r2], #4
ldr r9, [r2], #4
.irp word, r8, r9
usub16 r10, \word, lr
sel lr, lr, \word
.endr
cmp r0, r3
bls 1b
2:
add r3, r3, #16
b 4f
3:
ldr r4, [r0]
ldrh r8, [r1], #2
chapbook_low r4, r8, 5
str r4, [r0], #4
ldrh r8, [r2], #2
movt r8, #0xffff
usub16 r10, r8, lr
sel lr, lr, r8
4:
cmp r0, r3
bne 3b
mov r0, r12
uxth r1, lr
cmp r1, lr, lsr #16
it hi
lsrhi r1, lr, #16
pop {r4-r11, pc}
chapbook_note r4, 1
chapbook_note r5, 2
chapbook_note r6, 3
chapbook_note r7, 4
chapbook_note r4, 5
.size chapbook_m4_scale_scores, . - chapbook_m4_scale_scores
.purgem chapbook_low
.purgem chapbook_high
@ r0 scores, r1 scales of the values, r2 weights, r3 what `Weigh` holds; returns the sum. The
@ weights of four scores are written in the order 0, 2, 1, 3, zeros after the last. Scratch are r10 to
@ r12 and lr.
chapbook_function chapbook_m4_weigh
push {r4-r11, lr}
ldm r3!, {r4-r9}
ldr r3, [r3]
sub r9, r9, #16
push {r9}
mov r9, r3
mov r3, r8
mov r8, #0
@ r3 shift for both halves, r4 cut, r5 limit, r6 factor, r7 maximum, r8 sum, r9 table; sp: the last
@ four scores.
.macro chapbook_weight score, n, high
sub \score, r7, \score
lsr \score, \score, r4
cmp \score, r5
bhi 7\n\()f
mul \score, \score, r6
ubfx lr, \score, #20, #8
ldrh lr, [r9, lr, lsl #1]
lsr \score, \score, #28
lsr lr, lr, \score
add r8, r8, lr
.if \high
uxtb \score, r12, ror #16
mul lr, lr, \score
lsr \score, r12, #27
.else
uxtb \score, r12
mul lr, lr, \score
ubfx \score, r12, #11, #5
.endif
lsr lr, lr, \score
8\n\():
.endm
.macro chapbook_zero n
7\n\():
mov lr, #0
b 8\n\()b
.endm
ldr r12, [sp]
cmp r0, r12
bhi 2f
.balign 4
1:
ldm r0!, {r10, r11}
ldr r12, [r1], #4
uadd16 r12, r12, r3
chapbook_weight r10, 1, 0
strh lr, [r2], #8
chapbook_weight r11, 2, 1
strh lr, [r2, #-4]
ldm r0!, {r10, r11}
ldr r12, [r1], #4
uadd16 r12, r12, r3
chapbook_weight r10, 3, 0
strh lr, [r2, #-6]
chapbook_weight r11, 4, 1
strh lr, [r2, #-2]
ldr r12, [sp]
cmp r0, r12
bls 1b
2:
add r12, r12, #16
cmp r0, r12
beq 4f
@ Up to three more, at 0, 4 and 2.
str r12, [sp]
mov r11, #0
str r11, [r2]
str r11, [r2, #4]
mov r11, #4
3:
ldr r10, [r0], #4
ldrh r12, [r1], #2
uadd16 r12, r12, r3
chapbook_weight r10, 5, 0
strh lr, [r2]
add r2, r2, r11
sub r11, r11, #6
ldr r12, [sp]
cmp r0, r12
bne 3b
4:
mov r0, r8
pop {r3-r11, pc}
chapbook_zero 1
chapbook_zero 2
chapbook_zero 3
chapbook_zero 4
chapbook_zero 5
.size chapbook_m4_weigh, . - chapbook_m4_weigh
.purgem chapbook_zero
.purgem chapbook_weight
