package cli

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/cr/whole"
	"github.com/gorun-mpi/gorun/internal/job/bind"
	"github.com/gorun-mpi/gorun/internal/job/control"
	"github.com/gorun-mpi/gorun/internal/job/head"
	"github.com/gorun-mpi/gorun/internal/job/hosts"
	"github.com/gorun-mpi/gorun/internal/job/program"
	"github.com/gorun-mpi/gorun/internal/job/spec"
	"github.com/gorun-mpi/gorun/internal/protocol/oob"
	"github.com/gorun-mpi/gorun/internal/protocol/wire"
)

var runCommand = command{
	name: "run", args: "PROGRAM [args]",
	short: "run a program; the word run may be left out",
	long: `
PROGRAM is looked up as in a shell. If it is a folder with a Go main package, or
one Go file (main.go), gorun builds it first (go build, CGO_ENABLED=0) and removes the
executable when the job ends.

Several programs make one job, with one world, if a colon is between them:
gorun [flags] -np 1 PROGRAM [args] : -np 2 PROGRAM [args]. They are executables. The first
ranks are those of the first program. All flags but -np come before the first.

Standard input goes to rank 0. Output comes line by line. SIGHUP, SIGQUIT, SIGTERM,
SIGUSR1, SIGUSR2, SIGTSTP and SIGCONT are passed on to all ranks.

The first ^C, SIGTERM, SIGHUP (a terminal that is closed) or SIGQUIT asks all ranks to
end. A second one of any kind kills them, and so does time: 3 s after ^C, -grace after the
others. The same signal within 0.3 s is the first one: timeout and shells send it twice.
The storage of snapshots is not waited for longer either. With -ckpt-on-signal the first
signal of that kind asks for the last snapshot, and one more ends the job without it.

At the end gorun waits until the output is read. After ^C, a second SIGTERM, -grace, gorun
kill or -timeout it waits for a second or two. It then drops the rest and says so. Standard
error does not wait for standard output.

Exit status: that of the first rank that failed. This is the rank's exit status, the
code of its Abort, or 128 plus the number of the signal that killed it. Standard error
names the rank. gorun's own statuses:

    0    all ranks ended well
    1    something failed, or an agent was lost
    2    wrong usage
    75   the job was checkpointed and stopped (see -ckpt-exit-status), or the same line
         may go well a little later (-restart-latest)
    124  -timeout ran out
    126  PROGRAM cannot be run
    127  PROGRAM was not found
    130  interrupted
    143  ended by gorun kill

-restarts starts the job again after deaths, not after decisions. A death is the loss of
an agent, or of a rank before Finalize: by a signal, a panic, os.Exit (and so log.Fatal),
or an end without Finalize. A decision is mpi.Abort, an error returned from the function
given to mpi.Run (but device.ErrLost is a death), or an order to end the job (a signal to
gorun, gorun kill, -timeout).
The other ranks stand still until the restart. They see no error of the death. After two
restarts from one snapshot that end alike, other than by SIGKILL or the loss of an agent,
an older snapshot is taken.

-restart-latest makes one line of a script begin a job and, whenever the script runs
again, go on with it from its newest snapshot. It is the same job if name, PROGRAM,
arguments and working folder are the same and it has not ended well. -name gives the name.
Within Slurm it is slurm-$SLURM_JOB_ID if none is given: a job that is requeued keeps that
number, and another one begins anew. Images that are damaged are an error, not a reason to
begin again; images that cannot be read just now end it with status 75, and nothing is begun.
A job that is running already is refused, with the process and machine that run it. With -np it goes on with so many ranks, as gorun restart -np does.
docs/slurm.md has complete scripts.

In a pod of a Kubernetes Indexed Job with GORUN_HEAD set, index 0 is the head, and the
same command line is a keeper of its node in the others. docs/kubernetes.md has a
complete manifest.

With -np 1 and -cr PROGRAM may be anything: a script, a program in C or Python. It need
not know of gorun, and is imaged with all the processes that it has started.

-cr=native refuses to start a program that cannot have native images. With -cr=auto, -v
tells why a program cannot. gorun info tells what this machine can do.`,
	setup: setupRun,
}

