// Package arguments is how the benchmarks deal with their command lines.
package arguments

import (
	"errors"
	"flag"
	"fmt"
	"os"
)

// Parse returns what parse makes of the command line. It ends the process where
// help was asked for, or with status 2 and the error where there is one.
func Parse[T any](name string, parse func(args []string) (T, error)) T {
	o, err := parse(os.Args[1:])
	if errors.Is(err, flag.ErrHelp) {
		os.Exit(0)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(2)
	}
	return o
}
