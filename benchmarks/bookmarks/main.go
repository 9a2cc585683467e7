// Command bookmarks measures the exchange of bookmarks in jobs far larger than this machine. The shipped code
// of every rank runs; only the network between them is simulated. A bookmark travels for one round, or for up
// to -jitter rounds more. A rank takes one bookmark in a round. The command prints these figures for each run,
// and writes them with
// -csv:
//
//	rounds     until the last rank is done
//	messages   bookmarks, and in the sparse schedule those of the reduction
//	bytes      of all of them on the out-of-band channel
//	queue      the most bookmarks that waited at one rank at one time
//
// There are three rows. In the staggered schedule every rank meets every other. The first sparse row has six
// neighbours, as in a three-dimensional grid. The second is for comparison: everybody has talked to everybody,
// and nothing keeps a rank from being swamped.
package main

import (
	"encoding/csv"
	"flag"
	"fmt"
	"log"
	"os"
	"strconv"
	"strings"
	"time"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("bookmarks: ")
	var (
		csvFile   = flag.String("csv", "", "write the table to this `file`, too")
		staggered = flag.String("staggered", "64,1024,16384", "numbers of ranks with the staggered schedule")
		sparse    = flag.String("sparse", "64,1000,32768,1000000", "numbers of ranks with the sparse schedule and six neighbours")
		swamped   = flag.String("all-to-all", "64,1024", "numbers of ranks with the sparse schedule where all talked to all")
		jitter    = flag.Int("jitter", 3, "a bookmark is on its way for one to 1+`n` rounds")
		seed      = flag.Uint64("seed", 1, "of the jitter")
		agent     = flag.Int("agent", 64, "ranks of an agent, which adds up what they sent to whom")
	)
	flag.Parse()
	if flag.NArg() > 0 || *jitter < 0 || *agent < 1 {
		flag.Usage()
		os.Exit(2)
	}
	var rows []result
	fmt.Printf("%-22s %9s %9s %12s %14s %7s %9s %8s\n", "schedule", "ranks", "rounds", "messages", "bytes", "queue", "seconds", "ns/msg")
	add := func(list string, schedule string, traffic func(rank, np int) []int) {
		for _, np := range parse(list) {
			r := run(job{schedule: schedule, np: np, jitter: *jitter, seed: *seed, agent: *agent, peers: traffic})
			fmt.Printf("%-22s %9d %9d %12d %14d %7d %9.3f %8.1f\n", r.schedule, r.np, r.rounds, r.messages, r.bytes, r.queue,
				r.took.Seconds(), float64(r.took.Nanoseconds())/float64(max(r.messages, 1)))
			rows = append(rows, r)
		}
	}
	add(*staggered, "staggered", grid)
	add(*sparse, "sparse, 6 neighbours", grid)
	add(*swamped, "sparse, all to all", all)
	if *csvFile != "" {
		if err := write(*csvFile, rows); err != nil {
			log.Fatal(err)
		}
	}
}

func parse(list string) []int {
	var n []int
	for _, s := range strings.FieldsFunc(list, func(r rune) bool { return r == ',' }) {
		i, err := strconv.Atoi(strings.TrimSpace(s))
		if err != nil || i < 1 {
			log.Fatalf("%q is not a number of ranks", s)
		}
		n = append(n, i)
	}
	return n
}

func write(name string, rows []result) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	defer f.Close()
	w := csv.NewWriter(f)
	w.Write([]string{"schedule", "ranks", "rounds", "messages", "bytes", "queue", "seconds"})
	for _, r := range rows {
		w.Write([]string{r.schedule, fmt.Sprint(r.np), fmt.Sprint(r.rounds), fmt.Sprint(r.messages),
			fmt.Sprint(r.bytes), fmt.Sprint(r.queue), strconv.FormatFloat(r.took.Seconds(), 'f', 4, 64)})
	}
	w.Flush()
	if err := w.Error(); err != nil {
		return err
	}
	return f.Close()
}

type result struct {
	schedule                    string
	np, rounds, messages, bytes int
	queue                       int
	took                        time.Duration
}
