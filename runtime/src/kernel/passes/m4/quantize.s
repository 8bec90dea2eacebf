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
