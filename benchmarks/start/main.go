// Start tells what a transport adds to the start of a job, and how that grows with its ranks:
//
//	go run ./benchmarks/start
//	go run ./benchmarks/start -rpi rdma -than tcp -np 2,4,8,16,32,64 -rounds 9
//
// It runs a program whose ranks meet once at a barrier, over both transports in turn, and prints the medians of the times from the
// start to the end of the job, what the first adds to the second, in all and a rank, and the exponent of the power of the number of ranks that this fits
// best. Ranks that have to share processors start one after the other: there what is added a rank says more.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/gorun-mpi/gorun/benchmarks/internal/arguments"
	"github.com/gorun-mpi/gorun/benchmarks/internal/bench"
	"github.com/gorun-mpi/gorun/benchmarks/internal/stats"
)

func main() {
	rpi := flag.String("rpi", "rdma", "transport that is judged")
	than := flag.String("than", "tcp", "transport that it is compared with")
	np := flag.String("np", "2,4,8,16,32,64", "numbers of ranks, with commas")
	rounds := flag.Int("rounds", 9, "runs of each")
	flag.Parse()
	ranks, err := arguments.Numbers(*np, 1, 1<<16)
	if err == nil && (len(ranks) < 2 || *rounds < 1) {
		err = errors.New("give at least two numbers of ranks and one round")
	}
	bench.Main("start", func(ctx context.Context) error {
		if err != nil {
			return err
		}
		return measure(ctx, *rpi, *than, ranks, *rounds)
	})
}

func measure(ctx context.Context, rpi, than string, ranks []int, rounds int) error {
	w, err := bench.NewWorld("")
	if err != nil {
		return err
	}
	defer w.Close()
	exe, err := bench.Build(w.Bin, "barrier", "benchmarks/start/barrier")
	if err != nil {
		return err
	}
	fmt.Printf("%5s %12s %12s %12s %12s\n", "ranks", than+" ms", rpi+" ms", "added ms", "a rank")
	var x, y []float64
	for _, n := range ranks {
		var with, without, added []float64
		for range rounds {
			a, err := once(ctx, w.Gorun, rpi, n, exe)
			if err != nil {
				return err
			}
			b, err := once(ctx, w.Gorun, than, n, exe)
			if err != nil {
				return err
			}
			with, without, added = append(with, a), append(without, b), append(added, a-b)
		}
		more := stats.Median(added)
		fmt.Printf("%5d %12.1f %12.1f %12.1f %12.2f\n", n, stats.Median(without), stats.Median(with), more, more/float64(n))
		if more > 0 {
			x, y = append(x, math.Log(float64(n))), append(y, math.Log(more))
		}
	}
	if len(x) < 2 {
		fmt.Printf("%s adds nothing\n", rpi)
		return nil
	}
	fmt.Printf("exponent over %d of %d: %.2f, a rank %.2f\n", len(x), len(ranks), slope(x, y), slope(x, y)-1)
	return nil
}

// once returns milliseconds of one run.
func once(ctx context.Context, gorun, rpi string, n int, exe string) (float64, error) {
	begin := time.Now()
	_, err := bench.Output(ctx, time.Minute, nil, gorun, "-np", strconv.Itoa(n), "-rpi", rpi, exe)
	return float64(time.Since(begin).Microseconds()) / 1000, err
}

// slope is that of the straight line that fits best.
func slope(x, y []float64) float64 {
	mx, my := mean(x), mean(y)
	var above, below float64
	for i := range x {
		above += (x[i] - mx) * (y[i] - my)
		below += (x[i] - mx) * (x[i] - mx)
	}
	return above / below
}

func mean(v []float64) (sum float64) {
	for _, e := range v {
		sum += e / float64(len(v))
	}
	return sum
}
