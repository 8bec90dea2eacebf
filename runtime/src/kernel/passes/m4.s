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
@ r0 sums, r1 multipliers, r2 end of the sums; returns the largest magnitude.
chapbook_function chapbook_m4_products
push {r4-r9, lr}
mov r12, #0
.macro chapbook_product sum, word, turn:vararg
uxth r3, \word \turn
mul \sum, \sum, r3
eor r3, \sum, \sum, asr #31
cmp r3, r12
it hi
movhi r12, r3
.endm
.balign 4
1:
ldm r0, {r4-r7}
ldm r1!, {r8, r9}
chapbook_product r4, r8
chapbook_product r5, r8, , ror #16
chapbook_product r6, r9
chapbook_product r7, r9, , ror #16
stm r0!, {r4-r7}
cmp r0, r2
bne 1b
mov r0, r12
pop {r4-r9, pc}
.size chapbook_m4_products, . - chapbook_m4_products
.purgem chapbook_product
@ r0 sums, r1 multipliers, r2 end of the sums, r3 factor, on the stack the shift; returns the
@ largest magnitude.
.macro chapbook_linear relu, sum, n, word, turn:vararg
chapbook_rescale \sum, \word, r10, \sum, \turn
.if \relu
bic \sum, \sum, \sum, asr #31
chapbook_max \sum, \n, hi
.else
eor lr, \sum, \sum, asr #31
chapbook_max lr, \n, hi
.endif
.endm
.macro chapbook_rescale_all name, relu, x0=lr, x1=lr, x2=lr, x3=lr
chapbook_function \name
push {r4-r10, lr}
ldr r10, [sp, #32]
mov r12, #0
.balign 4
1:
ldm r0, {r4-r7}
ldm r1!, {r8, r9}
chapbook_linear \relu, r4, 1, r8
chapbook_linear \relu, r5, 2, r8, , ror #16
chapbook_linear \relu, r6, 3, r9
chapbook_linear \relu, r7, 4, r9, , ror #16
stm r0!, {r4-r7}
cmp r0, r2
bne 1b
mov r0, r12
pop {r4-r10, pc}
chapbook_note \x0, 1
chapbook_note \x1, 2
chapbook_note \x2, 3
chapbook_note \x3, 4
.size \name, . - \name
.endm
chapbook_rescale_all chapbook_m4_rescale, 0
@ The same with max(x, 0) of the results.
chapbook_rescale_all chapbook_m4_relu, 1, r4, r5, r6, r7
.purgem chapbook_rescale_all
.purgem chapbook_linear
@ The same with GELU of the results; on the stack also its table. r2 gives way to scratch, its
@ place is on the stack. The table ends at 4.5.
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
eor lr, \sum, \sum, asr #31
chapbook_max lr, \n, hi
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
chapbook_note lr, 1
chapbook_note lr, 2
chapbook_note lr, 3
chapbook_note lr, 4
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
@ r0 vector, r1 its bytes, r2 end of the vector, r3 shift, on the stack 2^32 times the factor.
chapbook_function chapbook_m4_narrow
push {r4-r7, lr}
ldr r12, [sp, #20]
.balign 4
1:
ldm r0!, {r4-r7}
.irp x, r4, r5, r6, r7
asr \x, \x, r3
.endr
.irp x, r4, r5, r6, r7
smmulr \x, \x, r12
.endr
pkhbt r4, r4, r6, lsl #16
pkhbt r5, r5, r7, lsl #16
uxtb16 r4, r4
uxtb16 r5, r5
orr r4, r4, r5, lsl #8
str r4, [r1], #4
cmp r0, r2
bne 1b
pop {r4-r7, pc}
.size chapbook_m4_narrow, . - chapbook_m4_narrow
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
@ score and, in both halves of r1, minima of the scales of the values.
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
.balign 4
1:
ldm r0, {r4-r7}
ldm r1!, {r8, r9}
chapbook_low r4, r8, 1
chapbook_high r5, r8, 2
chapbook_low r6, r9, 3
chapbook_high r7, r9, 4
stm r0!, {r4-r7}
ldm r2!, {r8, r9}
.irp word, r8, r9
usub16 r10, \word, lr
sel lr, lr, \word
.endr
cmp r0, r3
bne 1b
mov r0, r12
mov r1, lr
pop {r4-r11, pc}
chapbook_note r4, 1
chapbook_note r5, 2
chapbook_note r6, 3
chapbook_note r7, 4
.size chapbook_m4_scale_scores, . - chapbook_m4_scale_scores
.purgem chapbook_low
.purgem chapbook_high
.purgem chapbook_max
.purgem chapbook_note
@ r0 scores, r1 scales of the values, r2 weights, r3 what `Weigh` holds; returns the sum. The
@ weights of four scores are written in the order 0, 2, 1, 3. Scratch are r10 to r12 and lr.
chapbook_function chapbook_m4_weigh
push {r4-r11, lr}
ldm r3!, {r4-r9}
ldr r3, [r3]
push {r9}
mov r9, r3
mov r3, r8
mov r8, #0
@ r3 shift for both halves, r4 cut, r5 limit, r6 factor, r7 maximum, r8 sum, r9 table; sp: end.
.macro chapbook_weight score, n, high, place
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
strh lr, [r2, #\place]
.endm
.macro chapbook_zero n
7\n\():
mov lr, #0
b 8\n\()b
.endm
.balign 4
1:
ldm r0!, {r10, r11}
ldr r12, [r1], #4
uadd16 r12, r12, r3
chapbook_weight r10, 1, 0, 0
chapbook_weight r11, 2, 1, 4
ldm r0!, {r10, r11}
ldr r12, [r1], #4
uadd16 r12, r12, r3
chapbook_weight r10, 3, 0, 2
chapbook_weight r11, 4, 1, 6
adds r2, r2, #8
ldr r12, [sp]
cmp r0, r12
bne 1b
mov r0, r8
pop {r3-r11, pc}
chapbook_zero 1
chapbook_zero 2
chapbook_zero 3
chapbook_zero 4
.size chapbook_m4_weigh, . - chapbook_m4_weigh
.purgem chapbook_zero
.purgem chapbook_weight
.purgem chapbook_function
.text
