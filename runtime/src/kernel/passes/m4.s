.syntax unified
.macro chapbook_function name
.section .text.\name, "ax"
.balign 4
.global \name
.type \name, %function
.thumb_func
\name:
.endm
@ A maximum that is unsigned (hi) or signed (gt) in r12; chapbook_note has the other half.
.macro chapbook_max x, n, condition
cmp \x, r12
b\condition 7\n\()f
8\n\():
.endm
.macro chapbook_note x, n
7\n\():
mov r12, \x
b 8\n\()b
.endm
@ One of four multipliers, times the factor in r3; its top bit is set, so smlawb takes it for
@ 2^16 less. Then the sum times that, shifted.
.macro chapbook_rescale sum, word, right, to, turn:vararg
uxth lr, \word \turn
smlawb lr, lr, r3, lr
mul \to, \sum, lr
asr \to, \to, \right
.endm
@ r0 sums, r1 multipliers, r2 end of the sums, r3 factor, on the stack the shift and the bits that a
@ negative result loses; returns the largest magnitude.
chapbook_function chapbook_m4_rescale
push {r4-r11, lr}
ldrd r10, r11, [sp, #36]
mov r12, #0
.macro chapbook_linear sum, n, word, turn:vararg
chapbook_rescale \sum, \word, r10, \sum, \turn
and lr, r11, \sum, asr #31
bic \sum, \sum, lr
eor lr, \sum, \sum, asr #31
chapbook_max lr, \n, hi
.endm
.balign 4
1:
ldm r0, {r4-r7}
ldm r1!, {r8, r9}
chapbook_linear r4, 1, r8
chapbook_linear r5, 2, r8, , ror #16
chapbook_linear r6, 3, r9
chapbook_linear r7, 4, r9, , ror #16
stm r0!, {r4-r7}
cmp r0, r2
bne 1b
mov r0, r12
pop {r4-r11, pc}
chapbook_note lr, 1
chapbook_note lr, 2
chapbook_note lr, 3
chapbook_note lr, 4
.size chapbook_m4_rescale, . - chapbook_m4_rescale
.purgem chapbook_linear
@ The same with GELU of the results, whose table is on the stack; returns the largest result or 0. r2
@ gives way to scratch, its place is on the stack. The table ends at 4.5.
chapbook_function chapbook_m4_gelu
push {r2, r4-r11, lr}
ldrd r10, r11, [sp, #40]
mov r12, #0
.macro chapbook_gelu sum, n, word, turn:vararg
chapbook_rescale \sum, \word, r10, \sum, \turn
eor lr, \sum, \sum, asr #31
cmp lr, #0x48800
bic \sum, \sum, \sum, asr #31
bhs 5\n\()f
lsr r2, lr, #11
ldr r2, [r11, r2, lsl #2]
ubfx lr, lr, #0, #11
smlabb r2, r2, lr, r2
sub \sum, \sum, r2, asr #16
5\n\():
chapbook_max \sum, \n, gt
.endm
.balign 4
1:
ldm r0, {r4-r7}
ldm r1!, {r8, r9}
chapbook_gelu r4, 1, r8
chapbook_gelu r5, 2, r8, , ror #16
chapbook_gelu r6, 3, r9
chapbook_gelu r7, 4, r9, , ror #16
stm r0!, {r4-r7}
ldr r2, [sp]
cmp r0, r2
bne 1b
mov r0, r12
pop {r2, r4-r11, pc}
chapbook_note r4, 1
chapbook_note r5, 2
chapbook_note r6, 3
chapbook_note r7, 4
.size chapbook_m4_gelu, . - chapbook_m4_gelu
.purgem chapbook_gelu
@ r0 sums, r1 multipliers, r2 what they are added to, r3 factor, on the stack the shift and the
@ end of the sums.
chapbook_function chapbook_m4_rescale_add
push {r4-r11, lr}
ldr r12, [sp, #36]
.balign 4
1:
ldm r0!, {r4-r7}
ldm r1!, {r8, r9}
ldm r2, {r10, r11}
chapbook_rescale r4, r8, r12, r4
qadd r10, r10, r4
chapbook_rescale r5, r8, r12, r5, , ror #16
qadd r11, r11, r5
stm r2!, {r10, r11}
ldm r2, {r10, r11}
chapbook_rescale r6, r9, r12, r6
qadd r10, r10, r6
chapbook_rescale r7, r9, r12, r7, , ror #16
qadd r11, r11, r7
stm r2!, {r10, r11}
ldr r4, [sp, #40]
cmp r0, r4
bne 1b
pop {r4-r11, pc}
.size chapbook_m4_rescale_add, . - chapbook_m4_rescale_add
.purgem chapbook_rescale
@ r0 vector, r1 its largest magnitude, r2 end of the vector, r3 its bytes, on the stack the mantissa
@ and the exponent of the unit and the table of reciprocals; returns the mantissa and, in r1, how far
@ to the right. The steps are those of the definition; smmulr shifts by 32 and rounds.
chapbook_function chapbook_m4_quantize
push {r4-r11, lr}
mov lr, #0
0:
ldrd r4, r5, [sp, #36]
add r7, r1, #1
clz r8, r7
subs r9, r8, #17
rsb r10, r8, #17
lsl r7, r7, r9
itt mi
lsrmi r7, r1, r10
addmi r7, r7, #1
mul r7, r7, r4
cmp r7, #0x40000000
ite hi
movhi r8, #16
movls r8, #15
sub r9, r7, #1
lsr r9, r9, r8
add r9, r9, #127
movw r6, #33027
mul r9, r9, r6
lsr r9, r9, #22
cmp r9, #255
ittt hi
addhi r9, r9, #1
lsrhi r9, r9, #1
addhi r8, r8, #1
add r5, r5, r10
add r5, r5, r8
rsb r5, r5, #10
cmp r5, #19
bgt 5f
cbz r1, 5f
cbz r7, 5f
and r11, r9, #127
ldr r6, [sp, #44]
ldrh r6, [r6, r11, lsl #1]
add r6, r6, #1
lsr r4, r4, #1
mul r6, r6, r4
lsr r6, r6, #15
rsb r8, r8, #25
lsl r12, r6, r8
cmp r10, #0
bge 1f
@ A small vector is shifted to the left.
rsb r11, r10, #0
mov r10, #0
b 7f
5:
mov r9, #0
mov r5, #19
mov r12, #0
@ r5 right, r9 mantissa, r10 shift, r11 shift to the left of the last elements, r12 factor.
1:
mov r11, #0
sub r2, r2, #16
cmp r0, r2
bhi 3f
.balign 4
2:
ldm r0!, {r4, r6-r8}
.irp x, r4, r6, r7, r8
asr \x, \x, r10
.endr
.irp x, r4, r6, r7, r8
smmulr \x, \x, r12
.endr
pkhbt r4, r4, r7, lsl #16
pkhbt r6, r6, r8, lsl #16
uxtb16 r4, r4
uxtb16 r6, r6
orr r4, r4, r6, lsl #8
str r4, [r3], #4
cmp r0, r2
bls 2b
3:
add r2, r2, #16
b 7f
6:
ldr r4, [r0], #4
asr r4, r4, r10
lsl r4, r4, r11
smmulr r4, r4, r12
strb r4, [r3], #1
7:
cmp r0, r2
bne 6b
cmp lr, #0
bne 8f
mov r0, r9
mov r1, r5
9:
pop {r4-r11, pc}
8:
cmp r5, #0
ite pl
orrpl r9, r9, r5, lsl #11
movmi r9, #255
ldrd r5, r6, [sp, #48]
sub r4, r2, r6
str r9, [r4]
cmp r2, r5
beq 9b
add r2, r2, r6
b 8f
@ The same of the sums of several heads times multipliers, which are at r1; r2 is the end of the first
@ head, and on the stack follow the end of the last one and the bytes of one. The scale of a head
@ replaces the first of its sums.
.global chapbook_m4_quantize_heads
.type chapbook_m4_quantize_heads, %function
.thumb_func
chapbook_m4_quantize_heads:
push {r4-r11, lr}
mov lr, r1
8:
mov r11, r0
mov r12, #0
.macro chapbook_product sum, word, turn:vararg
uxth r10, \word \turn
mul \sum, \sum, r10
eor r10, \sum, \sum, asr #31
cmp r10, r12
it hi
movhi r12, r10
.endm
.balign 4
1:
ldm r0, {r4-r7}
ldm lr!, {r8, r9}
chapbook_product r4, r8
chapbook_product r5, r8, , ror #16
chapbook_product r6, r9
chapbook_product r7, r9, , ror #16
stm r0!, {r4-r7}
cmp r0, r2
bne 1b
mov r0, r11
mov r1, r12
b 0b
.purgem chapbook_product
.size chapbook_m4_quantize, . - chapbook_m4_quantize
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
.purgem chapbook_max
.purgem chapbook_note
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
.purgem chapbook_function
.text
