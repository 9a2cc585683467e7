package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// raw measures the machine itself with the bytes of one case.
type raw struct {
	dir      string
	from, to []byte
}

func newRaw(dir string, j job) (*raw, error) {
	r := &raw{dir: filepath.Join(dir, "raw")}
	if err := os.Mkdir(r.dir, 0o700); err != nil {
		return nil, err
	}
	var err error
	if r.from, err = memory(j.bytes()); err == nil {
		r.to, err = memory(j.bytes())
	}
	if err != nil {
		r.close()
		return nil, err
	}
	x := uint64(88172645463325252)
	for i := range r.from { // bytes that no layer below can compress
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		r.from[i] = byte(x)
	}
	r.copy(r.to)
	return r, nil
}

// memory returns n bytes that the kernel has not given to this process yet, in
// huge pages where there are some.
func memory(n int) ([]byte, error) {
	p, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE)
	if err != nil {
		return nil, fmt.Errorf("%d MB of memory: %w", n>>20, err)
	}
	if err := unix.Madvise(p, unix.MADV_HUGEPAGE); err != nil && err != unix.EINVAL { // EINVAL: has none
		return nil, err
	}
	return p, nil
}

func (r *raw) close() {
	for _, p := range [][]byte{r.from, r.to} {
		if p != nil {
			unix.Munmap(p)
		}
	}
	os.RemoveAll(r.dir)
}

// measure times the copies and the write once each.
func (r *raw) measure(j job, all *figures) error {
	begin := time.Now()
	r.copy(r.to)
	all.add(j, "copy warm", time.Since(begin))

	fresh, err := memory(len(r.from))
	if err != nil {
		return err
	}
	begin = time.Now()
	r.copy(fresh)
	all.add(j, "copy fresh", time.Since(begin))
	if err := unix.Munmap(fresh); err != nil {
		return err
	}

	return r.measureWrite(j, all)
}

// measureWrite times the write once.
func (r *raw) measureWrite(j job, all *figures) error {
	begin := time.Now()
	if err := r.write(j.ranks); err != nil {
		return err
	}
	all.add(j, "raw write", time.Since(begin))
	return r.clean()
}

// stretch is the piece that a copier takes at a time.
const stretch = 4 << 20

// copy copies everything to a place, with a goroutine for each CPU.
func (r *raw) copy(to []byte) {
	parts := make(chan int)
	var wg sync.WaitGroup
	for range runtime.NumCPU() {
		wg.Go(func() {
			for from := range parts {
				end := min(from+stretch, len(to))
				copy(to[from:end], r.from[from:end])
			}
		})
	}
	for from := 0; from < len(to); from += stretch {
		parts <- from
	}
	close(parts)
	wg.Wait()
}

// write writes everything to n files at once, fsyncs them and their folder.
func (r *raw) write(n int) error {
	errs := make([]error, n)
	var wg sync.WaitGroup
	each := len(r.from) / n
	for i := range n {
		wg.Go(func() { errs[i] = writeFile(filepath.Join(r.dir, fmt.Sprint(i)), r.from[i*each:(i+1)*each]) })
	}
	wg.Wait()
	d, err := os.Open(r.dir)
	if err != nil {
		return err
	}
	return errors.Join(errors.Join(errs...), d.Sync(), d.Close())
}

func writeFile(name string, p []byte) error {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	for len(p) > 0 && err == nil {
		n := min(len(p), stretch)
		_, err = f.Write(p[:n])
		p = p[n:]
	}
	return errors.Join(err, f.Sync(), f.Close())
}

// clean removes the files, and waits until the disk has nothing left to do.
func (r *raw) clean() error {
	if err := errors.Join(os.RemoveAll(r.dir), os.Mkdir(r.dir, 0o700)); err != nil {
		return err
	}
	d, err := os.Open(r.dir)
	if err != nil {
		return err
	}
	return errors.Join(unix.Syncfs(int(d.Fd())), d.Close())
}
