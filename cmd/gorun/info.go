package main

import (
	"flag"
	"fmt"
	"io"
	"os/exec"
	"runtime"
	"text/tabwriter"

	"github.com/gorun-mpi/gorun/launcher"
)

var infoCommand = command{
	name: "info", short: "list modules, their parameters and paths",
	setup: func(fs *flag.FlagSet, std stdio) func([]string) int {
		return func(args []string) int {
			if len(args) > 0 {
				return usage(std, "info takes no arguments")
			}
			return failed(std, info(std))
		}
	},
}

func info(std stdio) error {
	w := tabwriter.NewWriter(std.out, 0, 8, 2, ' ', 0)
	fmt.Fprintf(w, "gorun\t%s, %s, %s/%s\n", launcher.Version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	if dir, err := ckptDir(""); err == nil {
		fmt.Fprintf(w, "snapshots\t%s\n", dir)
	}
	fmt.Fprintf(w, "running jobs\t%s\n", launcher.ControlRoot())
	for _, t := range transports() {
		fmt.Fprintf(w, "transport (-rpi)\t%s\n", t)
		if params := parameters[t]; params != nil {
			for _, p := range params() {
				fmt.Fprintf(w, "  parameter (-param)\t%s=%s\t%s\n", p.Name, p.Default, p.Doc)
			}
		}
	}
	for _, p := range launcher.Parameters() {
		fmt.Fprintf(w, "parameter (-param)\t%s=%s\t%s\n", p.Name, p.Default, p.Doc)
	}
	fmt.Fprintf(w, "back-end (-cr)\t%s\t%s\n", portable.name, portable.doc)
	for _, i := range launcher.Imagers() {
		printImager(w, i)
	}
	for _, b := range absent {
		if _, err := launcher.FindImager(b.name); err != nil {
			doc := b.doc
			if _, err := exec.LookPath(b.name); err != nil {
				doc += "; and " + b.name + " is not in PATH"
			}
			fmt.Fprintf(w, "back-end (-cr)\t%s\t%s\n", b.name, doc)
		}
	}
	for _, c := range []string{"none", "snappy", "zstd"} {
		fmt.Fprintf(w, "codec (-ckpt-codec)\t%s\n", c)
	}
	for _, s := range stores {
		fmt.Fprintf(w, "store\t%s\t%s\n", s.name, s.doc)
	}
	for _, m := range managers {
		fmt.Fprintf(w, "resource manager\t%s\n", m.Name())
	}
	return w.Flush()
}

// printImager lists a back-end that images whole processes, and what it finds on
// this machine.
func printImager(w io.Writer, i launcher.Imager) {
	doc := i.Doc()
	if err := i.Supported(); err != nil {
		doc = fmt.Sprintf("cannot be used here: %v", err)
	}
	fmt.Fprintf(w, "back-end (-cr)\t%s\t%s\n", i.Name(), doc)
	for _, f := range i.Features() {
		state := "yes"
		if f.Err != nil {
			state = fmt.Sprintf("no: %v", f.Err)
		}
		fmt.Fprintf(w, "  feature\t%s\t%s\n", f.Name, state)
	}
}
