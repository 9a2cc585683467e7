package launcher

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/gorun-mpi/gorun/cr/snapshot"
	"github.com/gorun-mpi/gorun/internal/oob"
)

// backAgain is an incarnation whose ranks are to come back, without agents.
func backAgain(np int) *incarnation {
	h := &head{opt: Options{NP: np}, events: make(chan func(), 16), done: make(chan struct{})}
	inc, err := newIncarnation(h, nil)
	if err != nil {
		panic(err)
	}
	inc.from = &snapshot.Snapshot{Schema: &snapshot.Schema{Backend: "native"}}
	h.inc = inc
	inc.expectBack()
	inc.back.timer.Stop() // the test says when time is up
	return inc
}

// A restart in which nothing moves names who is late and how far he is, unless
// somebody is being debugged.
func TestNotBack(t *testing.T) {
	inc := backAgain(3)
	for rank := range 2 {
		inc.restored(rank)
	}
	if text := inc.missing(); text != "rank 2 (rank 2 is not restored yet)" || inc.back.let {
		t.Errorf("%s; let go: %v", text, inc.back.let)
	}
	inc.restored(2)
	if !inc.back.let {
		t.Error("not let go when all are restored")
	}
	for rank, p := range []phase{phaseUp, phaseSpawned, phaseNone} {
		for q := phaseSpawned; q <= p; q++ {
			inc.reach(rank, q)
		}
	}
	inc.back.held[2] = true
	if inc.notBack(); inc.ending != nil {
		t.Fatalf("given up while rank 2 is held: %s", inc.ending.text)
	}
	delete(inc.back.held, 2)
	inc.notBack()
	if inc.ending == nil {
		t.Fatal("not given up")
	}
	for _, want := range []string{"ranks 1-2", "rank 1 was let go and has not spoken since", "1m0s"} {
		if !strings.Contains(inc.ending.text, want) {
			t.Errorf("%q lacks %q", inc.ending.text, want)
		}
	}
	if !inc.ending.died {
		t.Error("-restarts does not apply")
	}
}

func TestNotBackTooLate(t *testing.T) {
	inc := backAgain(2)
	for rank := range 2 {
		inc.reach(rank, phaseUp)
	}
	if inc.notBack(); inc.ending != nil {
		t.Errorf("given up when all are up: %s", inc.ending.text)
	}
}

// The gate is closed from the first order to close to the first to open, or to
// the end of an attempt that never opens it.
func TestGate(t *testing.T) {
	for _, end := range []oob.Kind{oob.Open, oob.Commit, oob.Revert} {
		var g gate
		g.passed(oob.Close)
		began := g.closed
		g.passed(oob.Close)
		if g.closed != began || g.so() <= 0 {
			t.Errorf("closed at %v, then at %v", began, g.closed)
		}
		g.passed(end)
		took := g.took
		g.passed(oob.Commit)
		if took <= 0 || g.took != took || g.so() != took {
			t.Errorf("%v, then %v", took, g.took)
		}
	}
}

func TestReport(t *testing.T) {
	r := Report{Sequence: 4, Backend: "native", Ranks: 2, Bytes: 1_500_000, Base: 3, Pause: 2 * time.Millisecond, Gate: 5 * time.Millisecond, Took: time.Second}
	const want = "snapshot 4: native, 2 ranks, 1.5 MB beside snapshot 3, a rank stood still for at most 2ms, no messages for 5ms, committed after 1s"
	if got := r.String(); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}

func TestCanImage(t *testing.T) {
	if _, err := canImage("nosuch", "/bin/true"); err == nil || !strings.Contains(err.Error(), "it has: native") {
		t.Errorf("%v", err)
	}
	by, err := FindImager(defaultImager)
	if err != nil || by.Supported() != nil {
		t.Skip("native images do not work here")
	}
	if code, err := canImage(defaultImager, "/bin/true"); code != ExitCannotExec || err == nil {
		t.Errorf("of /bin/true: %d %v", code, err)
	}
	var e *exitError
	inc := &incarnation{h: &head{opt: Options{CR: defaultImager}, prog: program{path: "/bin/true"}}}
	inc.machine = backAgain(1).machine
	if err := inc.imageable(); !errors.As(err, &e) || e.code != ExitCannotExec {
		t.Errorf("-cr=native of /bin/true: %v", err)
	}
	inc.h.opt.CR = CRAuto
	if err := inc.imageable(); err != nil || inc.imager != "" {
		t.Errorf("-cr=auto of /bin/true: %v, %q", err, inc.imager)
	}
}

// scarce is a Manager that can start nothing.
type scarce struct{ Manager }

var errScarce = errors.New("too many open files")

func (scarce) Start(int, int) (Agent, error) { return nil, errScarce }

// A job whose agents cannot be started ends with the reason.
func TestNoAgents(t *testing.T) {
	h := &head{
		opt:    Options{NP: 2, Agents: 1, Manager: scarce{}},
		events: make(chan func(), 16), done: make(chan struct{}),
	}
	h.start(nil)
	if h.result == nil || h.result.code != ExitFailed || h.result.text != errScarce.Error() {
		t.Errorf("%+v", h.result)
	}
}
