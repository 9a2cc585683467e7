package cli

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/gorun-mpi/gorun/cr/snapshot"
	"github.com/gorun-mpi/gorun/internal/job/control"
	"github.com/gorun-mpi/gorun/internal/protocol/wireup"
	"github.com/gorun-mpi/gorun/internal/system/rawstring"
)

var snapshotsCommand = command{
	name: "snapshots", args: "[JOB|SNAPSHOT]", short: "list, verify, prune, remove, export or import snapshots",
	long: `
Lists the snapshots of a job, or of all jobs, or shows one snapshot. A list also removes
what crashes have left of unfinished snapshots.

JOB is the beginning of a job's id. SNAPSHOT is a schema, a folder, JOB/SEQ or latest, as
in gorun restart. KIND says which earlier snapshots an incremental one builds on. -verify
checks these as well, and -prune keeps them as long as it.

-prune also keeps the newest intact snapshot. It reads snapshots, the newest first, until
it finds an intact one. If there is none, it removes nothing. -remove JOB removes all
snapshots of a job that is not running.

IMAGES tells which nodes have which ranks' images, if these lie on the nodes
(-ckpt-local). This command reads and removes only those of this machine; it names the
nodes that it does not reach. What is left there goes when a job that has these nodes
prunes its snapshots (-keep).

A snapshot may have copies in several places (-ckpt-every node=1m,dir=10m): IMAGES lists
them, and -verify reads each, but for those in the memory of a running job, which only
the job can read. -scrub makes again what is damaged or missing in one, from
another. Of folders of nodes it reaches those of this machine. -prune keeps the newest -keep
of each place.

-tails lists the files that restarts have left beside a job's output files, or beside
those of all jobs. They hold what was written after the checkpoint. -tails -remove removes
them.

-export FILE writes a snapshot (default: latest) with all that it needs into one file:
its schema, the images of all ranks, those that they build on, the executable. FILE is a
tar archive (FILE.tar.zst); - is standard output. -import FILE, or - for standard input,
takes such a file into -ckpt-dir and prints the schema's path for gorun restart, on this
machine or another, as this user or another. Nothing is visible before all is checked. What is
sealed (-ckpt-key) stays so: FILE is sealed with the key that the images have, or the one
that -ckpt-key names; -import needs that, and seals the images where they lie then. -plain
writes FILE unsealed. Images in folders of nodes are read on the node that has them: of
several nodes, take a copy in a place that all see first (a level dir or s3).

-verify says "no digest" of what an older gorun wrote: there damage by chance is found, but not
a change on purpose, nor any in the schema. Whatever is written now has SHA-256 over all of it,
which every restart and -import checks as well.

In a folder in common this lists, checks and removes your own jobs, and says how many others there are.
-trust lists and reads theirs as well; nothing of them is ever removed.

A snapshot of which the schema is damaged is listed with STATE damaged, and why is said after the list.

Exit status: 0, or 1 if a snapshot is damaged.`,
	setup: func(fs *flag.FlagSet, std stdio) func([]string) int {
		verify := fs.Bool("verify", false, "read all of every image and check it")
		scrub := fs.Bool("scrub", false, "as -verify; where there are several copies, what is damaged or missing in one is made\nagain from another")
		prune := fs.Bool("prune", false, "remove all but the newest -keep of each job")
		keep := fs.Int("keep", 1, "how many snapshots -prune keeps of each job, `N` (default 1), beside\nthose that they build on")
		remove := fs.Bool("remove", false, "remove all snapshots of JOB; with -tails: the tails")
		tails := fs.Bool("tails", false, "list what restarts have cut off output files and kept in\nFILE.gorun-...-tail")
		asJSON := fs.Bool("json", false, "print a JSON array")
		trust := trustFlag(fs)
		pack := &packer{std: std}
		fs.StringVar(&pack.export, "export", "", "write a snapshot with all that it needs into this `file`, .tar.zst; - for standard output")
		fs.StringVar(&pack.take, "import", "", "take in what -export has written to this `file`; - for standard input")
		fs.StringVar(&pack.key, "ckpt-key", "", "of -export and -import: seal and open with the key in this `file`")
		fs.BoolVar(&pack.plain, "plain", false, "of -export: not sealed, even if the images are")
		dir := fs.String("ckpt-dir", "", "`folder` with the snapshots (default $GORUN_CKPT_DIR, else ~/.gorun/snapshots)")
		return func(args []string) int {
			if len(args) > 1 {
				return usage(std, "one JOB or SNAPSHOT at a time; flags come before it")
			}
			if *prune && *keep < 1 {
				return usage(std, "-keep %d: -prune keeps at least one", *keep)
			}
			if set(fs)["keep"] && !*prune {
				return usage(std, "-keep goes with -prune")
			}
			if (*remove || *tails) && (*verify || *scrub || *prune) {
				return usage(std, "-remove and -tails do not go with -verify, -scrub and -prune")
			}
			if *remove && !*tails && len(args) == 0 {
				return usage(std, "-remove: of which JOB? 'gorun snapshots' lists them")
			}
			if pack.wanted() {
				if *verify || *scrub || *prune || *remove || *tails || *asJSON {
					return usage(std, "-export and -import go with -ckpt-dir, -ckpt-key and -plain only")
				}
				pack.trust = *trust
				return pack.run(*dir, args)
			}
			if pack.key != "" || pack.plain {
				return usage(std, "-ckpt-key and -plain go with -export and -import")
			}
			if *tails || *remove {
				t := &remover{std: std, json: *asJSON, tails: *tails, remove: *remove}
				return failed(std, t.run(*dir, args))
			}
			v := &viewer{std: std, json: *asJSON, verify: *verify || *scrub, scrub: *scrub, prune: *prune, keep: *keep, trust: *trust}
			return failed(std, v.run(*dir, args))
		}
	},
}

