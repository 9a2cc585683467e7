// Package spec describes a job before it is started: its options, those that come from
// a snapshot, and the checks that this machine can run it.
package spec

import (
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/gorun-mpi/gorun/cr/snapshot"
	"github.com/gorun-mpi/gorun/cr/whole"
	"github.com/gorun-mpi/gorun/internal/job/bind"
	"github.com/gorun-mpi/gorun/internal/job/hosts"
	"github.com/gorun-mpi/gorun/internal/job/stdio"
	"github.com/gorun-mpi/gorun/internal/protocol/lease"
	"github.com/gorun-mpi/gorun/internal/protocol/wire"
	"github.com/gorun-mpi/gorun/internal/rank/coll"
	"github.com/gorun-mpi/gorun/internal/system/nofile"
	"github.com/gorun-mpi/gorun/launcher"
)

// DefaultDeadlock is the time after which ranks that wait for each other are reported.
const DefaultDeadlock = 30 * time.Second

// Shares are the values of Options.Sharing.
var Shares = []string{"share", "exclusive"}

// Options say what to run and how. The zero value of a field means its default.
type Options struct {
	NP      int              // number of ranks, at least 1
	Program string           // as the user gave it: a name in PATH, an executable, a folder with a Go main package, or a Go file
	Name    string           // the name of the program, if not Program
	Args    []string         // arguments after the program's name
	Dir     string           // working folder of the ranks, default: the current one
	Env     []string         // environment of the ranks, default: this process's
	RPI     []string         // transports by preference, empty: the library's default
	Agents  int              // number of agents, default 1
	Manager launcher.Manager // starts the keepers of other nodes; nil: the job is on this machine alone
	Map     hosts.Policy     // in which order ranks take nodes, sockets and cores
	Bind    bind.Unit        // what of a node's CPUs each rank is bound to; "": nothing
	Nodes   []hosts.Node     // where the ranks run; empty: on this machine
	Rules   hosts.Rules      // how they are placed there
	Lease   time.Duration    // how long a node without contact may act; 0: the default
	Hosts   string           // -hosts as it was given, which is in Where; "": it was not
	Where   string           // flags by which gorun restart finds the same nodes; "": it needs none

	CR           string            // "", "auto", "self", or the name of an Imager: the checkpoint back-end
	CkptDir      string            // where snapshots go
	CkptLocal    string            // a folder on each node that the images go into instead, see node.Expand; "": they go beside their schemas
	CkptStore    string            // a bucket that the images go into instead, see s3.Parse; ""
	CkptKey      string            // a key file with which images are sealed, see package sealed; ""
	CkptMirror   string            // images go to the memory of their nodes, and of others by this policy, see ParseMirror; "": they go elsewhere
	Racks        map[string]string // of nodes by name, for policies that ask
	CkptEvery    time.Duration     // a checkpoint this often; 0: never by itself
	CkptPoints   int               // a portable checkpoint at every so many Points of the program; 0: at none
	Base         *Level            // the level that the ranks write, if -ckpt-every names levels; nil: it does not
	Levels       []Level           // that get copies of it, by their intervals, see SetLevels
	CkptAuto     bool              // a checkpoint as often as is best by what they cost; CkptEvery is 0
	MTBF         time.Duration     // mean time between failures, for CkptAuto; 0: measured
	CkptCodec    string            // codec of images: none, snappy or zstd
	FullEvery    int               // of so many images of a whole process at least one is full; 1: all are; default 8
	CkptOnSignal syscall.Signal    // checkpoint and stop when the head gets this; 0: none
	CkptExit     *int              // exit status of a job that was checkpointed and stopped; nil: ExitCheckpointed
	Restarts     int               // how many times a job that lost a rank or agent is started again
	Keep         int               // snapshots kept of this job; 0: all
	KeepAsked    bool              // Keep is not chosen by the user: requested snapshots stay as well, and no others when the job has ended well
	Grace        time.Duration     // how long ranks have to end after SIGTERM, SIGHUP and SIGQUIT; 0: the default
	Timeout      time.Duration     // the job is ended after this; 0: never
	Deadlock     time.Duration     // ranks that have waited for each other this long are reported; negative: never; default 30 s
	Again        func() error      // makes a batch system run the job again, when one that was checkpointed and stopped, or lacks nodes, is gone; nil: none
	JobIDFile    string            // gets the job's id when all ranks are up
	Up           func(job string)  // is called then, once; may be nil
	Claimed      func()            // is called when no other head runs the job, before any process of it starts; may be nil
	TagOutput    bool              // prefix lines of the ranks with [rank]
	OutputDir    string            // the ranks' output goes to files in this folder; "": to Stdout and Stderr
	Verbose      bool              // say what the launcher does
	Params       map[string]string
	Plan         map[string]string    // kept in snapshots for a restart, see snapshot.Schema
	KeepEnv      []string             // names of variables that snapshots keep beside the usual ones
	Older        []*snapshot.Snapshot // restart: may replace From if its images, on nodes that are not up yet, are not whole
	From         *snapshot.Snapshot   // restart: the snapshot to start from, see FromSnapshot; nil: from the start
	Latest       bool                 // no job of the same line may run beside it, see program.Line
	Await        time.Duration        // how long to wait for another run of the job to end before this one is refused; 0: not at all
	Still        func() error         // called when no other head can go on with the job any more: whether the job still begins as From says; nil: it does
	Files        whole.FilesPolicy    // restart of whole processes: what to do with files that they were writing to
	// Devices are the names of the devices that a restart of whole processes uses in place of
	// theirs, in turn; none: the same devices.
	Devices       []string
	Sharing       string        // how offload processes share devices with others: Shares, or "": they do not ask
	MigrateOn     string        // a command that runs on each node, and whose lines say what is to leave it, see wire.Alarm; "": none
	Debug         []int         // restart of whole processes: ranks that are held for a debugger
	Heartbeat     time.Duration // between two pings to an agent; default 5 s
	SparseFrom    int           // ranks from which the sparse bookmark exchange is used; 0: the default
	HandleSignals bool          // forward this process's signals to the ranks

	Stdin          io.Reader // for rank 0; nil: nothing
	Stdout, Stderr io.Writer
}

