package jobtest_test

import (
	"bytes"
	"os"
	"runtime"
	"testing"

	"github.com/gorun-mpi/gorun/internal/testing/jobtest"
	"github.com/gorun-mpi/gorun/internal/testing/testenv"
	"github.com/gorun-mpi/gorun/mpi"
)

// use is what a process has of the system, and of memory.
type use struct{ descriptors, mappings, goroutines, heap int }

func used(t *testing.T) (u use) {
	t.Helper()
	runtime.GC()
	runtime.GC() // what finalizers and pools have kept
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	return use{len(fds), bytes.Count(maps, []byte("gorun-shm")), runtime.NumGoroutine(), int(m.HeapAlloc)}
}

// TestMovesDoNotAddUp moves the ranks of a job around, most of which live through all of it. They have no more of
// anything in the end than after the first moves. GORUN_MOVES sets how often they move.
func TestMovesDoNotAddUp(t *testing.T) {
	const n = 3
	places := [][]int{{0, 0, 0}, {0, 0, 1}, {0, 1, 0}, {1, 0, 0}, {0, 1, 2}}
	opt := jobtest.Options{Dir: t.TempDir(), RPI: []string{"shm", "tcp"}, Nodes: places[0]}
	c := jobtest.New(n, opt)
	release := make(chan struct{})
	wait := ranks(c, func(w *mpi.Comm) error { return standing(w, release) })
	until(func() bool { return held(c, 0) > 0 && held(c, 1) > 0 && held(c, 2) > 0 })
	move := func(i int) {
		c.Move(places[i%len(places)])
		m := jobtest.Moves{Ranks: []int{i % n}}
		if i%7 == 0 {
			m.Failing, m.Revert = []int{i % (4 * n)}, i%2 == 0
		}
		if err := c.Migrate(m, "shm", "tcp"); err != nil {
			t.Fatal(err)
		}
	}
	moves := testenv.Number(t, "GORUN_MOVES", 300)
	if raceEnabled || testing.Short() {
		moves /= 4
	}
	first := len(places) * 10 // a whole tour: the same place is compared
	for i := range first + 1 {
		move(i)
	}
	before := used(t)
	last := first + moves/len(places)*len(places)
	for i := first + 1; i <= last; i++ {
		move(i)
	}
	after := used(t)
	more := func() bool {
		return after.descriptors > before.descriptors || after.mappings > before.mappings || after.goroutines > before.goroutines
	}
	for tries := 0; more() && tries < 100; tries++ { // something may be about to end
		runtime.Gosched()
		after = used(t)
	}
	close(release)
	if err := wait(); err != nil {
		t.Fatal(err)
	}
	c.Stop()
	t.Logf("%+v before, %+v after %d moves", before, after, last-first)
	if more() {
		t.Errorf("%+v before, %+v after", before, after)
	}
	if most := before.heap + 1<<20; after.heap > most {
		t.Errorf("a heap of %d bytes, and of %d after %d moves", before.heap, after.heap, last-first)
	}
}

// standing is a program whose ranks stand in receives until released, short and long messages on their way.
func standing(w *mpi.Comm, release chan struct{}) error {
	me, n := w.Rank(), w.Size()
	var all []mpi.Request
	const long = 200_000
	for tag := range 2 {
		r, err := mpi.Isend(w, message([]int{10, long}[tag], me), (me+1)%n, tag)
		if err != nil {
			return err
		}
		all = append(all, r)
	}
	over := make(chan error, 1)
	go func() { // it waits from the beginning
		_, err := mpi.Recv(w, make([]int32, 1), (me+n-1)%n, 2)
		over <- err
	}()
	<-release
	for tag := range 2 {
		p := make([]int32, []int{10, long}[tag])
		if _, err := mpi.Recv(w, p, (me+n-1)%n, tag); err != nil {
			return err
		}
		if err := expect(p, (me+n-1)%n); err != nil {
			return err
		}
	}
	if err := mpi.Send(w, []int32{1}, (me+1)%n, 2); err != nil {
		return err
	}
	for _, r := range all {
		if _, err := r.Wait(); err != nil {
			return err
		}
	}
	return <-over
}
