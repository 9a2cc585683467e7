// Rxe measures package rdma over the kernel's soft-RoCE beside perftest's ib_send_lat and ib_write_bw (Debian: perftest), in turns, within one virtual machine (package
// internal/testing/guest: GORUN_GUEST names the folder with its kernel):
//
//	go run ./benchmarks/rxe -rounds 5
//
// The machine is emulated, so the times say nothing; the ratios do, as far as instructions of both are as costly. Both sides poll without pause.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gorun-mpi/gorun/benchmarks/internal/stats"
	"github.com/gorun-mpi/gorun/internal/testing/guest"
	"github.com/gorun-mpi/gorun/internal/testing/pingpong"
)

// inside is set in the guest.
const inside = "GORUN_INSIDE"

// device is the guest's.
const device = "rxe0"

func main() {
	pingpong.Side()
	rounds := flag.Int("rounds", 5, "how often each is measured")
	small := flag.Int("small", 1000, "round trips of 8 bytes in a round")
	large := flag.Int("large", 200, "writes of 64 KB in a round")
	flag.Parse()
	run := boot
	if os.Getenv(inside) != "" {
		run = func() error { return compare(*rounds, *small, *large) }
	}
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "rxe:", err)
		os.Exit(1)
	}
}

// boot runs this program in a guest, with the same arguments.
func boot() error {
	k, err := guest.Find()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "gorun-rxe-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	program := filepath.Join(dir, "rxe")
	build := exec.Command("go", "build", "-o", program, "github.com/gorun-mpi/gorun/benchmarks/rxe")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	const drivers, driver = "/etc/libibverbs.d/rxe.driver", "/usr/lib/x86_64-linux-gnu/libibverbs/librxe-rdmav34.so"
	files := map[string]string{drivers: drivers}
	for _, name := range []string{"ib_send_lat", "ib_write_bw"} {
		path, err := exec.LookPath(name)
		if err != nil {
			return fmt.Errorf("%w (install perftest)", err)
		}
		if err := guest.Linked(files, path); err != nil {
			return err
		}
	}
	if err := guest.Linked(files, driver); err != nil {
		return err
	}
	status, err := guest.Run(context.Background(), k, guest.Options{Program: program, Args: os.Args[1:], Env: []string{inside + "=1"}, Files: files,
		Modules: []string{"crc32_generic", "rdma_rxe"}, Soft: device, Memory: 1024, Out: os.Stdout})
	if err == nil && status != 0 {
		err = fmt.Errorf("the guest's status is %d", status)
	}
	return err
}

// compare measures in turns and prints a line for each test.
func compare(rounds, small, large int) error {
	for _, c := range []struct {
		test    pingpong.Test
		program string
		column  int                   // of perftest's line
		time    func(float64) float64 // microseconds for a message
	}{
		{pingpong.Test{Size: 8, Count: small}, "ib_send_lat", 5, func(us float64) float64 { return us }},
		{pingpong.Test{Size: 64 << 10, Count: large, Write: true}, "ib_write_bw", 3, func(mib float64) float64 { return (64 << 10) / (mib * 1.048576) }},
	} {
		c.test.Provider, c.test.Device = "rxe", device
		var ours, theirs []float64
		for range rounds {
			t, err := c.test.Run()
			if err != nil {
				return err
			}
			ours = append(ours, t)
			v, err := perftest(c.program, c.test.Size, c.test.Count, c.column)
			if err != nil {
				return err
			}
			theirs = append(theirs, c.time(v))
		}
		a, b := stats.Median(ours), stats.Median(theirs)
		fmt.Printf("%-12s %6d bytes: rdma %9.2f us %7.1f MB/s   perftest %9.2f us %7.1f MB/s   ratio %.2f  (%.2f to %.2f)\n", c.program, c.test.Size,
			a, float64(c.test.Size)/a, b, float64(c.test.Size)/b, a/b, slices.Min(ours)/slices.Max(theirs), slices.Max(ours)/slices.Min(theirs))
	}
	return nil
}

// perftest runs both sides of a program, and returns a column of its result.
func perftest(program string, size, count, column int) (float64, error) {
	args := []string{"-d", device, "-F", "-s", strconv.Itoa(size), "-n", strconv.Itoa(count)}
	var said bytes.Buffer
	server := exec.Command(program, args...)
	server.Stdout, server.Stderr = &said, &said
	if err := server.Start(); err != nil {
		return 0, err
	}
	over := make(chan error, 1)
	go func() { over <- server.Wait() }()
	for begin := time.Now(); ; { // it says nothing when it listens
		out, err := exec.Command(program, append(args, "127.0.0.1")...).CombinedOutput()
		if v, ok := result(string(out), size, column); ok && err == nil {
			return v, <-over
		}
		select {
		case err := <-over:
			return 0, errors.Join(fmt.Errorf("%s: %s", program, &said), err)
		default:
		}
		if time.Since(begin) > 20*time.Second {
			return 0, errors.Join(fmt.Errorf("%s: %w: %s", program, err, out), server.Process.Kill())
		}
	}
}

// result reads a column of the line that begins with the size.
func result(out string, size, column int) (float64, bool) {
	for _, line := range strings.Split(out, "\n") {
		words := strings.Fields(line)
		if len(words) > column && words[0] == strconv.Itoa(size) {
			v, err := strconv.ParseFloat(words[column], 64)
			return v, err == nil && v > 0
		}
	}
	return 0, false
}