// viewer carries out one snapshots command.
type viewer struct {
	std                 stdio
	json, verify, prune bool
	scrub, trust        bool
	keep                int
	cat                 *snapshot.Catalogue
	only                string // the job that is asked about; "": all are
	rows                []row
}

// row is one snapshot as it is listed.
type row struct {
	Job     string           `json:"job"`
	Seq     int              `json:"sequence"`
	Created time.Time        `json:"created"`
	NP      int              `json:"np"`
	Backend string           `json:"backend"`
	Bytes   int64            `json:"bytes"`
	Bases   []int            `json:"bases,omitempty"`    // snapshots that its incremental images build on
	Pause   int64            `json:"pause_ns,omitempty"` // the longest time that a process stood still
	Gate    int64            `json:"gate_ns,omitempty"`  // time in which no message was sent
	Place   string           `json:"place,omitempty"`    // of images that do not lie beside the schema: node and a folder
	Copies  []copyRow        `json:"copies,omitempty"`   // all, if there are several
	Nodes   map[string][]int `json:"nodes,omitempty"`    // which node has written the images of which ranks there
	Program string           `json:"program"`
	Schema  rawstring.String `json:"schema"`
	State   string           `json:"state,omitempty"`  // of -verify: ok, noDigest, damaged or inMemory; of a schema that cannot be read: damaged or unreadable
	Damage  string           `json:"damage,omitempty"` // why the schema cannot be read: all else but the job and the number is unknown then
}

// inMemory is the state of what only its running job can read.
const inMemory = "in memory, not read"

// noDigest is the state of what an older gorun wrote, if it is well.
const noDigest = "ok, no digest"

// The states of what is not well.
const (
	damaged    = "damaged"
	unreadable = "not readable" // for this user or gorun, or now
)

// copyRow is one copy of a snapshot's images.
type copyRow struct {
	Place   string    `json:"place"`
	Created time.Time `json:"created"`
	State   string    `json:"state,omitempty"` // of -verify: ok, inMemory, or what is wrong
}

// kind is "full" or tells what the snapshot builds on.
func (r *row) kind() string {
	if len(r.Bases) == 0 {
		return "full"
	}
	return "on " + strings.Trim(strings.Join(strings.Fields(fmt.Sprint(r.Bases)), ","), "[]")
}

// images tells which node has which ranks' images.
func (r *row) images() string {
	if len(r.Copies) > 0 {
		var all []string
		for _, c := range r.Copies {
			text := c.Place
			switch c.State {
			case "":
			case "ok", inMemory:
				text += " (" + c.State + ")"
			default:
				text += " (damaged)"
			}
			all = append(all, text)
		}
		return strings.Join(all, "; ")
	}
	switch {
	case r.Damage != "":
		return "-"
	case r.Place == "":
		return "beside the schema"
	case len(r.Nodes) == 0:
		return r.Place
	}
	var all []string
	for _, name := range slices.Sorted(maps.Keys(r.Nodes)) {
		all = append(all, name+": "+wireup.Ranks(r.Nodes[name]))
	}
	return strings.Join(all, "; ") + " (" + r.Place + ")"
}

