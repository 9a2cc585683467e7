package dirty

import (
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/cr/native/internal/nativetest"
	"github.com/gorun-mpi/gorun/cr/native/internal/pages"
	"github.com/gorun-mpi/gorun/cr/native/internal/proc"
)

// dirtyModel is a chain of images of the program, as hashes of pages.
type dirtyModel struct {
	t    *testing.T
	p    *nativetest.Writer
	hash maphash.Hash
	tr   Tracker
	// pages is what the newest snapshot resolves to, through all it builds on.
	pages                   map[uint64]uint64
	seq, base               int
	full, partial           int // captures
	same, unchanged, actual int // pages: marked unchanged, and truly so
}

// capture takes a snapshot of the stopped program: it resolves what the image
// would hold, and compares that with the memory.
func (m *dirtyModel) capture(s Process) map[uint64]uint64 {
	m.t.Helper()
	m.seq++
	c, err := m.tr.Scan(s, m.base, m.seq)
	if err != nil {
		m.t.Log("full:", err)
	}
	if c == nil {
		m.full++
	} else {
		m.partial++
	}
	maps, err := proc.Parsed(s.PID, "maps", proc.ParseMaps)
	if err != nil {
		m.t.Fatal(err)
	}
	next := map[uint64]uint64{}
	for i := range maps {
		if r := &maps[i]; r.Prot != 0 && !r.Shared && r.Anonymous() && (r.Path == "" || r.Path[0] != '[' || followable(r)) {
			m.region(r, c, next)
		}
	}
	return next
}

func (m *dirtyModel) region(r *proc.Mapping, c *Changes, next map[uint64]uint64) {
	m.t.Helper()
	for _, run := range nativetest.PresentPages(m.t, m.p.PID, r) {
		buf := make([]byte, run.N*pages.Size)
		start := r.Start + uint64(run.First)*pages.Size
		if _, err := m.p.Mem.ReadAt(buf, int64(start)); err != nil {
			m.t.Fatalf("%x: %v", start, err)
		}
		for i := range run.N {
			m.page(start+uint64(i)*pages.Size, buf[i*pages.Size:(i+1)*pages.Size], c, next)
		}
	}
}

func (m *dirtyModel) page(addr uint64, p []byte, c *Changes, next map[uint64]uint64) {
	m.t.Helper()
	var set pages.Set
	window := addr / pages.Window * pages.Window
	c.Unchanged(window, &set)
	is := m.sum(p)
	was, there := m.pages[addr]
	if !there {
		was = m.sum(nativetest.ZeroPage[:])
	}
	next[addr] = is
	if was == is && there && c != nil {
		m.same++
	}
	if !set.Has(int(addr-window) / pages.Size) {
		return
	}
	m.unchanged++
	if was != is {
		m.t.Fatalf("snapshot %d on %d: page %x is said to be unchanged", m.seq, m.base, addr)
	}
}

func (m *dirtyModel) sum(p []byte) uint64 {
	m.hash.Reset()
	m.hash.Write(p)
	return m.hash.Sum64()
}

// TestFollowedMemory lets a program do everything to its memory that changes it,
// takes snapshots between, some of them lost, and checks that the chain always
// resolves to the memory as it was.
func TestFollowedMemory(t *testing.T) {
	if err := Supported(); err != nil {
		t.Skip(err)
	}
	for seed := range 6 {
		t.Run(strconv.Itoa(seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(uint64(seed), 3))
			m := &dirtyModel{t: t, p: nativetest.StartWriter(t)}
			defer m.tr.Close()
			m.p.Ask("seed", seed)
			for range 30 {
				m.p.Ask("do", 1+r.IntN(60))
				next := m.capture(stood(m.p, m.tr.begun))
				if r.IntN(5) > 0 { // committed
					m.tr.Commit(m.seq)
					m.base, m.pages = m.seq, next
				}
				m.p.Resume()
			}
			t.Logf("%d full, %d incremental; %d of %d unchanged pages found", m.full, m.partial, m.unchanged, m.same)
			if m.partial < 10 || m.unchanged < m.same/2 {
				t.Error(fmt.Errorf("hardly anything is incremental"))
			}
		})
	}
}

// BenchmarkFollow measures what following 1 GB adds to a pause: taking it up,
// and finding nothing, 5 %, and everything written. It is the time of the
// processor, whatever else runs.
func BenchmarkFollow(b *testing.B) {
	needFollow(b)
	for _, x := range []struct {
		name  string
		touch int // every n-th page between captures
	}{{"begin", -1}, {"0%", 0}, {"5%", 20}, {"50%", 2}, {"100%", 1}} {
		b.Run(x.name, func(b *testing.B) { benchFollow(b, x.touch) })
	}
}

func benchFollow(b *testing.B, touch int) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	p := nativetest.StartWriter(b)
	p.Ask("fill", 1<<10)
	var tr Tracker
	defer func() { tr.Close() }()
	snap(p, &tr, 0, 1)
	var paused []time.Duration
	for range b.N {
		if touch < 0 {
			tr.Close()
		} else if touch > 0 {
			p.Ask("touch", touch)
		}
		s := stood(p, tr.begun)
		start := threadTime(b)
		if _, err := tr.Scan(s, 0, 1); err != nil {
			b.Fatal(err)
		}
		paused = append(paused, threadTime(b)-start)
		p.Resume()
	}
	slices.Sort(paused)
	b.ReportMetric(float64(paused[len(paused)/2].Microseconds())/1e3, "ms-pause")
	b.ReportMetric(0, "ns/op")
}

func threadTime(b *testing.B) time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts); err != nil {
		b.Fatal(err)
	}
	return time.Duration(ts.Nano())
}