func setupRun(fs *flag.FlagSet, std stdio) func([]string) int {
	opt := commonFlags(fs)
	opt.where.mentions = true
	fs.IntVar(&opt.NP, "np", 1, "number of `ranks`; without it as many as slots where nodes are given, by -hosts or a batch"+
		"\nsystem; a node without slots then has one for each time that it is named; else 1")
	fs.IntVar(&opt.NP, "n", 1, "the same as -np")
	cr := &crFlag{}
	fs.BoolVar(&opt.restartLatest, "restart-latest", false, "go on from the newest snapshot of a job with the same -name, PROGRAM, arguments and\nworking folder that has not ended well; if there is none, begin")
	fs.Var(cr, "cr", "make the job checkpointable, by one of two kinds of images\nself: portable images; the program registers its state (package cr)\nnative: images of whole processes, of any program\nauto (the same as -cr alone): self if all ranks register and soon come to a\nPoint, else native")
	return func(args []string) int {
		if len(args) == 0 {
			return usage(std, "no PROGRAM was given\nusage: %s ('gorun help run' tells more)", lookup("run").usage())
		}
		if status, yes := keepsPod(std); yes {
			return status
		}
		if opt.NP < 1 {
			return usage(std, "-np %d: a job has at least one rank", opt.NP)
		}
		if err := opt.several(fs, args); err != nil {
			return usage(std, "%v", err)
		}
		if err := nameJob(fs); err != nil {
			return failed(std, err)
		}
		opt.CR = cr.value
		if err := opt.check(fs); err != nil {
			return usage(std, "%v", err)
		}
		if status, yes := opt.detach(std); yes {
			return status
		}
		args, err := opt.ranksRun(args)
		if err != nil {
			return failed(std, err)
		}
		if opt.Latest = opt.restartLatest; opt.Latest {
			all, err := opt.latest(std, args)
			if err != nil {
				return failed(std, err)
			}
			if len(all) > 0 {
				np := 0
				if given := set(fs); given["np"] || given["n"] {
					np = opt.NP
				}
				return opt.goOn(fs, std, all, np, args)
			}
		}
		opt.Program, opt.Args = args[0], args[1:]
		return opt.launch(std)
	}
}

// ranksRun is what the ranks run: the command, or gorun itself where that begins them.
func (o *options) ranksRun(args []string) ([]string, error) {
	if o.parts != nil {
		return o.findParts()
	}
	return o.attended(args)
}

