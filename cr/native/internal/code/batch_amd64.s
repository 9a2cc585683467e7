//go:build linux

#include "textflag.h"

// The code that a process being restored runs: it is copied into it, so it
// refers to no address. BX points to records of eight words each: the number of
// a system call in the lower half of the first and flags in the upper half, six
// arguments, the result. R12 counts them. A call that fails ends the list,
// unless bit 0 of its flags is set. Then the thread R14 of the process R13,
// which runs this, stops itself with a signal that nothing can hold back.
TEXT batch<>(SB), NOSPLIT|NOFRAME, $0
call:
	TESTQ R12, R12
	JZ    done
	MOVL  (BX), AX
	MOVQ  8(BX), DI
	MOVQ  16(BX), SI
	MOVQ  24(BX), DX
	MOVQ  32(BX), R10
	MOVQ  40(BX), R8
	MOVQ  48(BX), R9
	SYSCALL
	MOVQ  AX, 56(BX)
	CMPQ  AX, $-4095
	JCS   next
	TESTL $1, 4(BX)
	JZ    done
next:
	ADDQ  $64, BX
	DECQ  R12
	JMP   call
done:
	MOVL  R13, DI
	MOVL  R14, SI
	MOVL  $19, DX // SIGSTOP
	MOVL  $234, AX // tgkill
	SYSCALL
	JMP   done
	UNDEF
	UNDEF

// func batchCode() *byte
TEXT ·batchCode(SB), NOSPLIT, $0-8
	LEAQ batch<>(SB), AX
	MOVQ AX, ret+0(FP)
	RET
