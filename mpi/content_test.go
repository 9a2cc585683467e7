package mpi

import (
	"reflect"
	"testing"
)

// The code of each operator has its name.
func TestOperatorNames(t *testing.T) {
	for name, by := range map[string]Operator[int]{"Sum": Sum[int](), "Prod": Prod[int](), "Max": Max[int](), "Min": Min[int](), "BAnd": BAnd[int](), "BOr": BOr[int](), "BXor": BXor[int](),
		"an operator of the program": OpFunc(func(dst, src []int) {}, true)(), "an operator of the program that does not commute": OpFunc(func(dst, src []int) {}, false)()} {
		if _, code := codeOf(by); opNames[code] != name {
			t.Errorf("%s is called %s", name, opNames[code])
		}
	}
	for name, by := range map[string]Operator[bool]{"LAnd": LAnd[bool](), "LOr": LOr[bool](), "LXor": LXor[bool]()} {
		if _, code := codeOf(by); opNames[code] != name {
			t.Errorf("%s is called %s", name, opNames[code])
		}
	}
	for name, by := range map[string]Operator[ValueLoc[int]]{"MaxLoc": MaxLoc[int](), "MinLoc": MinLoc[int]()} {
		if _, code := codeOf(by); opNames[code] != name {
			t.Errorf("%s is called %s", name, opNames[code])
		}
	}
}

// A signature tells the type and the operator that it was made of, if root and length are known.
func TestOfSignature(t *testing.T) {
	at := func(k reflect.Kind, op uint8, bytes int) *collective {
		return &collective{t: &basics[k], op: op, root: noRoot, bytes: bytes}
	}
	for _, bytes := range []int{-1, 0, 8, 24, 1 << 20} {
		for k := range basics {
			for op := range uint8(len(opNames)) {
				theirs := at(reflect.Kind(k), op, bytes)
				if theirs.t.Size == 0 || bytes > 0 && bytes%theirs.t.Size != 0 {
					continue
				}
				want := content{theirs.t, op}
				for _, mine := range []*collective{at(reflect.Kind(k), firstOwn, bytes), at(reflect.Int, op, bytes)} {
					if mine.t == theirs.t && mine.op == op || (mine.op == noOp) != (op == noOp) {
						continue
					}
					if found, ok := mine.ofSignature(theirs.signature()); !ok || found != want {
						t.Errorf("%d bytes: %v, %v is found instead of %v", bytes, ok, found, want)
					}
				}
			}
		}
	}
	mine := at(reflect.Int, firstOwn, 8)
	if found, ok := mine.ofSignature(at(reflect.Int, firstOwn, 16).signature()); ok {
		t.Errorf("another length is taken for %v", found)
	}
}