func (v *viewer) run(dir string, args []string) error {
	root, err := ckptDir(dir)
	if err != nil {
		return err
	}
	if v.cat, err = openCatalogue(root); err != nil {
		return err
	}
	if v.trust {
		v.cat.Trust()
	}
	if _, err := control.Jobs(); err != nil { // removes what dead jobs left
		return err
	}
	jobs, err := v.cat.Jobs()
	if err != nil {
		return err
	}
	if len(args) == 1 {
		if v.only, err = v.cat.FindJob(args[0]); err != nil {
			return without(args[0], v.one(args[0]))
		}
		jobs = []string{v.only}
	} else if !v.trust {
		tellOthers(v.std, v.cat)
	}
	var errs []error
	for _, job := range jobs {
		errs = append(errs, v.job(job))
	}
	err = snapshot.Distinct(errs...)
	return errors.Join(err, v.print(err))
}

// one shows a single snapshot.
func (v *viewer) one(spec string) error {
	s, err := v.cat.Find(spec)
	switch {
	case v.prune && errors.Is(err, snapshot.ErrForeign):
		return ownersOnly(err)
	case v.prune:
		return fmt.Errorf("%s is no job: -prune takes a job, or none for all", spec)
	case err == nil:
		s, err = swept(s)
	}
	if err != nil {
		return foreign(err, toRead)
	}
	err = v.add(s)
	return errors.Join(err, v.print(err))
}

// without says of a running job why there is nothing of it.
func without(id string, err error) error {
	if !errors.Is(err, snapshot.ErrNotFound) {
		return err
	}
	r, rerr := control.FindJob(id)
	switch {
	case rerr != nil:
		return err
	case r.CR == "":
		return fmt.Errorf("job %s is running, and there is no snapshot of it: it was started without -cr", r.Job)
	}
	return fmt.Errorf("job %s is running, and there is no snapshot of it here: its own go to %s (-ckpt-dir)", r.Job, r.CkptDir)
}

// swept is a snapshot without what was in the memory of a job that is over. What is left in memory is of a job that runs.
func swept(s *snapshot.Snapshot) (*snapshot.Snapshot, error) {
	root := catalogueOf(s)
	if s.Lasting() == s || root == "" {
		return s, nil
	}
	c, err := openCatalogue(root)
	if err != nil {
		return s, err
	}
	if _, err := c.Sweep(s.Schema.Job); err != nil {
		return s, err
	}
	now, err := c.Load(s.Dir)
	if errors.Is(err, snapshot.ErrNotFound) {
		err = fmt.Errorf("%w: it was in the memory of a job that is over", err)
	}
	return now, err
}

// job collects the snapshots of one job.
func (v *viewer) job(job string) error {
	left, err := v.cat.Sweep(job)
	errs := []error{err}
	for _, dir := range left {
		fmt.Fprintf(v.std.err, "gorun: removed %s, which a crash has left\n", dir)
	}
	if v.prune {
		done, err := v.cat.Prune(job, v.keep)
		errs = append(errs, err)
		for _, seq := range done.Removed {
			fmt.Fprintf(v.std.err, "gorun: removed snapshot %d of job %s\n", seq, job)
		}
		for _, seq := range done.InUse {
			fmt.Fprintf(v.std.err, "gorun: snapshot %d of job %s is in use and stays\n", seq, job)
		}
		for _, seq := range done.Needed {
			fmt.Fprintf(v.std.err, "gorun: snapshot %d of job %s stays, later ones build on it\n", seq, job)
		}
		for _, seq := range done.Intact {
			fmt.Fprintf(v.std.err, "gorun: snapshot %d of job %s stays, it is the newest that is intact\n", seq, job)
		}
		for _, d := range done.Dropped {
			fmt.Fprintf(v.std.err, "gorun: removed the copy of snapshot %d of job %s %s\n", d.Seq, job, in(d.Place))
		}
		for _, path := range done.Programs {
			fmt.Fprintf(v.std.err, "gorun: removed the program %s\n", path)
		}
	}
	all, err := v.cat.List(job)
	errs = append(errs, err)
	bad := snapshot.UnreadableOf(err)
	for _, s := range all {
		for len(bad) > 0 && bad[0].Seq < s.Schema.Sequence {
			v.addUnreadable(bad[0])
			bad = bad[1:]
		}
		errs = append(errs, v.add(s))
	}
	for _, e := range bad {
		v.addUnreadable(e)
	}
	return errors.Join(errs...)
}

