package restore

import (
	"fmt"
	"os"
	"runtime"
	"testing"

	"github.com/gorun-mpi/gorun/cr/native/internal/nativetest"
	"github.com/gorun-mpi/gorun/cr/native/internal/proc"
	"github.com/gorun-mpi/gorun/cr/whole"
	"github.com/gorun-mpi/gorun/internal/testing/testenv"
)

// familySize is what is counted of a family and of who images it.
type familySize struct {
	processes, threads, regions, files int
	image                              int64
	open                               int    // descriptors of this process
	heap                               uint64 // bytes of this process
}

// TestFamiliesStayTheSame: a pipeline with processes that work for another is imaged, killed and restored time and again, and
// neither it, nor its images, nor who makes them become larger.
func TestFamiliesStayTheSame(t *testing.T) {
	cycles := 15
	if os.Getenv(programsVar) == "all" && !testing.Short() {
		cycles = 30
	}
	python := nativetest.Interpreters["python"]
	if _, err := os.Stat(python); err != nil {
		t.Skip(err)
	}
	tr := newTrip(t, "/usr/bin/bash")
	tr.start("-c", `"$0" -c "$1" | { n=0; while read x; do
		[ "$x" = $((n*n)) ] || { echo "broken $x after $n"; exit 1; }
		n=$((n+1)); echo "step $n"; done; }`, python, `
import itertools, multiprocessing, time
pool = multiprocessing.get_context("fork").Pool(2)
for n in itertools.count(step=4):
    for x in pool.map(abs, [-i * i for i in range(n, n + 4)]):
        print(x, flush=True)
    time.sleep(0.005)
`)
	var early familySize
	for cycle := range cycles {
		tr.next("step")
		img := tr.image(whole.CaptureOptions{})
		tr.kill()
		now := sizeOf(t, img)
		switch {
		case cycle == 4:
			early = now
		case cycle > 4:
			now.within(t, cycle, early)
		}
		tr.restore(img)
		if err := os.Remove(img); err != nil {
			t.Fatal(err)
		}
	}
	tr.next("step")
}

// sizeOf counts.
func sizeOf(t *testing.T, img string) familySize {
	t.Helper()
	var n familySize
	for _, s := range stateOf(t, img).All() {
		n.processes++
		n.threads += len(s.Threads)
		n.regions += len(s.Regions)
		n.files += len(s.Files)
	}
	st, err := os.Stat(img)
	if err != nil {
		t.Fatal(err)
	}
	n.image = st.Size()
	n.open = openHere(t)
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	n.heap = m.HeapAlloc
	return n
}

// openHere counts the descriptors of this process.
func openHere(t *testing.T) int {
	t.Helper()
	fds, err := proc.Numbers("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(fds)
}

// within compares with what was before. Python's heap moves by some pages with what it does at a moment. Goroutines that read what the
// killed program has written close their pipes a moment later.
func (n familySize) within(t *testing.T, cycle int, was familySize) {
	t.Helper()
	testenv.Until(t, func() string {
		if n.open = openHere(t); n.open > was.open {
			return fmt.Sprintf("cycle %d: %d descriptors are open, and %d were", cycle, n.open, was.open)
		}
		return ""
	})
	const image, heap = 2 << 20, 2 << 20
	if n.processes != was.processes || n.threads != was.threads || n.files != was.files || n.regions > was.regions+4 ||
		n.image > was.image+image || n.heap > was.heap+heap {
		t.Fatalf("cycle %d: %+v, and it was %+v", cycle, n, was)
	}
	t.Logf("cycle %d: %+v", cycle, n)
}
