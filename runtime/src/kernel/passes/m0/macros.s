.syntax unified
.macro chapbook_function name
.section .text.\name, "ax"
.balign 4
.global \name
.type \name, %function
.thumb_func
\name:
.endm
@ A maximum that is unsigned (hi) or signed (gt) in a high register; chapbook_note has the other half.
.macro chapbook_max x, max, n, condition
cmp \x, \max
b\condition 7\n\()f
8\n\():
.endm
.macro chapbook_note x, max, n
7\n\():
mov \max, \x
b 8\n\()b
.endm
.macro chapbook_push_high
mov r4, r8
mov r5, r9
mov r6, r10
mov r7, r11
push {r4-r7}
.endm
.macro chapbook_pop_high
pop {r4-r7}
mov r8, r4
mov r9, r5
mov r10, r6
mov r11, r7
.endm
