#include "textflag.h"

// func moveString(to, from *byte, n int)
TEXT ·moveString(SB), NOSPLIT, $0-24
	MOVQ to+0(FP), DI
	MOVQ from+8(FP), SI
	MOVQ n+16(FP), CX
	REP; MOVSB
	RET

// func movesFast() bool
TEXT ·movesFast(SB), NOSPLIT, $0-1
	MOVB $0, ret+0(FP)
	XORL AX, AX
	XORL CX, CX
	CPUID
	CMPL AX, $7
	JLT  no
	MOVL $7, AX
	XORL CX, CX
	CPUID
	SHRL $4, DX
	ANDL $1, DX
	MOVB DX, ret+0(FP)

no:
	RET
