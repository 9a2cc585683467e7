package restore

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/gorun-mpi/gorun/cr/image"
	"github.com/gorun-mpi/gorun/cr/native/internal/capture"
	"github.com/gorun-mpi/gorun/cr/native/internal/dirty"
	"github.com/gorun-mpi/gorun/cr/native/internal/nativetest"
	"github.com/gorun-mpi/gorun/cr/native/internal/state"
	"github.com/gorun-mpi/gorun/cr/native/internal/trace"
	"github.com/gorun-mpi/gorun/cr/whole"
)

// imagedProgram is a program of which one image after the other is written.
type imagedProgram struct {
	t      *testing.T
	p      *nativetest.Writer
	target *capture.Target
	dir    string
}

func newImagedProgram(t *testing.T) *imagedProgram {
	t.Helper()
	if err := capture.Supported(); err != nil {
		t.Skip(err)
	}
	if err := dirty.Supported(); err != nil {
		t.Skip(err)
	}
	if err := capture.CheckProgram("/proc/self/exe"); err != nil {
		t.Skip(err) // the program is this one, which the race detector is built into
	}
	threads := trace.NewThreads(1)
	t.Cleanup(threads.Close)
	im := &imagedProgram{t: t, p: nativetest.StartWriter(t), dir: t.TempDir()}
	var err error
	std, closeAll := nativetest.StreamsOf(im.p.PID)
	defer closeAll()
	if im.target, err = capture.New(threads).Attach(im.p.PID, 3, -1, std); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { im.target.Close() })
	return im
}

func (im *imagedProgram) path(seq int) string { return filepath.Join(im.dir, strconv.Itoa(seq)) }

// capture writes the image seq, which is to build on base, and checks that the
// chain holds the memory of the copy.
func (im *imagedProgram) capture(base, seq int, opt whole.CaptureOptions) (whole.Copy, image.Summary) {
	im.t.Helper()
	opt.Base, opt.Seq, opt.Track = base, seq, true
	c, err := im.target.Capture(opt)
	for errors.Is(err, trace.ErrBusy) { // deep in the kernel, and the machine is busy
		c, err = im.target.Capture(opt)
	}
	if err != nil {
		im.t.Fatal(err)
	}
	defer c.Release()
	pid := c.PID()
	if opt.NoFork {
		pid = im.p.PID
	}
	truth := nativetest.OwnMemory(im.t, pid)
	m := image.LocalMeta()
	m.Job, m.Incarnation, m.Rank, m.Size, m.Seq = "j", "i", 3, 4, seq
	sum, err := c.Write(image.Path(im.path(seq)), m, image.Options{})
	if err != nil {
		im.t.Fatal(err)
	}
	im.compare(seq, truth)
	return c, sum
}

func (im *imagedProgram) compare(seq int, truth map[uint64][]byte) {
	im.t.Helper()
	chain, err := openChain(image.Path(im.path(seq)), 3, func(seq int) image.Source { return image.Path(im.path(seq)) })
	if err != nil {
		im.t.Fatal(err)
	}
	defer chain.Close()
	windows, _, err := chain.plan()
	if err != nil {
		im.t.Fatal(err)
	}
	restored := &nativetest.PageMap{Pages: map[uint64][]byte{}}
	if err := chain.fill(restored, windows, nil); err != nil {
		im.t.Fatal(err)
	}
	for addr, p := range truth {
		got, ok := restored.Pages[addr]
		if !ok {
			got = nativetest.ZeroPage[:]
		}
		if !bytes.Equal(got, p) {
			im.t.Fatalf("image %d, a chain of %d: page %x is not restored (there: %v)", seq, len(chain), addr, ok)
		}
	}
	for addr, p := range restored.Pages {
		if _, ok := truth[addr]; !ok && !bytes.Equal(p, nativetest.ZeroPage[:]) && !im.ofFile(chain[0].state, addr) {
			im.t.Fatalf("image %d, a chain of %d: page %x was given back and comes back with content", seq, len(chain), addr)
		}
	}
}

// ofFile tells whether the page belongs to a file, whose content is saved where
// the file may be gone.
func (im *imagedProgram) ofFile(s *state.State, addr uint64) bool {
	i, ok := regionAt(s, addr)
	return ok && s.Regions[i].Path != "" && s.Regions[i].Path[0] == '/'
}

// TestChainOfImages writes images of a program that does everything to its
// memory, some of which are lost, and resolves each chain.
func TestChainOfImages(t *testing.T) {
	seeds := 3
	if testing.Short() {
		seeds = 1
	}
	for seed := range seeds {
		t.Run(strconv.Itoa(seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(uint64(seed), 9))
			im := newImagedProgram(t)
			im.p.Ask("seed", 100+seed)
			base, partial := 0, 0
			for seq := 1; seq <= 12; seq++ {
				im.p.Ask("do", 1+r.IntN(60))
				im.p.Ask("alone", 0)
				im.p.Tell("quietly", r.IntN(60))
				c, _ := im.capture(base, seq, whole.CaptureOptions{NoFork: r.IntN(6) == 0})
				im.p.Answer("quietly")
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

// TestIncrementalSize: the image of a process of whose memory 5 % were written holds no more
// than 8 % of the full one, bookkeeping included.
func TestIncrementalSize(t *testing.T) {
	im := newImagedProgram(t)
	megabytes := 256
	if testing.Short() {
		megabytes = 64
	}
	im.p.Ask("noise", megabytes)
	_, full := im.capture(0, 1, whole.CaptureOptions{})
	im.target.Committed(1)
	im.p.Ask("touch", 20)
	_, part := im.capture(1, 2, whole.CaptureOptions{})
	t.Logf("full %d, incremental %d bytes: %.2f %%", full.Size, part.Size, 100*float64(part.Size)/float64(full.Size))
	if part.Size*100 > full.Size*8 {
		t.Errorf("the incremental image has %d bytes, the full one %d", part.Size, full.Size)
	}
}
