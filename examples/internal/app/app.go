// Package app has what the example programs share: how they divide work among ranks, and how they end.
package app

import (
	"errors"
	"fmt"
	"io"

	"github.com/gorun-mpi/gorun/mpi"
)

// ErrUnsuccessful is returned by Verdict on all ranks when the result of the program is wrong on one of them.
var ErrUnsuccessful = errors.New("verification was not successful")

// Range returns the items lo <= i < hi that one of size ranks has of n. They differ by one at most.
func Range(n, size, rank int) (lo, hi int) { return n * rank / size, n * (rank + 1) / size }

// Owner returns the rank that has item i of n.
func Owner(n, size, i int) int { return ((i+1)*size - 1) / n }

// Verdict ends a program: wrong is what a rank has found wrong, nil if nothing. Rank 0 prints what the ranks have
// found, and the last line
//
//	Verification: SUCCESSFUL
//
// or UNSUCCESSFUL. In that case all ranks get an error, so that the program ends with status 1. All ranks call it.
func Verdict(c *mpi.Comm, out io.Writer, wrong error) error {
	mine := ""
	if wrong != nil {
		mine = wrong.Error()
	}
	found, err := mpi.AllgatherObjects(c, mine)
	if err != nil {
		return err
	}
	verdict := "SUCCESSFUL"
	for rank, text := range found {
		if text == "" {
			continue
		}
		if verdict, err = "UNSUCCESSFUL", ErrUnsuccessful; c.Rank() == 0 {
			fmt.Fprintf(out, "rank %d: %s\n", rank, text)
		}
	}
	if c.Rank() == 0 {
		if _, werr := fmt.Fprintf(out, "Verification: %s\n", verdict); werr != nil {
			return werr
		}
	}
	return err
}

// Report prints on rank 0.
func Report(c *mpi.Comm, out io.Writer, format string, args ...any) {
	if c.Rank() == 0 {
		fmt.Fprintf(out, format, args...)
	}
}
