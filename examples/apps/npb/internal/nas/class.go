// Package nas is what the NAS Parallel Benchmarks here share: their random numbers, classes, timed loop and report.
//
// The benchmarks are written from their report: D. Bailey et al., The NAS Parallel Benchmarks, RNR-94-007, and
// for their classes NAS-95-020. The numbers that they are verified by are those that NAS has published.
package nas

import "fmt"

// Class is the size of a problem. S is a sample, W for workstations; A and B are each some four times larger than
// the one before.
type Class byte

// Classes are those that there are.
const Classes = "SWAB"

func (c Class) String() string { return string(rune(c)) }

// ParseClass returns the class that the arguments of a command name. Without arguments it is S.
func ParseClass(args []string) (Class, error) {
	switch {
	case len(args) == 0:
		return 'S', nil
	case len(args) > 1:
		return 0, fmt.Errorf("unexpected argument %q", args[1])
	}
	for _, c := range Classes {
		if args[0] == string(c) {
			return Class(c), nil
		}
	}
	return 0, fmt.Errorf("class %q is not one of S, W, A and B", args[0])
}
