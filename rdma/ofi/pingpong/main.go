// Pingpong measures package rdma over libfabric's providers against libfabric's own fi_pingpong (Debian: libfabric-bin), in one run and in turns:
//
//	go -C rdma/ofi run ./pingpong -rounds 5
//
// Two processes send a message to and fro. Each line has the medians of time for one way and of bandwidth, and the ratio of the times: below 1 package rdma is faster. Both sides
// poll without pause, so a machine with less than two idle cores measures its scheduler.
package main

import (
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gorun-mpi/gorun/internal/testing/pingpong"
	_ "github.com/gorun-mpi/gorun/rdma/ofi"
)

// devices are where both measure.
var devices = map[string]string{"shm": "shm", "net": "net/127.0.0.1", "tcp;ofi_rxm": "tcp;ofi_rxm/127.0.0.1", "udp;ofi_rxd": "udp;ofi_rxd/127.0.0.1"}

func main() {
	pingpong.Side()
	providers := flag.String("providers", "shm,net,tcp;ofi_rxm", "libfabric's providers, with commas")
	rounds := flag.Int("rounds", 5, "how often each is measured")
	small := flag.Int("small", 2000, "round trips of 8 bytes in a round")
	large := flag.Int("large", 200, "round trips of 1 MB in a round")
	flag.Parse()
	for _, p := range strings.Split(*providers, ",") {
		for _, c := range []struct{ size, count int }{{8, *small}, {1 << 20, *large}} {
			exit(compare(p, c.size, c.count, *rounds))
		}
	}
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "pingpong:", err)
		os.Exit(1)
	}
}

// compare measures both in turns and prints a line.
func compare(p string, size, count, rounds int) error {
	var ours, theirs []float64
	for range rounds {
		t, err := pingpong.Test{Provider: "ofi", Device: devices[p], Size: size, Count: count}.Run()
		if err != nil {
			return fmt.Errorf("%s: %w", p, err)
		}
		ours = append(ours, t)
		if t, err = fabric(p, size, count); err != nil {
			return fmt.Errorf("%s: %w", p, err)
		}
		theirs = append(theirs, t)
	}
	a, b := median(ours), median(theirs)
	fmt.Printf("%-12s %8d bytes: rdma %9.2f us %8.0f MB/s   fi_pingpong %9.2f us %8.0f MB/s   ratio %.2f\n", p, size, a, float64(size)/a, b, float64(size)/b, a/b)
	return nil
}

func median(list []float64) float64 {
	slices.Sort(list)
	return list[len(list)/2]
}

// fabric runs fi_pingpong, and returns microseconds for one way.
func fabric(p string, size, count int) (float64, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	port := strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
	if err := l.Close(); err != nil {
		return 0, err
	}
	args := []string{"-p", p, "-e", "rdm", "-I", strconv.Itoa(count), "-S", strconv.Itoa(size)}
	server := exec.Command("fi_pingpong", append(args, "-B", port)...)
	if err := server.Start(); err != nil {
		return 0, err
	}
	defer func() { _ = server.Wait() }() // its partner tells
	defer func() { _ = server.Process.Kill() }()
	for begin := time.Now(); ; { // it says nothing when it listens
		out, err := exec.Command("fi_pingpong", append(args, "-P", port, "127.0.0.1")...).Output()
		if t, ok := parse(string(out)); ok {
			return t, nil
		}
		if time.Since(begin) > 20*time.Second {
			return 0, fmt.Errorf("fi_pingpong: %w: %s", err, out)
		}
	}
}

// parse reads the last line of fi_pingpong: bytes, sent, acknowledged, total, time, MB/s, us, million/s.
func parse(out string) (float64, bool) {
	lines := strings.Split(strings.TrimSpace(out), "\n")
	words := strings.Fields(lines[len(lines)-1])
	if len(words) != 8 {
		return 0, false
	}
	t, err := strconv.ParseFloat(words[6], 64)
	return t, err == nil && t > 0
}
