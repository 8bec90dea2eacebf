@ The biased kernel for rows of at most 12 words, on cores with a floating-point unit: its registers hold
@ the vector, s0 and s1 its first two words, s22 and s23 the last two, s24 the entry and s25 the shift. So
@ r1 is free for the start of a sum, which the first step takes, and r2 for the last block of sums.
.syntax unified
.macro chapbook_m4_short_row sum, word, from
smlad \sum, \word, r3, \from
and \word, \word, #0x00ff00ff
smlad \sum, \word, r12, \sum
.endm
.macro chapbook_m4_short_step low, high, from4=r4, from5=r5, from6=r6, from7=r7
ldm r0!, {r8-r11}
vmov r3, r12, s\low, s\high
chapbook_m4_short_row r4, r8, \from4
chapbook_m4_short_row r5, r9, \from5
chapbook_m4_short_row r6, r10, \from6
chapbook_m4_short_row r7, r11, \from7
.endm
.macro chapbook_m4_last
str r4, [lr]
subs r2, r2, lr
adds r2, r2, #8
it ge
strge r5, [lr, #4]
it gt
strgt r6, [lr, #8]
.endm
.section .text.chapbook_m4_short, "ax"
.balign 4
.global chapbook_m4_short
.type chapbook_m4_short, %function
.thumb_func
chapbook_m4_short:
push {r4-r11, lr}
vpush {d8-d12}
rsb r2, r2, #12
adr r4, 1f
add r4, r4, r2, lsl #2
add r4, r4, #1
adr r5, 3f
mov r6, #56
mla r5, r2, r6, r5
add r5, r5, #1
vmov s24, r5
mov lr, r3
add r5, sp, #76
ldm r5, {r2, r3, r5}
vmov s25, r3
vldmia r1!, {s0-s1}
bx r4
.balign 4
1:
vldmia r1!, {s2-s3}
vldmia r1!, {s4-s5}
vldmia r1!, {s6-s7}
vldmia r1!, {s8-s9}
vldmia r1!, {s10-s11}
vldmia r1!, {s12-s13}
vldmia r1!, {s14-s15}
vldmia r1!, {s16-s17}
vldmia r1!, {s18-s19}
vldmia r1!, {s20-s21}
vldmia r1!, {s22-s23}
mov r1, r5
.balign 4
2:
chapbook_m4_short_step 0, 1, r1, r1, r1, r1
vmov r3, s24
bx r3
.balign 4
3:
chapbook_m4_short_step 2, 3
chapbook_m4_short_step 4, 5
chapbook_m4_short_step 6, 7
chapbook_m4_short_step 8, 9
chapbook_m4_short_step 10, 11
chapbook_m4_short_step 12, 13
chapbook_m4_short_step 14, 15
chapbook_m4_short_step 16, 17
chapbook_m4_short_step 18, 19
chapbook_m4_short_step 20, 21
chapbook_m4_short_step 22, 23
vmov r12, s25
asr r4, r4, r12
asr r5, r5, r12
asr r6, r6, r12
asr r7, r7, r12
cmp lr, r2
bhi 4f
stm lr!, {r4-r7}
bne 2b
b 5f
4:
chapbook_m4_last
5:
vpop {d8-d12}
pop {r4-r11, pc}
.size chapbook_m4_short, . - chapbook_m4_short
.purgem chapbook_m4_last
.purgem chapbook_m4_short_step
.purgem chapbook_m4_short_row
.text
