// Package head is the process that the user has started, one per job: it starts
// agents, drives the machine of the job's life, commits snapshots and answers users.
// Package internal/job describes the whole.
package head

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/google/uuid"

	"github.com/gorun-mpi/gorun/cr/snapshot"
	"github.com/gorun-mpi/gorun/internal/job/control"
	"github.com/gorun-mpi/gorun/internal/job/fleet"
	"github.com/gorun-mpi/gorun/internal/job/program"
	"github.com/gorun-mpi/gorun/internal/job/spec"
	"github.com/gorun-mpi/gorun/internal/job/stdio"
	"github.com/gorun-mpi/gorun/internal/protocol/ckpt"
	"github.com/gorun-mpi/gorun/internal/protocol/joblife"
	"github.com/gorun-mpi/gorun/internal/storage"
	"github.com/gorun-mpi/gorun/internal/system/nofile"
	"github.com/gorun-mpi/gorun/internal/system/proc"
	"github.com/gorun-mpi/gorun/launcher"
	"github.com/gorun-mpi/gorun/launcher/local"
)

// head runs one job. Its state belongs to the goroutine that runs loop; all others post
// functions to it.
type head struct {
	opt     spec.Options
	start   func(i int) (launcher.Agent, error) // starts an agent
	id      string                              // uuid of the job
	began   time.Time
	control *control.Server
	printer *stdio.Printer
	files   *stdio.Files // of -output-dir; nil: there are none
	stdin   *stdio.Pump
	prog    program.Program
	parts   []*program.Program // the programs that the ranks of a job of several programs become
	storage *storage.Service   // keeps its snapshots
	commits int                // snapshots committed so far
	kept    []storage.Kept     // those that can be restarted from, the oldest first
	copying bool               // snapshots are copied to levels
	tending bool               // images in memory are made again

	events chan func()
	done   chan struct{} // closed when loop has ended

	job      *joblife.Job // makes every decision
	due      []joblife.Event
	stepping bool                   // due is being worked on
	timers   map[uint64]*time.Timer // of job
	result   verdict                // of the job
	outcome  outcome                // likewise
	over     bool                   // the job has ended and left nothing behind

	fleet    *fleet.Fleet // its nodes; nil: this machine alone
	joined   []string     // nodes that gorun join -hosts has added, as they were named
	inc      *incarnation // the present one
	lives    []*incarnation
	firstID  uint64             // of the first incarnation, until it is used
	next     *snapshot.Snapshot // what the next incarnation begins from; nil: from the start
	trouble  trouble            // of periodic checkpoints
	failing  failing            // checkpoints of any kind
	auto     auto               // when the next is due
	short    bool               // a restart had too few nodes
	printed  printed
	ending   []os.Signal // signals that end the job, without those that gorun was started to ignore
	orders   newestOrder // the newest of these; belongs to the goroutine that watches
	told     bool        // a signal has told it to end
	stopping bool        // a checkpoint is being taken for -ckpt-on-signal
	up       bool        // those that wait for the job were told that it is up
	building bool        // the program is being built
	waiters  waiters
	limit    limit
	putOff   bool // a periodic checkpoint waits for a release
	trims    int  // checkpoints that wait for ranks to collect their garbage
	stdinUp  bool // standard input is being read
	resume   chan os.Signal

	swaps     map[uint64]*swapping // that users want, by number
	questions map[uint64]*question // that ranks are being asked, by number
	asked     uint64               // the number of the last
	seeking   bool                 // ranks are being asked whether they wait for each other
	stood     string               // the standstill that was reported to the user
}

// Run runs a job to its end and returns gorun's exit status. It has then reported everything on
// opt.Stderr.
func Run(opt spec.Options) int {
	h := &head{opt: opt, start: local.Start, began: time.Now(), events: make(chan func(), 256), done: make(chan struct{}), timers: map[uint64]*time.Timer{}, questions: map[uint64]*question{}, swaps: map[uint64]*swapping{}}
	o := &h.outcome
	o.refused = h.run()
	for _, err := range o.texts() {
		h.say("%v", h.withRemedy(err))
	}
	if o.refused != nil {
		return o.status()
	}
	if (h.result.Last > 0 || h.short) && h.opt.Again != nil {
		if err := h.opt.Again(); err != nil {
			h.say("%v", err)
		}
	}
	return o.status()
}

// verdictOf ends a job with an error.
func (h *head) verdictOf(err error) *verdict {
	return &verdict{Code: spec.StatusOf(err), Rank: -1, Died: lostNode(err), Text: h.withRemedy(err).Error()}
}

// withRemedy adds the remedy to an error if the head has run out of descriptors.
func (h *head) withRemedy(err error) error { return nofile.Explain(err, h.opt.OpenFiles(), "") }

