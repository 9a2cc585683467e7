package mpi

import (
	"fmt"
	"strings"

	"github.com/gorun-mpi/gorun/internal/rank/engine"
)

// Of another rank's element type and operator a message has only the hash, together with root and length. Where these are
// the same, few types and operators are left to be tried: that costs a call that succeeds nothing.

// content is what is combined or carried in a call: elements of a type, by an operator.
type content struct {
	t  *engine.Type
	op uint8
}

func (x *collective) content() content {
	if x.elem != nil {
		return content{x.elem, x.op}
	}
	return content{x.t, x.op}
}

// ofSignature finds what another rank's call carries whose signature this is, and whose root and length are those of x: another
// operator, else another type of numbers, else both. ok is false if it is none of these: structs, or the signature is of other calls.
func (x *collective) ofSignature(sign uint16) (found content, ok bool) {
	mine := x.content()
	try := func(t *engine.Type, op uint8) bool {
		y := *x
		y.t, y.op = t, op
		if y.signature() == sign {
			found, ok = content{t, op}, true
		}
		return ok
	}
	ops := []uint8{x.op}
	if x.op != noOp {
		for op := range uint8(len(opNames)) {
			if op != noOp && op != x.op {
				ops = append(ops, op)
			}
		}
	}
	types := []*engine.Type{mine.t}
	for i := range basics {
		if t := &basics[i]; t.Size > 0 && t != mine.t && (x.bytes < 0 || x.bytes%t.Size == 0) {
			types = append(types, t)
		}
	}
	for _, op := range ops[1:] {
		if try(mine.t, op) {
			return found, ok
		}
	}
	for _, op := range ops {
		for _, t := range types[1:] {
			if try(t, op) {
				return found, ok
			}
		}
	}
	return found, ok
}

// differsIn names what two calls of the same root and length differ in.
func (a content) differsIn(b content) string {
	var all []string
	if a.t != b.t {
		all = append(all, "element type")
	}
	if a.op != b.op {
		all = append(all, "operator")
	}
	return "another " + strings.Join(all, " and ")
}

// opNames are the operators by their codes.
var opNames = [...]string{noOp: "no operator", commuting: "an operator of the program", ordered: "an operator of the program that does not commute",
	firstOwn: "Sum", "Prod", "Max", "Min", "LAnd", "LOr", "LXor", "BAnd", "BOr", "BXor", "MaxLoc", "MinLoc"}

func (a content) String() string {
	if a.op == noOp {
		return a.t.Name
	}
	return fmt.Sprintf("%s, %s", a.t.Name, opNames[a.op])
}
