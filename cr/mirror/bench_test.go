package mirror_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/gorun-mpi/gorun/cr/mirror"
	"github.com/gorun-mpi/gorun/cr/mirror/tcpworld"
)

// BenchmarkEpoch takes epochs of two ranks that hold each other's replicas, over TCP on this machine. Beside what an epoch costs it measures, in the same
// run, the bare link (the same bytes both ways into memory that is in use) and a file (written and fsynced by both at once).
//
//	copy-ms    Start: what the program waits
//	whole-ms   from Start until the epoch is whole everywhere
//	/link      whole by link
//	/disk      whole by file
//	sent-MB    what a rank has sent
func BenchmarkEpoch(b *testing.B) {
	for _, mb := range []int{4, 64, 256} {
		for _, kind := range []string{"memory", "file"} {
			b.Run(fmt.Sprintf("%s/%dMB", kind, mb), func(b *testing.B) { benchEpoch(b, 2, mirror.Ring(1), kind, mb<<20, mb<<20) })
		}
	}
}

// BenchmarkChanged takes epochs in which all of an image changes, and in which one hundredth does, in one place.
func BenchmarkChanged(b *testing.B) {
	const size = 64 << 20
	for _, c := range []struct {
		ranks  int
		policy mirror.Policy
	}{{2, mirror.Ring(1)}, {3, mirror.Code{Data: 2, Parity: 1}}} {
		for _, percent := range []int{100, 1} {
			b.Run(fmt.Sprintf("%v/%d%%", c.policy, percent), func(b *testing.B) { benchEpoch(b, c.ranks, c.policy, "memory", size, size*percent/100) })
		}
	}
}

// benchEpoch takes epochs of some ranks, each of so many bytes of which some change.
func benchEpoch(b *testing.B, ranks int, policy mirror.Policy, kind string, size, changes int) {
	dir := b.TempDir()
	target := mirror.Memory()
	if kind == "file" {
		target = mirror.File(dir)
	}
	var copied, whole, link, disk time.Duration
	var sent int64
	processes(ranks, 0, func(world *mirror.World, _ *tcpworld.World) error {
		return mirror.Run(world, func(ctx context.Context) error {
			x := make([]byte, size)
			d, _, err := openBench(ctx, world, mirror.Options{Target: target, Policy: policy}, &x)
			if err != nil {
				return err
			}
			for i := range b.N + 2 {
				for k := 0; k < changes; k += 4096 {
					x[k] = byte(i)
				}
				if err := cmpErr(d.Start(ctx), commit(ctx, d)); err != nil {
					return err
				}
				if s := d.Stats(); i >= 2 && world.Rank() == 0 { // both slots are in use by then
					copied += s.StartMost
					whole += s.Whole
					sent += s.Sent
				}
			}
			return nil
		})
	})
	raw := newRaw(b, size, dir)
	defer raw.close()
	for range b.N {
		link += raw.both(raw.send)
		disk += raw.both(raw.write)
	}
	n := float64(b.N)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(copied.Seconds()*1000/n, "copy-ms")
	b.ReportMetric(whole.Seconds()*1000/n, "whole-ms")
	b.ReportMetric(float64(sent)/n/(1<<20), "sent-MB")
	b.ReportMetric(float64(whole)/float64(link), "/link")
	b.ReportMetric(float64(whole)/float64(disk), "/disk")
}

func openBench(ctx context.Context, world *mirror.World, o mirror.Options, x *[]byte) (*mirror.Description, int, error) {
	d, err := mirror.Open(world, "bench", o)
	if err != nil {
		return nil, 0, err
	}
	if err := d.Region("x", x); err != nil {
		return nil, 0, err
	}
	epoch, err := d.Restore(ctx)
	return d, epoch, err
}

// raw is two that send each other bytes, and write them, without anything else.
type raw struct {
	b     *testing.B
	conns [2]net.Conn
	out   [2][]byte
	in    [2][]byte
	files [2]*os.File
}

func newRaw(b *testing.B, size int, dir string) *raw {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer ln.Close()
	r := &raw{b: b}
	if r.conns[0], err = net.Dial("tcp", ln.Addr().String()); err != nil {
		b.Fatal(err)
	}
	if r.conns[1], err = ln.Accept(); err != nil {
		b.Fatal(err)
	}
	for i := range 2 {
		r.out[i], r.in[i] = make([]byte, size), make([]byte, size)
		for k := range r.out[i] {
			r.out[i][k], r.in[i][k] = byte(k), 1
		}
		if r.files[i], err = os.Create(filepath.Join(dir, fmt.Sprint("raw", i))); err != nil {
			b.Fatal(err)
		}
	}
	return r
}

func (r *raw) close() {
	for i := range 2 {
		r.conns[i].Close()
		r.files[i].Close()
	}
}

// both has both do something, and tells how long that takes.
func (r *raw) both(f func(i int) error) time.Duration {
	began := time.Now()
	var wg sync.WaitGroup
	for i := range 2 {
		wg.Go(func() {
			if err := f(i); err != nil {
				r.b.Error(err)
			}
		})
	}
	wg.Wait()
	return time.Since(began)
}

func (r *raw) send(i int) error {
	sent := make(chan error)
	go func() {
		_, err := r.conns[i].Write(r.out[i])
		sent <- err
	}()
	_, err := io.ReadFull(r.conns[i], r.in[i])
	return cmpErr(<-sent, err)
}

func (r *raw) write(i int) error {
	_, err := r.files[i].WriteAt(r.out[i], 0)
	return cmpErr(err, r.files[i].Sync())
}
