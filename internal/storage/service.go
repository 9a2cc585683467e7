// Package storage keeps the snapshots of a running job. Each head has one Service.
//
// The head decides when a checkpoint is taken, what its snapshot says about the job, and what a
// restart needs. The service decides where images lie and which of them stay. It commits snapshots,
// copies them to other levels and merges them there, makes lost images again, removes old
// snapshots, and keeps those in the memory of the nodes. It also holds the claim on the job, which
// lies beside the snapshots. It knows neither frames nor the machine of the job's life.
//
// # The contract
//
//	New           opens the catalogue, and holds the snapshot that the job starts from
//	Claim         makes this head the only one that runs the job
//	Open          takes the nodes: memory and levels are ready then
//	Start         begins the copies that are due, and tells what can be restarted from
//	    Lineup        where the ranks of a life are, whenever that changes
//	    Source        what the agents of a life are told of the images that it begins with
//	    Begin         an attempt: a place for its images; then Commit or Discard
//	    Tend, Mend    now is a time to look for lost images
//	    Choose        what the next life begins from
//	End           the last copies and removals, when the head's goroutine has ended
//	CloseMemory   removes what is in memory, which ends with the job
//	Close         gives the claim up
//
// The service reports everything else to the head by the methods of Head. The result of a request
// comes with a call of its function done, once; there is none after the head's goroutine has ended.
//
// # Goroutines
//
// The state of a Service belongs to the goroutine of its head. Methods are called there, except
// where a comment says that they are safe beside it. Methods of Head and functions done are called
// there, too. Lengthy work runs in goroutines of its own, which end by Head.Post. So a method
// returns at once, except New, Claim, Open, End, CloseMemory and Close.
//
// The service has no goroutine that owns its state. Before it can have one, Levels and BeginFrom
// must answer by a function done, and Works must count a request from the moment that it is made.
//
// # Packages
//
//	places, storeurl   stores opened by their names; what a process of a node is ordered to do with them
//	imagepipe          images that a rank writes and reads through its agent
//	holder             images in the memory of a node, at keepers and the head
//	protect, twoslots  pure logic: which node holds which replica or parity; which memory may be used again
//	erasure, parity    Reed-Solomon codes; shards made by them, and lost images computed of shards
//	flush              copies from one store to another
//	interval           pure logic: how often to checkpoint, and into which levels
package storage

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/cr/snapshot"
	"github.com/gorun-mpi/gorun/cr/store/node"
	"github.com/gorun-mpi/gorun/internal/job/program"
	"github.com/gorun-mpi/gorun/internal/job/spec"
	"github.com/gorun-mpi/gorun/internal/protocol/rendezvous"
	"github.com/gorun-mpi/gorun/internal/protocol/wire"
	"github.com/gorun-mpi/gorun/internal/system/nofile"
)

// Head is what the service needs of its head.
type Head interface {
	// Post calls f in the head's goroutine. When that has ended, f is dropped. Post is safe beside
	// it.
	Post(f func())
	// Done is closed when the head's goroutine has ended. The call is safe beside it.
	Done() <-chan struct{}
	// Say tells the user something, one line. It is safe beside the head's goroutine.
	Say(line string)

	// Works gets the number of works under way that the end of a life has to wait for.
	Works(n int)
	// Kept gets the snapshots of the job that can be restarted from, the oldest first, whenever
	// they have changed.
	Kept(all []Kept)
	// Beside reports the work beside the ranks whenever it changes: whether snapshots are copied
	// to levels, and whether images in memory are made again.
	Beside(copying, tending bool)
	// Copying reports, after Beside, that another copy to a level begins.
	Copying()
	// Copied reports the cost of a copy to a level that was made while no other was.
	Copied(level int, c Cost)
	// Taken reports that another head has taken the job.
	Taken(why error)
}

// Nodes are the nodes of a job, as package fleet has them. They are safe beside the head's goroutine.
type Nodes interface {
	OwnName() string // of the head's node, "" if the job has no part in it
	Names() []string
	Usable() []string
	Racks() map[string]string
	Number(name string) int
	Lost(name string) <-chan struct{}
	Files(folder func(node string) (string, error)) (reached []node.Peer, unreachable []string)
	Memories(kind string) []node.Peer
	Flush(ctx context.Context, to string, o *wire.Flush, progress func(int64)) (wire.Flushed, error)
	Copy(ctx context.Context, to string, o *wire.Copy) error
	KeeperTicket(ctx context.Context, from string, life int, to string) (rendezvous.Ticket, error)
}

// Config describes the job of a Service.
type Config struct {
	Job     string
	Options *spec.Options    // the service sets From, and the places of the levels
	Program *program.Program // what the ranks run
	Line    string           // by which -restart-latest knows the job
	Note    any              // of Options.From, see type Kept
	Head    Head
}

