// Package arguments is how the benchmarks deal with their command lines.
package arguments

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
)

// Parse returns what parse makes of the command line. If help was asked for, it ends the process. If there is
// an error, it prints it and ends the process with status 2.
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

// Names splits a list at its commas; it has only names that are known for what
// they name.
func Names(what, list string, known []string) ([]string, error) {
	names := strings.Split(list, ",")
	for _, name := range names {
		if !slices.Contains(known, name) {
			return nil, fmt.Errorf("no %s %q, only %s", what, name, strings.Join(known, ", "))
		}
	}
	return names, nil
}

// Numbers splits a list at its commas; it has numbers from least to most.
func Numbers(list string, least, most int) (all []int, err error) {
	for text := range strings.SplitSeq(list, ",") {
		n, err := strconv.Atoi(text)
		if err != nil || n < least || n > most {
			return nil, fmt.Errorf("%q is not a number from %d to %d", text, least, most)
		}
		all = append(all, n)
	}
	return all, nil
}

// Writable finds out whether files can be written, before anything is measured for them. It changes no existing
// file, and leaves no new one.
func Writable(files ...string) error {
	for _, name := range files {
		if info, err := os.Stat(name); err == nil && !info.IsDir() && !info.Mode().IsRegular() {
			continue // a reader of a pipe would take it for the end
		}
		_, err := os.Lstat(name)
		ours := errors.Is(err, fs.ErrNotExist)
		f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE, 0o666)
		if err != nil {
			return err
		}
		err = f.Close()
		if ours {
			err = errors.Join(err, os.Remove(name))
		}
		if err != nil {
			return err
		}
	}
	return nil
}