// ParamNodes is the entry of Options.Params that says what counts as a node.
// With "hosts", the default, nodes are machines. With "agents" every agent is a
// node of its own, so its ranks talk to those of others as between machines.
const ParamNodes = "job.nodes"

// ParamAddresses is the entry of Options.Params that says when ranks learn the addresses of others.
// With "auto", the default, they learn them at the start, or in large jobs when they first talk to
// them. With "asked" they always learn them when they first talk.
const ParamAddresses = "job.addresses"

// Parameter describes an entry of Options.Params that is the launcher's own.
type Parameter struct {
	Name, Default string
	Doc           string // one line
}

// Parameters lists them, for gorun info.
func Parameters() []Parameter {
	all := []Parameter{
		{ParamNodes, "hosts", "what counts as a node: hosts, or agents, so that with -agents N messages on one machine go as between N"},
		{ParamAddresses, "auto", "when ranks learn where others are: auto (at the start; when they first talk to them in jobs of 10,000 ranks and more), or asked (always then)"},
	}
	for _, c := range coll.Collectives {
		all = append(all, Parameter{coll.Prefix + c.Name, c.Rules, fmt.Sprintf("algorithm by ranks, bytes and place, before those built in; known are %v", c.Algorithms)})
	}
	return all
}

// checkParams refuses unknown parameters and malformed values.
func checkParams(given map[string]string) error {
	for name, value := range given {
		switch {
		case !utf8.ValidString(name + value): // they travel as text
			return WithStatus(ExitUsage, fmt.Errorf("-param %q=%q: not UTF-8", name, value))
		case name == ParamNodes && value != "hosts" && value != "agents":
			return WithStatus(ExitUsage, fmt.Errorf("-param %s=%s: known are hosts and agents", name, value))
		case name == ParamAddresses && value != "auto" && value != "asked":
			return WithStatus(ExitUsage, fmt.Errorf("-param %s=%s: known are auto and asked", name, value))
		case strings.HasPrefix(name, "job.") && name != ParamNodes && name != ParamAddresses:
			return WithStatus(ExitUsage, fmt.Errorf("-param %s: no such parameter, 'gorun info' lists them", name))
		}
	}
	for _, i := range whole.All() {
		if t, ok := i.(whole.Tunable); ok {
			if err := t.CheckParams(given); err != nil {
				return WithStatus(ExitUsage, err)
			}
		}
	}
	if _, err := coll.BuiltIn().With(given); err != nil {
		return WithStatus(ExitUsage, err)
	}
	return nil
}

// Defaults.
const (
	defaultHeartbeat  = 5 * time.Second
	defaultSparseFrom = 16
	DefaultGrace      = 8 * time.Second // less than the 10 s of docker stop
	DefaultFullEvery  = 8
)

// Terms are the terms of the leases of nodes.
func (o *Options) Terms() lease.Terms {
	t := lease.DefaultTerms
	if o.Lease > 0 {
		t = lease.Terms{L: o.Lease, H: min(t.H, o.Lease/6)}
	}
	return t
}