// Service keeps the snapshots of one job.
type Service struct {
	head Head
	opt  *spec.Options
	id   string // of the job
	line string
	prog *program.Program
	cat  *snapshot.Catalogue // nil: the job never has snapshots

	nodes    Nodes // nil: this machine alone
	lineup   Lineup
	claim    claim
	chain    []commit // own commits, oldest first, the snapshot started from before them
	commits  int      // snapshots committed so far
	pending  map[int]*pending
	works    int     // under way, see Head.Works
	memory   *memory // snapshots in the memory of nodes; nil: the job has none
	levels   levels
	tidying  tidying
	unpruned string // the last report to the user why old snapshots could not be removed
	streams  streams
}

// Lineup is where the ranks of a life are.
type Lineup struct {
	Life  int
	Nodes []string // by rank; "": it has no agent
}

// Lineup sets where the ranks are from now on.
func (sv *Service) Lineup(l Lineup) { sv.lineup = l }

// New opens the catalogue of snapshots and takes hold of the one that the job starts from. The service of a
// job that cannot be checkpointed, and that starts from none, keeps nothing.
func New(c Config) (*Service, error) {
	sv := &Service{head: c.Head, opt: c.Options, id: c.Job, line: c.Line, prog: c.Program}
	if sv.opt.CR == "" && sv.opt.From == nil {
		return sv, nil
	}
	var err error
	if sv.cat, err = snapshot.Open(sv.opt.CkptDir); err != nil {
		return nil, err
	}
	sv.cat.Stores(sv.openPlace)
	if err := sv.lookAtPlaces(); err != nil {
		return nil, err
	}
	for _, s := range append(sv.opt.Older, sv.opt.From) {
		if s != nil {
			s.Through(sv.openPlace)
		}
	}
	if sv.opt.CR != "" {
		if err := writable(sv.opt.CkptDir); err != nil {
			sv.say("warning: checkpoints will fail, no snapshot can be stored in %s: %v; choose another folder with -ckpt-dir", sv.opt.CkptDir, err)
		}
	}
	if from := sv.opt.From; from != nil {
		hold, err := from.Hold()
		if err != nil {
			return nil, err
		}
		sv.chain = []commit{{snap: from, hold: hold, note: c.Note}}
	}
	return sv, nil
}

// writable checks whether snapshots can be stored, before the first checkpoint, which may be
// hours away. It creates nothing: a job may never need the folder.
func writable(dir string) error {
	for {
		st, err := os.Stat(dir)
		parent := filepath.Dir(dir)
		switch {
		case (errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR)) && parent != dir:
			dir = parent // would be made
			continue
		case err != nil:
			return err
		case !st.IsDir():
			return fmt.Errorf("%s is not a folder", dir)
		}
		if err := unix.Access(dir, unix.W_OK|unix.X_OK); err != nil {
			return fmt.Errorf("%s is not writable: %w", dir, err)
		}
		return nil
	}
}

// Open takes the nodes, nil if the job is on this machine alone, and prepares snapshots in their
// memory, and levels.
func (sv *Service) Open(nodes Nodes) error {
	sv.nodes = nodes
	if err := sv.openMemory(); err != nil {
		return err
	}
	sv.openLevels()
	return nil
}

// Start begins the copies that are due.
func (sv *Service) Start() {
	sv.keeps()
	sv.flushDue()
}

// Keeps reports whether the job has, or may have, snapshots.
func (sv *Service) Keeps() bool { return sv.cat != nil }

// work runs f beside the head's goroutine and done, with its result, in it. A life does not end
// before that.
func work[T any](sv *Service, f func() (T, error), done func(T, error)) {
	working := func(n int) {
		sv.works += n
		sv.head.Works(sv.works)
	}
	working(+1)
	go func() {
		v, err := f()
		sv.post(func() {
			done(v, err)
			working(-1)
		})
	}()
}

// besides tells the head which work goes on beside the ranks.
func (sv *Service) besides() {
	sv.head.Beside(sv.levels.copying(), sv.memory != nil && sv.memory.tended.busy)
}

func (sv *Service) post(f func()) { sv.head.Post(f) }

// after posts f in d; the caller may stop the timer.
func (sv *Service) after(d time.Duration, f func()) *time.Timer {
	return time.AfterFunc(d, func() { sv.post(f) })
}

func (sv *Service) say(format string, args ...any) { sv.head.Say(fmt.Sprintf(format, args...)) }

func (sv *Service) verbose(format string, args ...any) {
	if sv.opt.Verbose {
		sv.say(format, args...)
	}
}

func (sv *Service) now() time.Time { return time.Now().UTC().Truncate(time.Millisecond) }

// withRemedy adds the remedy to an error if this process has run out of descriptors.
func (sv *Service) withRemedy(err error) error { return nofile.Explain(err, sv.opt.OpenFiles(), "") }
