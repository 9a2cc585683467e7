// Pingpong measures package rdma over libfabric's providers against libfabric's own fi_pingpong (Debian: libfabric-bin), in one run and in turns:
//
//	go -C rdma/ofi run ./pingpong -rounds 5
//
// Two processes send a message to and fro. Each line has the medians of time for one way and of bandwidth, and the ratio of the times: below 1 package rdma is faster. Both sides
// poll without pause, so a machine with less than two idle cores measures its scheduler.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gorun-mpi/gorun/rdma"
	_ "github.com/gorun-mpi/gorun/rdma/ofi"
)

// device is where both measure.
var devices = map[string]string{"shm": "shm", "net": "net/127.0.0.1", "tcp;ofi_rxm": "tcp;ofi_rxm/127.0.0.1", "udp;ofi_rxd": "udp;ofi_rxd/127.0.0.1"}

func main() {
	providers := flag.String("providers", "shm,net,tcp;ofi_rxm", "libfabric's providers, with commas")
	rounds := flag.Int("rounds", 5, "how often each is measured")
	small := flag.Int("small", 2000, "round trips of 8 bytes in a round")
	large := flag.Int("large", 200, "round trips of 1 MB in a round")
	side := flag.String("side", "", "of the processes that this starts: DEVICE SIZE COUNT RANK")
	flag.Parse()
	if *side != "" {
		exit(play(strings.Fields(*side)))
		return
	}
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
		t, err := own(devices[p], size, count)
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

// own runs this program twice, and brings each what the other says.
func own(device string, size, count int) (float64, error) {
	var sides [2]*exec.Cmd
	var in [2]*bufio.Scanner
	var out [2]*os.File
	for rank := range sides {
		c := exec.Command("/proc/self/exe", "-side", fmt.Sprint(device, " ", size, " ", count, " ", rank))
		c.Stderr = os.Stderr
		r, w, err := os.Pipe()
		if err != nil {
			return 0, err
		}
		c.Stdin, out[rank] = r, w
		stdout, err := c.StdoutPipe()
		if err != nil {
			return 0, err
		}
		in[rank] = bufio.NewScanner(stdout)
		if err := c.Start(); err != nil {
			return 0, err
		}
		_ = r.Close() // the child has it
		sides[rank] = c
	}
	for rank := range sides {
		if in[rank].Scan() {
			fmt.Fprintln(out[1-rank], in[rank].Text())
		}
	}
	var t float64
	if in[0].Scan() {
		t, _ = strconv.ParseFloat(in[0].Text(), 64)
	}
	for rank, c := range sides {
		_ = out[rank].Close() // that ends it
		if err := c.Wait(); err != nil {
			return 0, err
		}
	}
	if t <= 0 {
		return 0, fmt.Errorf("device %s: no result", device)
	}
	return t, nil
}

// play is one side.
func play(args []string) error {
	size, _ := strconv.Atoi(args[1])
	count, _ := strconv.Atoi(args[2])
	rank, _ := strconv.Atoi(args[3])
	s, err := newSide(rank, args[0], size)
	if err != nil {
		return err
	}
	if err := s.trips(rank, 20); err != nil { // connections are made
		return err
	}
	begin := time.Now()
	if err := s.trips(rank, count); err != nil {
		return err
	}
	if rank == 0 {
		fmt.Println(float64(time.Since(begin).Microseconds()) / float64(2*count))
	}
	go func() { // the other may need this one's polls
		_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
		os.Exit(0)
	}()
	for {
		if _, err := s.queue.Poll(s.seen[:]); err != nil {
			return err
		}
	}
}

type side struct {
	dev    *rdma.Device
	queue  rdma.Queue
	region rdma.Region
	pair   rdma.Pair
	size   int
	seen   [16]rdma.Completion
}

func newSide(rank int, device string, size int) (*side, error) {
	s := &side{size: size}
	var err error
	if s.dev, err = rdma.Open(rank, "ofi", device); err != nil {
		return nil, err
	}
	domain, err := s.dev.NewDomain()
	if err != nil {
		return nil, err
	}
	if s.queue, err = s.dev.NewQueue(64); err != nil {
		return nil, err
	}
	if s.region, err = domain.Register(make([]byte, 2*size), rdma.LocalWrite); err != nil {
		return nil, err
	}
	if s.pair, err = domain.NewPair(rdma.PairConfig{Send: s.queue, Receive: s.queue, SendDepth: 16, ReceiveDepth: 16}); err != nil {
		return nil, err
	}
	if err := s.pair.Prepare(0); err != nil {
		return nil, err
	}
	if err := s.receive(); err != nil {
		return nil, err
	}
	address, err := s.pair.Address()
	if err != nil {
		return nil, err
	}
	if err := json.NewEncoder(os.Stdout).Encode(address); err != nil {
		return nil, err
	}
	var peer rdma.PeerPair
	if err := json.NewDecoder(os.Stdin).Decode(&peer); err != nil {
		return nil, err
	}
	return s, s.pair.Connect(0, peer)
}

func (s *side) receive() error {
	_, err := s.pair.PostReceive([]rdma.Receive{{Segments: []rdma.Segment{s.region.At(s.size, s.size)}}})
	return err
}

func (s *side) send() error {
	_, err := s.pair.Post([]rdma.Request{{Opcode: rdma.Send, Flags: rdma.Signalled, Segments: []rdma.Segment{s.region.At(0, s.size)}}})
	return err
}

// trips sends a message to and fro.
func (s *side) trips(rank, count int) error {
	for range count {
		if rank == 0 {
			if err := s.send(); err != nil {
				return err
			}
		}
		for got := false; !got; {
			n, err := s.queue.Poll(s.seen[:])
			if err != nil {
				return err
			}
			for _, c := range s.seen[:n] {
				if err := c.Status.Err(); err != nil {
					return err
				}
				got = got || c.Opcode == rdma.Received
			}
		}
		if err := s.receive(); err != nil {
			return err
		}
		if rank == 1 {
			if err := s.send(); err != nil {
				return err
			}
		}
	}
	return nil
}
