// Plot draws what the benchmarks measured:
//
//	go -C benchmarks/plot run . -o times.svg checkpoint.csv
//
// It is a module of its own, so that gorun does not depend on what it needs. The file's name gives the format
// of the picture: svg, png or pdf. The first line of the files tells what to draw:
//
//	contender,mode,bytes,seconds,low,high   messages, from benchmarks/compare
//	contender,mode,ranks,seconds,low,high   anything else, from benchmarks/compare
//	mode,bytes,seconds,low,high             messages, from benchmarks/netpipe -csv
//	three columns of numbers                messages, NetPIPE's own output (-o of NetPIPE or of benchmarks/netpipe)
//	case,what,seconds,low,high              times of checkpoints, from benchmarks/checkpoint
//	schedule,ranks,rounds,...               the exchange of bookmarks, from benchmarks/bookmarks -csv
//
// Messages are drawn as time over size, or with -throughput as Mbit/s. Files
// without names of contenders are named in the legend for the file. Of the
// exchange of bookmarks one column is drawn: messages, or what -what names.
package main

import (
	"flag"
	"fmt"
	"os"
)

func main() {
	out := flag.String("o", "plot.svg", "picture to write, svg, png or pdf")
	title := flag.String("title", "", "title of the picture")
	throughput := flag.Bool("throughput", false, "draw messages as throughput instead of time")
	what := flag.String("what", "", "draw only this quantity of the files that hold several")
	flag.Parse()
	if err := run(flag.Args(), *out, *title, *what, *throughput); err != nil {
		fmt.Fprintln(os.Stderr, "plot:", err)
		os.Exit(1)
	}
}

// run reads the files, which are of one kind, and draws them.
func run(files []string, out, title, what string, throughput bool) error {
	if len(files) == 0 {
		return fmt.Errorf("no file to draw")
	}
	var all data
	for _, name := range files {
		d, err := readFile(name)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if all.kind != 0 && d.kind != all.kind {
			return fmt.Errorf("%s is not of the same kind as %s", name, files[0])
		}
		all.kind, all.points = d.kind, append(all.points, d.points...)
	}
	if all.kind == byRanks && what == "" {
		what = "messages"
	}
	if what != "" {
		all = all.only(what)
	}
	if len(all.points) == 0 {
		return fmt.Errorf("nothing to draw")
	}
	p, err := draw(all, title, throughput)
	if err != nil {
		return err
	}
	return p.Save(width, height, out)
}
