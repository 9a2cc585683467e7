package native

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gorun-mpi/gorun/cr/image"
	"github.com/gorun-mpi/gorun/cr/native/internal/proc"
	"github.com/gorun-mpi/gorun/cr/whole"
)

// pageMap is memory that a chain of images is restored into.
type pageMap struct {
	mu    sync.Mutex
	pages map[uint64][]byte
}

func (m *pageMap) poke(p []byte, addr uint64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for at := 0; at < len(p); at += PageSize {
		m.pages[addr+uint64(at)] = bytes.Clone(p[at : at+PageSize])
	}
	return nil
}

// ownMemory reads all pages of a process that are its own.
func ownMemory(t *testing.T, pid int) map[uint64][]byte {
	t.Helper()
	mem, err := os.Open(fmt.Sprintf("/proc/%d/mem", pid))
	if err != nil {
		t.Fatal(err)
	}
	defer mem.Close()
	maps, err := proc.Parsed(pid, "maps", proc.ParseMaps)
	if err != nil {
		t.Fatal(err)
	}
	m := &pageMap{pages: map[uint64][]byte{}}
	for i := range maps {
		r := &maps[i]
		if r.Kernels() || r.Shared {
			continue
		}
		for _, run := range presentPages(t, pid, r) {
			buf := make([]byte, run.N*PageSize)
			start := r.Start + uint64(run.First)*PageSize
			if _, err := mem.ReadAt(buf, int64(start)); err != nil {
				continue // memory without access that was never used
			}
			m.poke(buf, start)
		}
	}
	return m.pages
}

// imagedProgram is a program of which one image after the other is written.
type imagedProgram struct {
	t      *testing.T
	p      *dirtyProgram
	target *target
	dir    string
}

func newImagedProgram(t *testing.T) *imagedProgram {
	t.Helper()
	if err := supported(); err != nil {
		t.Skip(err)
	}
	needFollow(t)
	if err := checkProgram("/proc/self/exe"); err != nil {
		t.Skip(err) // the program is this one, which the race detector is built into
	}
	tr := newTracer(1)
	t.Cleanup(tr.Close)
	im := &imagedProgram{t: t, p: startDirtyProgram(t), dir: t.TempDir()}
	var err error
	if im.target, err = attachTo(tr, im.p.pid, 3, -1); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { im.target.Close() })
	return im
}

func (im *imagedProgram) path(seq int) string { return filepath.Join(im.dir, strconv.Itoa(seq)) }

// capture writes the image seq, which is to build on base, and checks that the
// chain holds the memory of the copy.
func (im *imagedProgram) capture(base, seq int, opt whole.CaptureOptions) (*captured, image.Summary) {
	im.t.Helper()
	opt.Base, opt.Seq, opt.Track = base, seq, true
	c, err := im.target.capture(opt)
	for errors.Is(err, ErrBusy) { // deep in the kernel, and the machine is busy
		c, err = im.target.capture(opt)
	}
	if err != nil {
		im.t.Fatal(err)
	}
	defer c.Release()
	pid := c.PID()
	if opt.NoFork {
		pid = im.p.pid
	}
	truth := ownMemory(im.t, pid)
	m := image.LocalMeta()
	m.Job, m.Incarnation, m.Rank, m.Size, m.Seq = "j", "i", 3, 4, seq
	sum, err := c.Write(im.path(seq), m, image.Options{})
	if err != nil {
		im.t.Fatal(err)
	}
	im.compare(seq, truth)
	return c, sum
}

func (im *imagedProgram) compare(seq int, truth map[uint64][]byte) {
	im.t.Helper()
	chain, err := openChain(im.path(seq), 3, im.path)
	if err != nil {
		im.t.Fatal(err)
	}
	defer chain.Close()
	windows, _, err := chain.plan()
	if err != nil {
		im.t.Fatal(err)
	}
	restored := &pageMap{pages: map[uint64][]byte{}}
	if err := chain.fill(restored, windows); err != nil {
		im.t.Fatal(err)
	}
	for addr, p := range truth {
		got, ok := restored.pages[addr]
		if !ok {
			got = zeroPage[:]
		}
		if !bytes.Equal(got, p) {
			im.t.Fatalf("image %d, a chain of %d: page %x is not restored (there: %v)", seq, len(chain), addr, ok)
		}
	}
	for addr, p := range restored.pages {
		if _, ok := truth[addr]; !ok && !bytes.Equal(p, zeroPage[:]) && !im.ofFile(chain[0].state, addr) {
			im.t.Fatalf("image %d, a chain of %d: page %x was given back and comes back with content", seq, len(chain), addr)
		}
	}
}

// ofFile tells whether the page belongs to a file, whose content is saved where
// the file may be gone.
func (im *imagedProgram) ofFile(s *State, addr uint64) bool {
	i, ok := s.regionAt(addr)
	return ok && s.Regions[i].Path != "" && s.Regions[i].Path[0] == '/'
}

