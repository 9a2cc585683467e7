package mpi_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/gorun-mpi/gorun/mpi"
	"github.com/gorun-mpi/gorun/mpi/mpitest"
)

// sizes are lengths of messages in elements: none, one, odd, and beyond every
// transport's eager limit.
var sizes = []int{0, 1, 37, 70_001}

// onComms runs f on the world and on communicators made of it: a duplicate,
// halves, the world backwards, and each rank alone.
func onComms(c *mpi.Comm, f func(*mpi.Comm) error) error {
	dup, err := c.Dup()
	if err != nil {
		return err
	}
	half, err := c.Split(c.Rank()%2, 0)
	if err != nil {
		return err
	}
	back, err := c.Split(0, -c.Rank())
	if err != nil {
		return err
	}
	for _, x := range []*mpi.Comm{c, dup, half, back, c.Self()} {
		if err := all(mpi.Barrier(x), f(x)); err != nil {
			return fmt.Errorf("on %v: %w", x, err)
		}
	}
	return errors.Join(dup.Free(), half.Free(), back.Free())
}

// values makes n elements. Each depends on its index and the seed.
func values[T any](n, seed int, of func(int) T) []T {
	v := make([]T, n)
	for i := range v {
		v[i] = of(i + 31*seed)
	}
	return v
}

// want returns an error if two slices differ.
func want[T comparable](what string, got, want []T) error {
	if slices.Equal(got, want) {
		return nil
	}
	if len(got) != len(want) {
		return fmt.Errorf("%s: %d elements, want %d", what, len(got), len(want))
	}
	for i := range got {
		if got[i] != want[i] {
			return fmt.Errorf("%s: element %d is %v, want %v", what, i, got[i], want[i])
		}
	}
	return nil
}

// wantErr returns an error if err is not of the class.
func wantErr(what string, err, class error) error {
	if errors.Is(err, class) {
		return nil
	}
	return fmt.Errorf("%s: error %q, want %q", what, fmt.Sprint(err), class)
}

// all returns the first error.
func all(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// point is a struct that can be sent.
type point struct {
	X, Y  float64
	Label [3]uint16
	On    bool
}

type celsius float32

// perType runs a test for each kind of element.
func perType(t *testing.T, n int, tests ...func(*mpi.Comm) error) {
	names := []string{"bool", "int8", "uint16", "int32", "uint64", "int", "float32", "float64", "complex128", "named", "array", "struct"}
	for i, f := range tests {
		t.Run(names[i], func(t *testing.T) { mpitest.Run(t, n, f) })
	}
}
