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
