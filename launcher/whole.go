package launcher

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/gorun-mpi/gorun/cr/snapshot"
	"github.com/gorun-mpi/gorun/internal/ckpt"
	"github.com/gorun-mpi/gorun/internal/exact"
	"github.com/gorun-mpi/gorun/internal/oob"
)

// The head's part in images of whole processes: whether they can be had, what a
// restart from them needs, and how long it may take.

// CRAuto leaves the choice between portable images and those of whole processes
// to each checkpoint.
const CRAuto = "auto"

// defaultImager is the back-end that auto uses.
const defaultImager = "native"

// imagerName is the back-end for images of whole processes that a job uses, ""
// if it wants none.
func imagerName(cr string) string {
	switch cr {
	case "", backendSelf:
		return ""
	case CRAuto:
		return defaultImager
	}
	return cr
}

// mode is how the job is to be checkpointed.
func (o *Options) mode() uint64 {
	switch o.CR {
	case backendSelf:
		return oob.ModeSelf
	case CRAuto:
		return oob.ModeAuto
	}
	return oob.ModeNative
}

// imageable finds out whether the program, which is there by now, can be imaged
// from outside. A job that insists on it does not start without.
func (inc *incarnation) imageable() error {
	o := &inc.h.opt
	name := imagerName(o.CR)
	if name == "" {
		return nil
	}
	code, err := canImage(name, inc.program())
	if err == nil {
		inc.imager = name
		inc.step(ckpt.HeadEvent{Type: ckpt.HvNative})
		return nil
	}
	inc.step(ckpt.HeadEvent{Type: ckpt.HvNative, Err: err.Error()})
	if o.CR == CRAuto {
		inc.h.verbose("whole processes cannot be imaged, only what programs register (package cr): %v", err)
		return nil
	}
	return &exitError{code, fmt.Errorf("-cr=%s: %w", o.CR, err)}
}

func canImage(name, program string) (code int, err error) {
	by, err := FindImager(name)
	if err == nil {
		err = by.Supported()
	}
	if err != nil {
		return ExitFailed, err
	}
	return ExitCannotExec, by.CheckProgram(program)
}

// wholeFrom reports whether an incarnation begins with images of whole processes.
func (inc *incarnation) wholeFrom() bool {
	return inc.from != nil && inc.from.Schema.Backend != backendSelf
}

// program is the path of what the ranks execute. An image of a whole process
// goes on in the very executable that it was made from.
func (inc *incarnation) program() string {
	if inc.wholeFrom() {
		return inc.from.ProgramPath()
	}
	return inc.h.prog.path
}

// findChain finds what the images that the incarnation begins with build on.
func (inc *incarnation) findChain() (err error) {
	if inc.wholeFrom() {
		inc.chain, err = inc.from.Chain()
	}
	return err
}

// chainOf lists, for some ranks, the images that theirs build on.
func (inc *incarnation) chainOf(from, to int) map[int]map[int]exact.String {
	all := map[int]map[int]exact.String{}
	for rank := from; rank < to; rank++ {
		all[rank] = map[int]exact.String{}
		for _, s := range inc.chain[1:] {
			all[rank][s.Schema.Sequence] = exact.String(inc.from.BasePath(rank, s.Schema.Sequence))
		}
	}
	return all
}

// checkRestart says why a snapshot cannot go on here, before anything is
// started: an image is not whole, the machine lacks something, or its output
// files are somebody's.
func checkRestart(s *snapshot.Snapshot, files FilesPolicy) error {
	// What is in the images is checked as it is read.
	if err := s.Check(); err != nil {
		return err
	}
	if s.Schema.Backend == backendSelf {
		return nil
	}
	by, err := FindImager(s.Schema.Backend)
	if err == nil {
		err = by.Supported()
	}
	if err != nil {
		return fmt.Errorf("%s: its images are of back-end %s: %w", s.SchemaPath(), s.Schema.Backend, err)
	}
	if s.ProgramPath() == "" {
		return fmt.Errorf("%s: its executable was not kept with it, without which images of whole processes cannot go on", s.SchemaPath())
	}
	return by.CheckRestart(imagesOf(s), files)
}

// imagesOf lists the images of a snapshot by rank.
func imagesOf(s *snapshot.Snapshot) []string {
	images := make([]string, s.Schema.NP)
	for rank := range images {
		images[rank] = s.ImagePath(rank)
	}
	return images
}

// restarting watches that ranks come back: whoever brings the start-up forward
// gives all another while.
type restarting struct {
	timer *time.Timer
	limit time.Duration
	held  map[int]bool // ranks that wait for a debugger: while there are any no time counts

	made map[int]bool // ranks that are restored
	let  bool         // all are, and were let go
}

// waits reports whether ranks, as far as there are any, stand before their first step.
func (r *restarting) waits() bool { return r.timer != nil && !r.let }

// restored notes that a rank is, and lets all go when all are. That none goes
// before leaves the user's files and terminal alone if one cannot be restored.
func (inc *incarnation) restored(rank int) {
	inc.back.made[rank] = true
	inc.cameOn()
	if inc.ending != nil || inc.back.let || len(inc.back.made) < len(inc.ranks) {
		return
	}
	inc.back.let = true
	inc.h.verbose("ranks restored: %d", len(inc.ranks))
	inc.everyone(oob.Msg{Kind: oob.Start})
}

const (
	comeBackLimit = time.Minute
	slowestRead   = 20 << 20 // bytes a second
)

