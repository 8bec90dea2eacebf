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
