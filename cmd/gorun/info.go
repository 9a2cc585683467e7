package main

import (
	"flag"
	"fmt"
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
	for _, b := range backends {
		fmt.Fprintf(w, "back-end (-cr)\t%s\t%s\n", b.name, b.doc)
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
