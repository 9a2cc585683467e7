package self

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/cr/image"
)

// noise fills n float64 with what no codec makes smaller.
func noise(n int) []float64 {
	x := make([]float64, n)
	s := uint64(88172645463325252)
	for i := range x {
		s ^= s << 13
		s ^= s >> 7
		s ^= s << 17
		x[i] = float64(s)
	}
	return x
}

// BenchmarkPause compares the pause of 256 MB with plain copies by one
// goroutine, to memory that was touched before and to fresh memory of the heap.
func BenchmarkPause(b *testing.B) {
	const n = 256 << 20
	x := noise(n / 8)
	b.Run("warm", func(b *testing.B) {
		b.SetBytes(n)
		y := make([]float64, len(x))
		copy(y, x)
		for b.Loop() {
			copy(y, x)
		}
	})
	b.Run("heap", func(b *testing.B) {
		b.SetBytes(n)
		for b.Loop() {
			y, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
			if err != nil {
				b.Fatal(err)
			}
			for i := 0; i < n; i += 8 << 20 {
				copy(y[i:i+8<<20], floatBytes(x[i/8:]))
			}
			unix.Munmap(y)
		}
	})
	for _, mode := range []string{"first", "prepared", "again"} {
		b.Run("copy-"+mode, func(b *testing.B) {
			b.SetBytes(n)
			r := &Registry{}
			defer r.Close()
			if err := r.Register("x", &x); err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				b.StopTimer()
				if mode != "again" {
					r.Close()
				}
				if mode == "prepared" {
					if err := r.Prepare(); err != nil {
						b.Fatal(err)
					}
				}
				b.StartTimer()
				c, err := r.Copy()
				if err != nil {
					b.Fatal(err)
				}
				b.StopTimer()
				c.Release()
				b.StartTimer()
			}
		})
	}
}

func floatBytes(x []float64) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(&x[0])), 8*len(x))
}

// BenchmarkSmallPause is the pause of a job of many small variables.
func BenchmarkSmallPause(b *testing.B) {
	r := &Registry{}
	defer r.Close()
	for i := range 100 {
		if err := r.Register(fmt.Sprint("i", i), new(int)); err != nil {
			b.Fatal(err)
		}
		s := "text"
		if err := r.Register(fmt.Sprint("s", i), &s); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		c, err := r.Copy()
		if err != nil {
			b.Fatal(err)
		}
		c.Release()
	}
}

// The benchmark of commits runs this test binary again, once for each rank.
const childEnv = "GORUN_SELF_BENCH"

func TestMain(m *testing.M) {
	if path := os.Getenv(childEnv); path != "" {
		if err := child(path, os.Getenv(childEnv+"_HOW"), os.Getenv(childEnv+"_SIZE")); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// child makes its data, says so, waits for a byte, writes, and says so.
func child(path, how, size string) error {
	n, err := strconv.Atoi(size)
	if err != nil {
		return err
	}
	x := noise(n / 8)
	r := &Registry{}
	if err := r.Register("x", &x); err != nil {
		return err
	}
	c, err := r.Copy()
	if err != nil {
		return err
	}
	fmt.Println("ready")
	if _, err := io.ReadFull(os.Stdin, make([]byte, 1)); err != nil {
		return err
	}
	if how == "raw" {
		err = rawWrite(path, c.sections[0].data)
	} else {
		opt := image.Options{NoDirect: how == "cached", Codec: image.None}
		if how == "snappy" || how == "zstd" {
			opt.Codec = image.Codec(how)
		}
		_, err = c.Write(image.Path(path), image.LocalMeta(), nil, opt, nil, nil)
	}
	fmt.Println("done")
	return err
}

// rawWrite is what the disk is measured by: one plain sequential write of 1 MB
// at a time, and fsync.
func rawWrite(path string, p []byte) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	for len(p) > 0 {
		n, err := f.Write(p[:min(1<<20, len(p))])
		if err != nil {
			return err
		}
		p = p[n:]
	}
	return f.Sync()
}

// BenchmarkCommit writes the images of several processes at once, beside the raw
// speed of the same disk. Run it with -benchtime 5x or so: each round makes new
// data first.
func BenchmarkCommit(b *testing.B) {
	for _, load := range []struct{ ranks, size int }{{4, 256 << 20}, {64, 1 << 20}} {
		for _, how := range []string{"raw", "direct", "cached", "snappy", "zstd"} {
			b.Run(fmt.Sprintf("%dx%dMB/%s", load.ranks, load.size>>20, how), func(b *testing.B) {
				b.SetBytes(int64(load.ranks * load.size))
				var spent time.Duration
				for range b.N {
					d, err := round(b.TempDir(), how, load.ranks, load.size)
					if err != nil {
						b.Fatal(err)
					}
					spent += d
				}
				b.ReportMetric(float64(load.ranks*load.size)*float64(b.N)/1e6/spent.Seconds(), "commitMB/s")
				b.ReportMetric(spent.Seconds()*1e3/float64(b.N), "commit-ms")
			})
		}
	}
}

// round runs the processes and returns the time from go to the last done.
func round(dir, how string, ranks, size int) (time.Duration, error) {
	defer os.RemoveAll(dir)
	type proc struct {
		cmd *exec.Cmd
		in  io.WriteCloser
		out *bufio.Reader
	}
	var procs []proc
	var errs []error
	for i := range ranks {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), childEnv+"="+filepath.Join(dir, fmt.Sprint("img", i)), childEnv+"_HOW="+how, childEnv+"_SIZE="+strconv.Itoa(size))
		cmd.Stderr = os.Stderr
		in, err := cmd.StdinPipe()
		out, err2 := cmd.StdoutPipe()
		if err := errors.Join(err, err2, cmd.Start()); err != nil {
			return 0, err
		}
		procs = append(procs, proc{cmd, in, bufio.NewReader(out)})
	}
	say := func(p proc) {
		if _, err := p.out.ReadString('\n'); err != nil {
			errs = append(errs, err)
		}
	}
	for _, p := range procs {
		say(p)
	}
	start := time.Now()
	for _, p := range procs {
		p.in.Write([]byte{1})
	}
	for _, p := range procs {
		say(p)
	}
	d := time.Since(start)
	for _, p := range procs {
		p.in.Close()
		errs = append(errs, p.cmd.Wait())
	}
	return d, errors.Join(errs...)
}