// run runs the job. An error says why it was not begun; outcome says how it has ended.
func (h *head) run() error {
	if err := errors.Join(h.opt.SetDefaults(), spec.EnoughAddresses(), h.opt.EnoughFiles()); err != nil {
		return err
	}
	if err := h.prog.Find(h.opt.Program, h.opt.Dir); err != nil {
		return err
	}
	h.prog.Name = cmp.Or(h.opt.Name, h.prog.Name)
	if err := errors.Join(h.writeJobID(""), h.identify(), h.openStorage()); err != nil {
		return err
	}
	defer h.storage.Close()
	if err := h.claimJob(); err != nil {
		return err
	}
	if h.opt.Claimed != nil {
		h.opt.Claimed()
	}
	files, err := h.openOutput()
	if err != nil {
		return err
	}
	if h.control, err = h.openControl(); err != nil {
		return err
	}
	defer h.control.Close()
	h.printer = stdio.NewPrinter(h.opt.Stdout, h.opt.Stderr, h.opt.TagOutput)
	h.printer.Files, h.files = files, files
	if h.opt.Stdin != nil {
		h.stdin = stdio.NewPump(h.opt.Stdin, h.inputFailed)
		if h.opt.CR != "" {
			h.stdin.KeepNear() // rank 0 may move
		}
		defer h.leaveInput()
		h.sayInput()
	}
	if err := h.openFleet(); err != nil {
		return err
	}
	defer h.closeFleet()
	if err := h.openPlaces(); err != nil {
		return err
	}
	defer h.closeMemory()
	stop := h.watchSignals()
	defer stop()
	if h.opt.Timeout > 0 {
		h.limit = limit{left: h.opt.Timeout, over: func() {
			h.printer.Hurry()
			h.post(h.timeIsOver)
		}}
		h.limit.start()
		defer h.limit.stop()
	}
	if h.opt.CkptEvery > 0 {
		t := time.NewTicker(h.opt.CkptEvery)
		defer t.Stop()
		go h.tick(t.C, h.periodic)
	}
	t := time.NewTicker(h.opt.Heartbeat)
	defer t.Stop()
	go h.tick(t.C, func() {
		h.feed(joblife.Event{Type: joblife.EvTick, Life: h.job.Life(), Slow: proc.Slowness()})
		h.lookAfter()
	})
	defer h.watchStandstill()()
	h.auto.Given = h.opt.MTBF
	if h.leases() {
		t := time.NewTicker(h.opt.Terms().H)
		defer t.Stop()
		go h.tick(t.C, h.grantOwn)
	}
	h.newJob()
	h.openAuto()
	h.storage.Start()
	h.feed(joblife.Event{Type: joblife.EvStart})
	h.loop()
	h.outcome.verdict = h.result
	if f := h.failingState(); f != nil {
		f.Until, h.outcome.failing = time.Now(), f
	}
	h.endStorage()
	h.outcome.goesOn = h.goesOn()
	h.unwatch()
	if err := h.ended(); err != nil {
		h.say("%v", err)
	}
	h.outcome.lost = errors.Join(h.printer.Close(), files.Close())
	for stream, name := range []string{1: "output", 2: "error"} {
		if n := h.printer.Streams[stream].Dropped; n > 0 {
			h.say("nobody has read standard %s: %d bytes for it were dropped", name, n)
		}
	}
	return nil
}

// newJob makes the machine.
func (h *head) newJob() {
	h.next = h.opt.From
	askFrom := 0
	if h.opt.Params[spec.ParamAddresses] == "asked" {
		askFrom = -1
	}
	h.job = joblife.New(joblife.Config{
		AskFrom: askFrom,
		Size:    h.opt.NP, Restarts: h.opt.Restarts, Built: h.prog.Built() || !h.prog.IsSource(), Heartbeat: h.opt.Heartbeat.Milliseconds(),
		Points:      h.opt.CkptPoints > 0,
		GraceMillis: h.opt.Grace.Milliseconds(),
		Stopped:     *h.opt.CkptExit, CutMillis: h.opt.Terms().L.Milliseconds(),
		Ckpt: ckpt.HeadConfig{
			Codec: h.opt.CkptCodec, SparseFrom: h.opt.SparseFrom, FullEvery: h.opt.FullEvery, Apart: h.storage.HasMemory(),
			NativeErr: "it is not known yet whether they can be", // see imageable
		},
	})
}

// identify gives the job its uuid: a new one, or that of the job that goes on.
func (h *head) identify() error {
	if h.opt.From != nil {
		h.id = h.opt.From.Schema.Job
		return nil
	}
	id, err := uuid.NewRandom()
	if err != nil {
		return err
	}
	h.id = id.String()
	return nil
}

func (h *head) loop() {
	defer close(h.done)
	for !h.over {
		f := <-h.events
		f()
	}
	h.waiters.fail("the job has ended")
}

// clean removes all that must not be left behind. If this process is killed meanwhile, agents do
// it.
func (h *head) clean() {
	if err := errors.Join(h.prog.Remove(), h.control.Remove()); err != nil {
		h.say("%v", h.withRemedy(err))
	}
}

// post hands f to the loop. It is dropped when the loop has ended.
func (h *head) post(f func()) {
	select {
	case h.events <- f:
	case <-h.done:
	}
}

// after posts f in d; the caller may stop the timer.
func (h *head) after(d time.Duration, f func()) *time.Timer {
	return time.AfterFunc(d, func() { h.post(f) })
}

// say tells the user something, one line, in order with the ranks' output (see stdio.Printer).
func (h *head) say(format string, args ...any) {
	line := fmt.Sprintf("gorun: "+format+"\n", args...)
	if h.printer == nil {
		io.WriteString(h.opt.Stderr, line)
	} else if !h.printer.Print(stdio.Piece{Rank: -1, Stream: 2, Data: []byte(line), Credit: func(int) {}}) {
		h.printer.Lastly(line)
	}
}

func (h *head) now() time.Time { return time.Now().UTC().Truncate(time.Millisecond) }

func (h *head) verbose(format string, args ...any) {
	if h.opt.Verbose {
		h.say(format, args...)
	}
}

// tick posts f at each tick.
func (h *head) tick(c <-chan time.Time, f func()) {
	for {
		select {
		case <-c:
			h.post(f)
		case <-h.done:
			return
		}
	}
}