func (inc *incarnation) expectBack() {
	var most uint64
	for _, im := range inc.from.Schema.Images {
		most += im.Raw
	}
	inc.back.limit = comeBackLimit + time.Duration(most/slowestRead)*time.Second
	inc.back.held, inc.back.made = map[int]bool{}, map[int]bool{}
	inc.back.timer = inc.h.after(inc.back.limit, inc.notBack)
}

// notBack ends an incarnation whose ranks do not come back.
func (inc *incarnation) notBack() {
	if inc.ending != nil || inc.count[phaseUp] == len(inc.ranks) {
		return
	}
	if len(inc.back.held) > 0 {
		inc.back.timer.Reset(inc.back.limit)
		return
	}
	inc.fail(verdict{code: ExitFailed, rank: -1, died: true, text: fmt.Sprintf(
		"the restart was given up, because for %v nothing has moved: %s", inc.back.limit, inc.missing())})
}

// missing names the ranks that have not come back, and says how far the first is.
func (inc *incarnation) missing() string {
	var late []int
	for rank := range inc.ranks {
		if inc.ranks[rank].phase < phaseUp && (inc.back.let || !inc.back.made[rank]) {
			late = append(late, rank)
		}
	}
	is := map[phase]string{
		phaseNone: "is not restored yet", phaseSpawned: "was let go and has not spoken since",
		phaseGreeted: "has not told its address", phaseAddress: "has not connected to the others",
	}
	if len(late) == 0 {
		return "some have ended already"
	}
	first := late[0]
	how := is[inc.ranks[first].phase]
	if inc.back.made[first] && inc.ranks[first].phase == phaseNone {
		how = "is restored and was not let go by its agent"
	}
	return fmt.Sprintf("%s (rank %d %s)", rankList(late), first, how)
}

// cameOn notes that a rank has brought the restart forward.
func (inc *incarnation) cameOn() {
	if inc.back.timer != nil {
		inc.back.timer.Reset(inc.back.limit)
	}
}

// holding tells the user of a rank that waits for a debugger.
func (inc *incarnation) holding(rank, pid int, held bool) {
	if !held {
		delete(inc.back.held, rank)
		inc.cameOn()
		inc.h.verbose("rank %d goes on", rank)
		return
	}
	inc.back.held[rank] = true
	inc.h.say("rank %d is held before it goes on, pid %d on %s; to debug it: dlv attach %d; to let it go on: kill -CONT %d",
		rank, pid, inc.ranks[rank].link.agent.Host(), pid, pid)
}

// gate measures for how long nobody could send a message.
type gate struct {
	closed time.Time
	took   time.Duration // of the newest attempt
}

// passed looks at a frame that the machine sends.
func (g *gate) passed(k oob.Kind) {
	switch k {
	case oob.Close:
		if g.closed.IsZero() {
			g.closed, g.took = time.Now(), 0
		}
	case oob.Open, oob.Commit, oob.Revert:
		if !g.closed.IsZero() {
			g.took, g.closed = time.Since(g.closed), time.Time{}
		}
	}
}

// so is what the gate has been closed for up to now.
func (g *gate) so() time.Duration {
	if !g.closed.IsZero() {
		return time.Since(g.closed)
	}
	return g.took
}

// A Report is what became of a checkpoint.
type Report struct {
	Schema   exact.String  `json:"schema"`
	Sequence int           `json:"sequence"`
	Backend  string        `json:"backend"`
	Ranks    int           `json:"ranks"`
	Base     int           `json:"base,omitempty"`  // the snapshot it builds on; 0: it is full
	Bytes    int64         `json:"bytes"`           // of all images
	Memory   uint64        `json:"memory"`          // of the ranks, as far as it is in the images
	Pause    time.Duration `json:"pause,omitempty"` // the longest for which a rank stood still to be copied
	Gate     time.Duration `json:"gate"`            // for which no message could be sent
	Took     time.Duration `json:"took"`            // from the request to the commit
	Notes    []string      `json:"notes,omitempty"` // what the user ought to know
}

// String is the report in one line, without what Notes says.
func (r *Report) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "snapshot %d: %s, %d ranks, %.1f MB", r.Sequence, r.Backend, r.Ranks, float64(r.Bytes)/1e6)
	if r.Base > 0 {
		fmt.Fprintf(&b, " beside snapshot %d", r.Base)
	}
	if r.Pause > 0 {
		fmt.Fprintf(&b, ", a rank stood still for at most %v", r.Pause.Round(10*time.Microsecond))
	}
	fmt.Fprintf(&b, ", no messages for %v, committed after %v", r.Gate.Round(10*time.Microsecond), r.Took.Round(time.Millisecond))
	return b.String()
}

// report describes the snapshot that was committed last.
func (h *head) report(d *ckpt.Done) *Report {
	c := h.chain[len(h.chain)-1]
	s := c.snap
	r := &Report{
		Schema: exact.String(s.SchemaPath()), Sequence: s.Schema.Sequence, Backend: s.Schema.Backend, Ranks: s.Schema.NP,
		Base: d.Base, Bytes: s.Bytes(), Pause: d.Pause, Gate: time.Duration(s.Schema.Gate), Notes: d.Notes,
		Took: time.Since(h.waiters.byID[d.ID].began),
	}
	for _, im := range s.Schema.Images {
		r.Memory += im.Raw
	}
	if c.warn != "" {
		r.Notes = append(r.Notes, c.warn)
	}
	return r
}

var errNoDebug = errors.New("-debug holds a rank of a snapshot of whole processes; one of back-end self starts its program anew: start gorun restart under a debugger, or let the program wait")
