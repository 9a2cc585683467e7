//go:build linux

#include "textflag.h"

// Code that is copied into restored processes in place of functions of the
// kernel's own; constants that look like 0x01..01 are put in then.

// clock_gettime(DI clock, SI *timespec): calls the kernel's function and moves
// its result on where the clock counts from the start of the machine:
// MONOTONIC, MONOTONIC_RAW, MONOTONIC_COARSE (1, 4, 6) and BOOTTIME (7).
TEXT clock<>(SB), NOSPLIT|NOFRAME, $0
	CMPL  DI, $7
	JHI   other
	MOVL  $0xd2, AX
	BTL   DI, AX
	JCC   other
	PUSHQ DI
	PUSHQ SI
	SUBQ  $8, SP
	MOVQ  $0x0101010101010101, AX // the kernel's function
	CALL  AX
	ADDQ  $8, SP
	POPQ  SI
	POPQ  DI
	TESTL AX, AX
	JNZ   out
	MOVQ  $0x0202020202020202, CX // seconds and
	MOVQ  $0x0303030303030303, DX // nanoseconds that monotonic is behind
	CMPL  DI, $7
	JNE   add
	MOVQ  $0x0404040404040404, CX // and that boottime is
	MOVQ  $0x0505050505050505, DX
add:
	ADDQ  (SI), CX
	ADDQ  8(SI), DX
	CMPQ  DX, $1000000000
	JLT   store
	SUBQ  $1000000000, DX
	INCQ  CX
store:
	MOVQ  CX, (SI)
	MOVQ  DX, 8(SI)
out:
	RET
other:
	MOVQ  $0x0101010101010101, AX
	JMP   AX
	UNDEF
	UNDEF

// func clockCode() *byte
TEXT ·clockCode(SB), NOSPLIT, $0-8
	LEAQ clock<>(SB), AX
	MOVQ AX, ret+0(FP)
	RET