// TestChainOfImages writes images of a program that does everything to its
// memory, some of which are lost, and resolves each chain.
func TestChainOfImages(t *testing.T) {
	for seed := range 3 {
		t.Run(strconv.Itoa(seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(uint64(seed), 9))
			im := newImagedProgram(t)
			im.p.ask("seed", 100+seed)
			base, partial := 0, 0
			for seq := 1; seq <= 12; seq++ {
				im.p.ask("do", 1+r.IntN(60))
				im.p.ask("alone", 0)
				im.p.tell("quietly", r.IntN(60))
				c, _ := im.capture(base, seq, whole.CaptureOptions{NoFork: r.IntN(6) == 0})
				im.p.answer("quietly")
				if c.Base() != base && c.Base() != 0 || c.Base() == 0 && base != 0 && c.Note() == "" {
					t.Errorf("image %d builds on %d instead of %d: %q", seq, c.Base(), base, c.Note())
				}
				if c.Base() > 0 {
					partial++
				}
				if r.IntN(4) > 0 {
					im.target.Committed(seq)
					base = seq
				}
			}
			t.Logf("%d of 12 incremental", partial)
			if partial < 3 {
				t.Error("hardly anything is incremental")
			}
		})
	}
}

// TestIncrementalSize: an image of 256 MB of which 5 % were written holds no more
// than 8 % of the full one, bookkeeping included.
func TestIncrementalSize(t *testing.T) {
	im := newImagedProgram(t)
	im.p.ask("noise", 256)
	_, full := im.capture(0, 1, whole.CaptureOptions{})
	im.target.Committed(1)
	im.p.ask("touch", 20)
	_, part := im.capture(1, 2, whole.CaptureOptions{})
	t.Logf("full %d, incremental %d bytes: %.2f %%", full.Size, part.Size, 100*float64(part.Size)/float64(full.Size))
	if part.Size*100 > full.Size*8 {
		t.Errorf("the incremental image has %d bytes, the full one %d", part.Size, full.Size)
	}
}

// BenchmarkIncremental reports what images of a program with 1 GB cost, of which
// a part is written between them: for how long it stands still (median), and
// how large they are.
func BenchmarkIncremental(b *testing.B) {
	for _, x := range []struct {
		name  string
		track bool
		base  bool
		touch int
	}{
		{"full", false, false, 20}, {"followed", true, false, 20}, {"0%", true, true, 0}, {"5%", true, true, 20}, {"100%", true, true, 1},
	} {
		b.Run(x.name, func(b *testing.B) { benchIncremental(b, x.track, x.base, x.touch) })
	}
}

func benchIncremental(b *testing.B, track, chained bool, touch int) {
	needFollow(b)
	tr := newTracer(1)
	defer tr.Close()
	p := startDirtyProgram(b)
	g, err := attachTo(tr, p.pid, 0, -1)
	if err != nil {
		b.Fatal(err)
	}
	defer g.Close()
	p.ask("noise", 1<<10)
	base := 0
	dir := b.TempDir()
	var pauses []time.Duration
	var size float64
	for seq := 1; seq <= b.N+1; seq++ {
		if touch > 0 {
			p.ask("touch", touch)
		}
		c, err := g.capture(whole.CaptureOptions{Base: base, Seq: seq, Track: track})
		if err != nil {
			b.Fatal(err)
		}
		m := image.LocalMeta()
		m.Seq = seq
		sum, err := c.Write(filepath.Join(dir, "image"), m, image.Options{})
		if err != nil {
			b.Fatal(err)
		}
		c.Release()
		if chained {
			g.Committed(seq)
			base = seq
		}
		if seq > 1 { // the first is full, whatever comes after it
			pauses = append(pauses, c.Pause())
			size += float64(sum.Size)
		}
	}
	slices.Sort(pauses)
	b.ReportMetric(float64(pauses[0].Microseconds())/1e3, "ms-least")
	b.ReportMetric(float64(pauses[len(pauses)/2].Microseconds())/1e3, "ms-pause")
	b.ReportMetric(size/1e6/float64(b.N), "MB-image")
	b.ReportMetric(0, "ns/op")
}

// TestFollowingUnprivileged runs the tests of incremental images once more as an
// ordinary user.
func TestFollowingUnprivileged(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("they all run as an ordinary user")
	}
	needFollow(t)
	const nobody = 65534
	dir, err := victimDir()
	if err != nil {
		t.Fatal(err)
	}
	self, tmp := filepath.Join(dir, "dirty.test"), filepath.Join(dir, "nobody-dirty")
	if err := errors.Join(copyExecutable(self), os.Mkdir(tmp, 0o700), os.Chown(tmp, nobody, nobody)); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, "-test.v", "-test.run=^Test(FollowedMemory|ChainOfImages|Scattered|LostAttempts|Exec|HugePages)$")
	cmd.Dir = tmp
	cmd.Env = append(os.Environ(), "TMPDIR="+tmp, "HOME="+tmp)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}, Pdeathsig: syscall.SIGKILL}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if n := bytes.Count(out, []byte("\n--- PASS: Test")) + bytes.Count(out, []byte("\n--- SKIP: TestHugePages")); n != 6 {
		t.Errorf("%d tests passed:\n%s", n, out)
	}
}