// addUnreadable lists a snapshot of which the schema cannot be read.
func (v *viewer) addUnreadable(e *snapshot.Unreadable) {
	r := row{Job: e.Job, Seq: e.Seq, State: unreadable, Damage: e.Error()}
	if e.Damaged() {
		r.State = damaged
	}
	v.rows = append(v.rows, r)
}

// add lists a snapshot, verified if asked for.
func (v *viewer) add(s *snapshot.Snapshot) (err error) {
	r := row{Job: s.Schema.Job, Seq: s.Schema.Sequence, Created: s.Schema.Created, NP: s.Schema.NP, Backend: s.Schema.Backend,
		Bytes: s.Bytes(), Bases: s.Schema.Bases(), Gate: s.Schema.Gate, Program: commandLine(s.Schema.Program.Path, s.Schema.Program.Args), Schema: rawstring.String(s.SchemaPath())}
	for _, im := range s.Schema.Images {
		r.Pause = max(r.Pause, im.Pause)
		if im.Node != "" {
			if r.Nodes == nil {
				r.Nodes = map[string][]int{}
			}
			r.Nodes[im.Node] = append(r.Nodes[im.Node], im.Rank)
		}
	}
	if s.Place() != (snapshot.Place{}) {
		r.Place = s.Place().String()
	}
	if v.scrub {
		s, err = v.scrubs(s)
	}
	if copies := s.Copies(); len(copies) > 1 {
		for _, c := range copies {
			r.Copies = append(r.Copies, copyRow{Place: c.Place().String(), Created: c.Created})
		}
	}
	if v.verify {
		r.State = "ok"
		if lasting := s.Lasting(); lasting == nil {
			r.State = inMemory
		} else if e := lasting.Verify(nil); e != nil {
			r.State, err = damaged, errors.Join(err, e)
		} else if !lasting.Schema.Digested() {
			r.State = noDigest
		}
		for i, c := range s.Copies()[:len(r.Copies)] {
			r.Copies[i].State = "ok"
			if c.InMemory() {
				r.Copies[i].State = inMemory
			} else if err := s.Only(c).Verify(nil); err != nil {
				r.Copies[i].State = err.Error()
			}
		}
	}
	v.rows = append(v.rows, r)
	return err
}

// print prints the list. err is what is wrong, and is told after it.
func (v *viewer) print(err error) error {
	if v.json {
		if v.rows == nil {
			v.rows = []row{}
		}
		return printJSON(v.std, v.rows)
	}
	if len(v.rows) == 0 && err != nil {
		return nil
	}
	if len(v.rows) == 0 {
		which := "there are no snapshots"
		if v.only != "" {
			which = "there is no snapshot of job " + v.only
		}
		fmt.Fprintf(v.std.err, "gorun: %s in %s\n", which, v.cat.Root())
		return nil
	}
	w := tabwriter.NewWriter(v.std.out, 0, 8, 2, ' ', 0)
	title := "JOB\tSEQ\tCREATED\tNP\tBYTES\tKIND\tPROGRAM"
	far := slices.ContainsFunc(v.rows, func(r row) bool { return r.Place != "" || len(r.Copies) > 0 })
	if far {
		title += "\tIMAGES"
	}
	states := v.verify || slices.ContainsFunc(v.rows, func(r row) bool { return r.State != "" })
	if states {
		title += "\tSTATE"
	}
	fmt.Fprintln(w, title)
	for _, r := range v.rows {
		if r.Damage != "" {
			fmt.Fprintf(w, "%s\t%d\t-\t-\t-\t-\t-", r.Job, r.Seq)
		} else {
			fmt.Fprintf(w, "%s\t%d\t%s\t%d\t%d\t%s\t%s", r.Job, r.Seq, r.Created.Local().Format(time.DateTime), r.NP, r.Bytes, r.kind(), r.Program)
		}
		if far {
			fmt.Fprintf(w, "\t%s", r.images())
		}
		if states {
			fmt.Fprintf(w, "\t%s", r.State)
		}
		fmt.Fprintln(w)
	}
	return w.Flush()
}