// attended starts gorun as the rank, in place of a program that cannot take part in checkpoints itself; see package initproc.
func (o *options) attended(args []string) ([]string, error) {
	if o.CR != spec.CRAuto && o.CR != whole.Default() {
		return args, nil
	}
	dir, err := spec.Getwd()
	if err != nil {
		return nil, err
	}
	path := program.Foreign(args, dir)
	if path == "" {
		return args, nil
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return program.Attend(self, path, args[1:]), nil
}

// set tells which flags were given.
func set(fs *flag.FlagSet) map[string]bool {
	given := map[string]bool{}
	fs.Visit(func(f *flag.Flag) { given[f.Name] = true })
	return given
}

// options are the flags of run and restart.
type options struct {
	spec.Options
	rpi        string
	every      []spec.Every // levels of -ckpt-every
	storesFile fileFlag
	where      whereFlags
	files      string
	mapping    string
	bind       string
	exit       int
	name       string
	requeue    bool
	detached   bool
	job        string // the id of a detached job, when it is up
	signal     signalFlag
	output     folderFlag
	params     paramFlag
	env        envFlag
	racks      folderFlag

	restartLatest bool            // of run only
	parts         []program.Part  // of run only: several programs; nil: there is one
	typed         map[string]bool // flags on the command line, as against those that a restart takes over
}

// commonFlags declares the flags that run and restart share.
func commonFlags(fs *flag.FlagSet) *options {
	o := &options{params: paramFlag{}}
	fs.IntVar(&o.Agents, "agents", 1, "spread the ranks over `N` agents")
	o.where.flags(fs)
	fs.StringVar(&o.mapping, "map", "slot", "`order` in which ranks take slots\nslot: a node's slots are filled before those of the next\nnode: ranks are dealt out to the nodes in turn\nsocket, core: as slot; with -bind neighbouring ranks take different sockets, or\nneighbouring cores (as with slot and node)")
	fs.StringVar(&o.bind, "bind", "none", "`what` of a node's CPUs each rank is bound to: none, core, socket or numa\nonly CPUs count that gorun itself may use; more ranks than cores are refused with\ncore; a restart binds anew; gorun status -v tells which rank has which CPUs")
	fs.StringVar(&o.CkptDir, "ckpt-dir", "", "`folder` for snapshots (default $GORUN_CKPT_DIR, else ~/.gorun/snapshots)")
	fs.StringVar(&o.CkptLocal, "ckpt-local", "", "write images to this `folder` of the node that each rank is on; -ckpt-dir has the\nrest; %n in it is the node's name; a restart fetches an image from the node that\nhas it")
	fs.StringVar(&o.CkptStore, "ckpt-store", "", "write images to an object store: `place` is s3://BUCKET/PREFIX, with ?endpoint=URL for\nanother server than Amazon's; credentials come from AWS_ACCESS_KEY_ID and\nAWS_SECRET_ACCESS_KEY or ~/.aws/credentials; -ckpt-dir has the rest")
	fs.StringVar(&o.CkptKey, "ckpt-key", "", "encrypt images with the key in this `file`, which gorun key makes; each node that\nwrites or reads images needs the file")
	fs.StringVar(&o.CkptMirror, "ckpt-mirror", "", "keep images in the memory of the nodes, each also on other nodes by this `policy`\nring, ring:K: on the next node, on the next K\npairs: two nodes hold each other's\nrack: on a node of another rack (-racks)\ncode:4+2: two shards of parity of four ranks' images, on other nodes; any two may be lost\nnone: on its own node alone, which survives the death of ranks\na lost node's ranks go on elsewhere from there, without a disk (-restarts, -spares);\nsuch snapshots end with the job; those of gorun checkpoint -stop go to -ckpt-dir")
	fs.Var(&o.racks, "racks", "`file` with the racks of the nodes for -ckpt-mirror, in lines NODE... RACK; without\nit those of Slurm's topology, where that is configured")
	fs.Var(everyFlag{o}, "ckpt-every", "take a checkpoint every `duration` (30s, 10m), unless one is running; auto: as often\nas is best, by what checkpoints cost the ranks and how often something fails;\ngorun status tells; LEVEL=duration,...: so often in each of some stores (node=1m,dir=10m):\nthe ranks write the most frequent one, the others get copies of it behind the program;\nLEVEL=auto,...: as often as is best in each")
	fs.IntVar(&o.CkptPoints, "ckpt-points", 0, "take a portable checkpoint at every `N`th cr.Point, unless one is being taken or written;\nall ranks stop there together; after a restart Points are counted from that of the\nsnapshot; goes with -ckpt-every, too; every rank must register its state")
	fs.Var(&o.storesFile, "stores", "`file` (TOML) with what the levels of -ckpt-every are to be: folder, place,\nkey_file, keep, rate, kind")
	durationVar(fs, &o.MTBF, "mtbf", 0, "the mean time between failures of the job, a `duration` (6h), for -ckpt-every auto;\nwithout it by what the job has seen")
	fs.StringVar(&o.CkptCodec, "ckpt-codec", "none", "`codec` of images: none, snappy or zstd")
	fs.IntVar(&o.FullEvery, "ckpt-full-every", spec.DefaultFullEvery, "every `N`th native image is full; the others hold what has changed since\nthe one before; 1: all are full")
	fs.Var(&o.signal, "ckpt-on-signal", "checkpoint and stop when gorun gets this `signal` (USR1, TERM, ...)")
	fs.IntVar(&o.exit, "ckpt-exit-status", spec.ExitCheckpointed, "exit with status `N` when the job was checkpointed and stopped; a script or\nbatch system so tells it from a finished job (75 is EX_TEMPFAIL, try again later)")
	fs.IntVar(&o.Restarts, "restarts", 0, "when a rank or agent dies, start the job again from its newest snapshot, up to `N`\ntimes")
	fs.StringVar(&o.files, "files", string(whole.FilesRefuse), "`what` a restart does with files that ranks were writing to: all those of native\nimages, those of cr.File of portable ones\nrefuse: each rank goes on where it stood; what was written since is moved to\nFILE.gorun-...-tail (gorun snapshots -tails); the restart is refused if FILE is\nmissing or shorter, if another restart writes to it, or if the job is running; one that several ranks write to is cut once for all of them\ncopy: it goes on in a copy, FILE.gorun-...\nkeep: it goes on in the file as it is now")
	fs.IntVar(&o.Keep, "keep", 0, "keep the newest `N` snapshots of the job, and those that they build on; 0: all\nwithout it, where -ckpt-every or -ckpt-points takes them: the newest 2, none when the\njob has ended well, and all of gorun checkpoint")
	fs.StringVar(&o.Sharing, "devices", "", "`how` devices are used beside other ranks and jobs of this user that say it, too\nshare: in turn, if their arrays together need more memory than a device has\nexclusive: whoever has a device has it alone; the second one is refused\n(default: nobody looks what others use)")
	fs.StringVar(&o.MigrateOn, "migrate-on", "", "run `command` on each node (sh -c); each line that it prints says what is to leave the\nnode: node, device ID, device ID to ID, device ID to ID@NODE; needs -cr or -cr=native\nfor ranks that move, and nothing for devices that ranks change")
	fs.StringVar(&o.rpi, "rpi", "", "`transports` by preference, separated by commas (gorun info lists them)\n(default shm,tcp: shared memory within a node, TCP between nodes; rdma, over\nqueue pairs, is never taken unless it is named; on a restart:\nthose the job was given; -rpi default: as in a job without the flag)\ntwo ranks use the first one that reaches both ways; gorun status and -v tell\nwhich carries what")
	fs.BoolVar(&o.TagOutput, "tag-output", false, "begin each line of output with its [rank]")
	fs.Var(&o.output, "output-dir", "write the ranks' output to files in `folder`, rank.N.out and rank.N.err, in place of\ngorun's own output; a new job empties them, a restart goes on in them")
	fs.StringVar(&o.name, "name", "", "`name` by which -restart-latest knows the job; within Slurm slurm-$SLURM_JOB_ID if it\nis not given; a restart keeps it")
	fs.BoolVar(&o.requeue, "requeue", false, "have Slurm run the batch job again (scontrol requeue) when the job was checkpointed\nand stopped, or when -restarts would go on and too few nodes are left")
	fs.StringVar(&o.JobIDFile, "jobid-file", "", "write the job's id to `file` when all ranks are up, or run, if none of them calls Init")
	fs.BoolVar(&o.detached, "detach", false, "start the job in the background: print its id when it is up and return, or return with\nits error and status; its output goes to gorun-ID.out here, or that of the ranks to\n-output-dir; gorun wait ID waits for its end")
	durationVar(fs, &o.Timeout, "timeout", 0, "end the job after this `duration`")
	durationVar(fs, &o.Grace, "grace", spec.DefaultGrace, "kill ranks that have not ended this `duration` after a SIGTERM, SIGHUP or SIGQUIT to gorun")
	o.Deadlock = spec.DefaultDeadlock
	fs.Var((*deadlockFlag)(&o.Deadlock), "deadlock", "when ranks have waited for each other for `duration` and nothing can go on, say who waits\nfor whom, and where in the program; off: say nothing")
	durationVar(fs, &o.Heartbeat, "heartbeat", 5*time.Second, "ping agents every `duration`; an agent that misses six pings is lost; on an\noverloaded machine it may miss more, by the number of processes for each CPU")
	fs.Var(o.params, "param", "set a module's parameter, `NAME=VALUE` (gorun info lists them), or those in a\nfile, @FILE; may be repeated")
	fs.Var(&o.env, "env", "set a variable of the ranks and keep it in snapshots, `NAME[=VALUE]`; may be repeated")
	fs.BoolVar(&o.Verbose, "v", false, "tell on standard error what gorun does")
	return o
}

// check completes the options and refuses what does not go together.
func (o *options) check(fs *flag.FlagSet) error {
	given := set(fs)
	if o.typed == nil {
		o.typed = given
	}
	o.Plan = plan(fs)
	if o.CR == "" {
		for _, name := range ckptFlags {
			if given[name] {
				return fmt.Errorf("-%s needs -cr", name)
			}
		}
	}
	if err := o.checkLatest(); err != nil {
		return err
	}
	if o.requeue {
		o.Again = requeueJob
	}
	switch {
	case o.Agents < 1:
		return fmt.Errorf("-agents %d: a job has at least one", o.Agents)
	case o.Grace == 0:
		return errors.New("-grace 0: a duration above 0")
	case o.Heartbeat == 0:
		return errors.New("-heartbeat 0: a duration above 0")
	case o.CkptPoints < 0:
		return fmt.Errorf("-ckpt-points %d: a number of Points, or 0 for none", o.CkptPoints)
	case o.CkptPoints > 0 && o.Mode() == oob.ModeNative:
		return fmt.Errorf("-ckpt-points needs portable images, which -cr=%s does not take: use -cr or -cr=self, or -ckpt-every", o.CR)
	case given["mtbf"] && !o.CkptAuto:
		return errors.New("-mtbf goes with -ckpt-every auto")
	case o.CkptLocal != "" && checkLocal(o.CkptLocal) != nil:
		return fmt.Errorf("-ckpt-local: %w", checkLocal(o.CkptLocal))
	case o.Restarts < 0, o.Keep < 0:
		return errors.New("-restarts and -keep must not be negative")
	case o.FullEvery < 1:
		return fmt.Errorf("-ckpt-full-every %d: at least 1, which makes all full", o.FullEvery)
	case o.exit < 0, o.exit > 255:
		return fmt.Errorf("-ckpt-exit-status %d: an exit status is 0 to 255", o.exit)
	case o.Sharing != "" && !contains(spec.Shares, o.Sharing):
		return fmt.Errorf("-devices %s: known are %s", o.Sharing, strings.Join(spec.Shares, ", "))
	case !contains(whole.FilesPolicies, o.files):
		return fmt.Errorf("-files %s: known are %s", o.files, strings.Join(whole.FilesPolicies, ", "))
	}
	if err := o.stores(); err != nil {
		return err
	}
	dir, err := ckptDir(o.CkptDir)
	if err != nil && o.CR != "" {
		return err
	}
	o.CkptDir = dir
	stores, err := spec.ReadStores(string(o.storesFile))
	if err == nil {
		err = o.SetLevels(o.every, stores)
	}
	if err == nil {
		err = o.unused()
	}
	if err != nil {
		return fmt.Errorf("-ckpt-every, -stores: %w", err)
	}
	o.keepUsual(given["keep"])
	if err := o.mirrors(); err != nil {
		return err
	}
	o.OutputDir = string(o.output)
	o.Files, o.CkptExit = whole.FilesPolicy(o.files), &o.exit
	if codecs := []string{"none", "snappy", "zstd"}; !contains(codecs, o.CkptCodec) {
		return fmt.Errorf("-ckpt-codec %s: known are %s", o.CkptCodec, strings.Join(codecs, ", "))
	}
	switch o.rpi {
	case "":
	case "default":
		o.RPI = []string{} // on a restart, too
	default:
		o.RPI = strings.Split(o.rpi, ",")
		for i, name := range o.RPI {
			if !contains(transports(), name) {
				return fmt.Errorf("-rpi %s: known are %s", name, strings.Join(transports(), ", "))
			}
			if contains(o.RPI[:i], name) {
				return fmt.Errorf("-rpi %s: %s is named twice", o.rpi, name)
			}
		}
	}
	if err := checkParams(o.params); err != nil {
		return err
	}
	if o.Map, err = hosts.ParsePolicy(o.mapping); err != nil {
		return err
	}
	if o.Bind, err = bind.ParseUnit(o.bind); err != nil {
		return err
	}
	o.Params, o.CkptOnSignal = o.params, syscall.Signal(o.signal)
	o.env.apply(&o.Options)
	return o.where.apply(o, fs)
}

// ckptDir returns the folder for snapshots. The flag names it, else the environment does.
func ckptDir(given string) (string, error) {
	if given == "" {
		given = os.Getenv("GORUN_CKPT_DIR")
	}
	if given == "" {
		home, err := homeDir()
		if err != nil {
			return "", fmt.Errorf("where snapshots go: %w; give -ckpt-dir or set GORUN_CKPT_DIR", err)
		}
		given = filepath.Join(home, ".gorun", "snapshots")
	}
	return filepath.Abs(given)
}

// homeDir is this user's home. Services and some shells have no HOME, or none that means anything; the system knows it all the same.
func homeDir() (string, error) {
	if home := os.Getenv("HOME"); filepath.IsAbs(home) {
		return home, nil
	}
	u, err := user.LookupId(strconv.Itoa(os.Getuid()))
	switch {
	case err != nil:
		return "", fmt.Errorf("HOME is not set, and %w", err)
	case !filepath.IsAbs(u.HomeDir):
		return "", fmt.Errorf("HOME is not set, and user %s has no home", u.Username)
	}
	return u.HomeDir, nil
}

func contains(list []string, s string) bool {
	for _, x := range list {
		if x == s {
			return true
		}
	}
	return false
}

// usualKeep is how many snapshots are kept where nobody has said how many: a job may take hundreds in an hour.
const usualKeep = 2

// keepUsual decides how many snapshots a job keeps that takes them by itself.
func (o *options) keepUsual(given bool) {
	if takes := o.CkptEvery > 0 || o.CkptAuto || o.CkptPoints > 0 || o.Base != nil; takes && !given {
		o.Keep, o.KeepAsked = usualKeep, true
	}
}

// launch runs a job, from this terminal or detached from it.
func (o *options) launch(std stdio) int {
	if o.KeepAsked {
		fmt.Fprintf(std.err, "gorun: the newest %d snapshots are kept, %sand those of gorun checkpoint; -keep N keeps N, also at the end, -keep 0 all\n", o.Keep, until(&o.Options))
	}
	o.Stdin, o.Stdout, o.Stderr = std.in, std.out, std.err
	if o.detached {
		o.Stdin = nil
	}
	o.HandleSignals = true
	if _, err := control.Jobs(); err != nil { // removes what dead jobs left
		return failed(std, err)
	}
	code := head.Run(o.Options)
	if o.job != "" {
		o.kept(std, o.ended(code))
	}
	return code
}

// until says for how long.
func until(o *spec.Options) string {
	if len(o.Levels) > 0 {
		return ""
	}
	return "until the job has ended well, "
}

// crFlag is -cr with an optional value.
type crFlag struct{ value string }

func (f *crFlag) String() string   { return f.value }
func (f *crFlag) IsBoolFlag() bool { return true }
func (f *crFlag) Optional() string { return strings.Join(crValues(), "|") }

// crValues are what -cr knows beside true and false.
func crValues() []string {
	values := []string{spec.CRAuto, "self"}
	for _, i := range whole.All() {
		values = append(values, i.Name())
	}
	return values
}

func (f *crFlag) Set(s string) error {
	switch {
	case s == "true":
		f.value = spec.CRAuto
	case s == "false":
		f.value = ""
	case contains(crValues(), s):
		f.value = s
	case s == "criu":
		return errors.New("this gorun was built without criu; 'gorun info' tells more")
	default:
		return fmt.Errorf("known are %s, written with =: -cr=self", strings.Join(crValues(), ", "))
	}
	return nil
}

// folderFlag is a folder, kept as an absolute path: a restart may be begun elsewhere.
type folderFlag string

func (f *folderFlag) String() string { return string(*f) }

func (f *folderFlag) Set(s string) error {
	if s != "" { // for none
		abs, err := filepath.Abs(s)
		if err != nil {
			return err
		}
		s = abs
	}
	*f = folderFlag(s)
	return nil
}

// fileFlag is a file, kept as an absolute path as in folderFlag.
type fileFlag = folderFlag

// signalFlag is a signal by name or number.
type signalFlag syscall.Signal

func (f *signalFlag) String() string {
	if *f == 0 {
		return ""
	}
	if name := unix.SignalName(syscall.Signal(*f)); name != "" {
		return name
	}
	return strconv.Itoa(int(*f))
}

func (f *signalFlag) Set(s string) error {
	sig, err := head.ParseSignal(s)
	if err != nil {
		return err
	}
	if sig == syscall.SIGKILL || sig == syscall.SIGSTOP {
		return errors.New("this signal cannot be caught")
	}
	*f = signalFlag(sig)
	return nil
}

// paramFlag collects NAME=VALUE.
type paramFlag map[string]string

func (f paramFlag) String() string {
	var all []string
	for k, v := range f {
		all = append(all, k+"="+v)
	}
	sort.Strings(all)
	return strings.Join(all, " ")
}

// Set takes NAME=VALUE, or @FILE with a line of that for each parameter, and
// with empty lines and comments (#).
func (f paramFlag) Set(s string) error {
	if file, ok := strings.CutPrefix(s, "@"); ok {
		return f.read(file)
	}
	name, value, ok := strings.Cut(s, "=")
	if !ok || name == "" {
		return errors.New("write NAME=VALUE")
	}
	f[name] = value
	return nil
}

func (f paramFlag) read(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		if line[0] == '@' {
			return fmt.Errorf("%s: %q: a file cannot name another", file, line)
		}
		if err := f.Set(line); err != nil {
			return fmt.Errorf("%s: %q: %w", file, line, err)
		}
	}
	return nil
}

// envFlag collects variables for the ranks.
type envFlag []string

func (f *envFlag) String() string { return strings.Join(*f, " ") }

// Set takes NAME=VALUE, or NAME for the value it has here.
func (f *envFlag) Set(s string) error {
	name, _, ok := strings.Cut(s, "=")
	if name == "" {
		return errors.New("write NAME or NAME=VALUE")
	}
	if !ok {
		v, there := os.LookupEnv(name)
		if !there {
			return fmt.Errorf("%s is not set here; write %s=VALUE", name, name)
		}
		s = name + "=" + v
	}
	*f = append(*f, s)
	return nil
}

func (f envFlag) apply(o *spec.Options) {
	if len(f) > 0 && o.Env == nil {
		o.Env = os.Environ()
	}
	for _, kv := range f {
		name, _, _ := strings.Cut(kv, "=")
		o.Env = wire.SetEnv(o.Env, kv)
		o.KeepEnv = append(o.KeepEnv, name)
	}
}