// perAgent is the largest number of ranks of an agent.
func (o *Options) perAgent() int { return (o.NP + o.Agents - 1) / o.Agents }

// OpenFiles is about how many descriptors gorun and its agents need.
func (o *Options) OpenFiles() int {
	ofHead := nofile.OfHead(o.Agents)
	if o.OutputDir != "" {
		ofHead += stdio.MostOpen
	}
	return max(ofHead, nofile.OfAgent(o.perAgent()))
}

// EnoughFiles refuses to begin a job for which the descriptors certainly do not suffice.
func (o *Options) EnoughFiles() error {
	least := max(12+2*o.Agents, 12+4*o.perAgent())
	if nofile.Limit() >= uint64(least) {
		return nil
	}
	or := ""
	if o.perAgent() > 1 {
		or = wire.MoreAgents
	}
	return fmt.Errorf("%d ranks cannot be run: %s", o.NP, nofile.Remedy(o.OpenFiles(), or))
}

// Getwd is the present working folder.
func Getwd() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("the present working folder is not there any more: cd to one that is: %w", err)
	}
	return dir, nil
}

// leastAddresses is the address space that gorun and a small Go program each need. Most of it is
// reserved and never used.
const leastAddresses = 2 << 30

// EnoughAddresses refuses a limit of address space under which the Go run-time of programs fails
// with a stack trace.
func EnoughAddresses() error {
	var lim syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_AS, &lim); err != nil || lim.Cur >= leastAddresses {
		return nil
	}
	return fmt.Errorf("ranks cannot be run: the limit of address space (ulimit -v) is %d MB, and gorun and Go programs reserve up to %d MB, most of which they never use: ulimit -v unlimited; to bound memory that is used, take a control group (systemd-run --scope -p MemoryMax=...)", lim.Cur>>20, leastAddresses>>20)
}

// SetDefaults fills in missing options, and refuses contradictory ones.
func (o *Options) SetDefaults() error {
	if o.NP < 1 {
		o.NP = 1
	}
	if len(o.Nodes) > 0 {
		o.Agents = len(o.Nodes)
	}
	if o.Agents < 1 {
		o.Agents = 1
	}
	if o.Agents > o.NP {
		o.Agents = o.NP
	}
	if o.Grace <= 0 {
		o.Grace = DefaultGrace
	}
	if o.Heartbeat <= 0 {
		o.Heartbeat = defaultHeartbeat
	}
	if o.Deadlock == 0 {
		o.Deadlock = DefaultDeadlock
	}
	if o.SparseFrom <= 0 {
		o.SparseFrom = defaultSparseFrom
	}
	if o.FullEvery <= 0 {
		o.FullEvery = DefaultFullEvery
	}
	if o.CkptMirror != "" {
		o.FullEvery = 1 // the bases of further images would have to be kept
	}
	if o.Files == "" {
		o.Files = whole.FilesRefuse
	}
	if o.Bind == "" {
		o.Bind = bind.None
	}
	if o.CkptExit == nil {
		code := ExitCheckpointed
		o.CkptExit = &code
	}
	if o.CkptCodec == "" {
		o.CkptCodec = "none"
	}
	if o.Env == nil {
		o.Env = os.Environ()
	}
	if o.Stdout == nil {
		o.Stdout = io.Discard
	}
	if o.Stderr == nil {
		o.Stderr = io.Discard
	}
	if o.Dir == "" {
		dir, err := Getwd()
		if err != nil {
			return err
		}
		o.Dir = dir
	}
	if len(o.Nodes) > 0 {
		if err := o.Terms().Check(); err != nil {
			return WithStatus(ExitUsage, fmt.Errorf("-lease: %w", err))
		}
	}
	return checkParams(o.Params)
}

// Exit statuses of gorun's own. A rank that fails passes its own status on:
// the exit code, or 128 plus the signal that killed it.
const (
	ExitOK     = 0
	ExitFailed = 1 // gorun failed, or an agent was lost
	ExitUsage  = 2 // wrong flags or arguments
	// ExitCheckpointed is the exit status of a job that was checkpointed and
	// stopped, which a script can tell from one that has finished. It is EX_TEMPFAIL
	// of sysexits.h, "not now, try again later", which asks a batch system to run
	// the job again.
	ExitCheckpointed = 75
	// ExitAgain is the exit status of an error whose remedy is the same command, a little later.
	ExitAgain      = ExitCheckpointed
	ExitTimeout    = 124 // -timeout ran out
	ExitCannotExec = 126 // PROGRAM is there but cannot be run
	ExitNotFound   = 127 // PROGRAM was not found
	ExitSignalBase = 128 // plus the signal
)
