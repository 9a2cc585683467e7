package cli

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/gorun-mpi/gorun/internal/job/control"
	"github.com/gorun-mpi/gorun/internal/job/program"
	"github.com/gorun-mpi/gorun/internal/offload"
	"github.com/gorun-mpi/gorun/internal/protocol/wireup"
	"github.com/gorun-mpi/gorun/internal/system/rawstring"
)

// askTimeout bounds the time in which a running job must answer a question.
const askTimeout = 5 * time.Second

var psCommand = command{
	name: "ps", short: "list running jobs",
	long: "Lists your jobs on this machine, whichever session they were started from, and removes\nwhat dead ones left behind.",
	setup: func(fs *flag.FlagSet, std stdio) func([]string) int {
		asJSON := fs.Bool("json", false, "print a JSON array with everything that is known")
		return func(args []string) int {
			if len(args) > 0 {
				return usage(std, "ps takes no arguments; 'gorun status JOB' tells about one job")
			}
			return failed(std, ps(std, *asJSON))
		}
	},
}

func ps(std stdio, asJSON bool) error {
	jobs, err := control.Jobs()
	if err != nil {
		return err
	}
	all := make([]*control.Status, 0, len(jobs))
	for _, r := range jobs {
		s, err := status(r)
		switch {
		case errors.Is(err, control.ErrEnded):
			continue
		case err != nil:
			// The head is alive, its folder is locked, but it does not answer.
			s = &control.Status{Job: r.Job, Incarnation: r.Incarnation, State: silence(err), PID: r.PID, NP: r.NP, CR: r.CR, Program: r.Program, Args: r.Args, Started: r.Started, Restarts: r.Restarts}
		}
		all = append(all, s)
	}
	if asJSON {
		return printJSON(std, all)
	}
	w := tabwriter.NewWriter(std.out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "JOB\tINCARNATION\tNP\tSTATE\tTIME\tRESTARTS\tPID\tPROGRAM")
	for _, s := range all {
		fmt.Fprintf(w, "%s\t%s\t%d\t%s\t%v\t%d\t%d\t%s\n", s.Job, s.Incarnation, s.NP, s.State,
			time.Since(s.Started).Round(time.Second), s.Restarts, s.PID, commandLine(string(s.Program), s.Args))
		if s.Failing != nil {
			fmt.Fprintf(w, "  checkpoints of %.8s: %s\n", s.Job, printable(s.Failing.String()))
		}
	}
	return w.Flush()
}

// silence is the state of a job that does not answer.
func silence(err error) string {
	if errors.Is(err, control.ErrSuspended) {
		return "suspended"
	}
	return "silent"
}

func commandLine(path string, args []string) string {
	return strings.Join(rawstring.Each(program.Told(path, args), printable), " ")
}

// printable returns s as it may be shown on a line. It is in quotes if some of it would not show, or would end
// the line.
func printable(s string) string {
	if utf8.ValidString(s) && strings.IndexFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) < 0 {
		return s
	}
	return strconv.Quote(s)
}

func printJSON(std stdio, v any) error {
	enc := json.NewEncoder(std.out)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

func status(r *control.Record) (*control.Status, error) {
	ctx, cancel := context.WithTimeout(context.Background(), askTimeout)
	defer cancel()
	return r.Status(ctx)
}

// withJob is the common part of status, kill and checkpoint. They take at most one argument, the beginning of a
// job's id.
func withJob(std stdio, args []string, f func(*control.Record) error) int {
	if len(args) > 1 {
		return usage(std, "one JOB at a time; flags come before it")
	}
	id := ""
	if len(args) == 1 {
		id = args[0]
	}
	r, err := findJob(id)
	if err != nil {
		return failed(std, err)
	}
	return failed(std, f(r))
}

var statusCommand = command{
	name: "status", args: "[JOB]", short: "tell how a running job is",
	long: `
Tells, for each rank, in which calls of the library its goroutines are: where the program
has made each call, what it waits for, and for how long. If a rank does not answer within
some seconds, status says so. gorun stacks may then tell more.

JOB is the beginning of a job's id or of its incarnation's id. It may be left out when
only one job runs.`,
	setup: func(fs *flag.FlagSet, std stdio) func([]string) int {
		asJSON := fs.Bool("json", false, "print it as JSON")
		figures := fs.Bool("metrics", false, "print figures of the job and its levels in the text format of Prometheus")
		verbose := fs.Bool("v", false, "tell also to which CPUs ranks are bound")
		return func(args []string) int {
			return withJob(std, args, func(r *control.Record) error {
				ctx, cancel := context.WithTimeout(context.Background(), r.AnswerWithin()+askTimeout)
				defer cancel()
				s, err := r.Look(ctx)
				if err != nil {
					return err
				}
				switch {
				case *asJSON:
					return printJSON(std, s)
				case *figures:
					return printMetrics(std.out, s, time.Now())
				}
				return printStatus(std, s, *verbose)
			})
		}
	},
}

// boundTo says where a rank may run.
func boundTo(cpus string) string {
	if cpus == "" {
		return "not bound to CPUs"
	}
	return "bound to CPUs " + cpus
}

func printStatus(std stdio, s *control.Status, verbose bool) error {
	w := tabwriter.NewWriter(std.out, 0, 8, 2, ' ', 0)
	line := func(name string, value any) {
		if name != "" {
			name += ":"
		}
		fmt.Fprintf(w, "%s\t%v\n", name, value)
	}
	line("job", s.Job)
	line("incarnation", s.Incarnation)
	line("state", s.State)
	line("program", commandLine(string(s.Program), s.Args))
	line("head", fmt.Sprintf("pid %d", s.PID))
	line("started", fmt.Sprintf("%s, %v ago", s.Started.Format(time.DateTime), time.Since(s.Started).Round(time.Second)))
	line("restarts", s.Restarts)
	cr := s.CR
	if cr == "" {
		cr = "off (started without -cr)"
	}
	line("checkpoints", cr)
	if s.Checkpoint != "" {
		line("checkpoint running", s.Checkpoint)
	}
	if s.Held != "" {
		line("checkpoints held off", "by "+printable(s.Held))
	}
	if s.Failing != nil {
		line("checkpoints fail", printable(s.Failing.String()))
	}
	if i := s.Interval; i != nil && (i.Every > 0 || i.Points > 0 || i.Measured > 0) {
		line("a checkpoint every", i)
	}
	for i := range s.Levels {
		line("level", &s.Levels[i])
	}
	if s.Snapshot != "" {
		line("newest snapshot", printable(string(s.Snapshot)))
	}
	if s.Last != nil {
		line("newest checkpoint", s.Last)
	}
	if t := s.Transports; t != nil && len(t.Uses) > 0 {
		line("transports", t)
		for _, note := range t.Notes {
			line("", note)
		}
	}
	if len(s.Nodes) > 0 {
		line("nodes", len(s.Nodes))
	}
	for _, n := range s.Nodes {
		fmt.Fprintf(w, "  %s\t%s\n", n.Name, nodeState(n))
	}
	line("ranks", s.NP)
	for _, r := range s.Ranks {
		fmt.Fprintf(w, "  %d\tpid %d on %s, agent %d: %s\n", r.Rank, r.PID, r.Host, r.Agent, r.State)
		if verbose {
			fmt.Fprintf(w, "\t  %s\n", boundTo(r.CPUs))
		}
		if r.Doing != "" {
			fmt.Fprintf(w, "\t  %s\n", r.Doing)
		}
		for _, d := range r.Devices {
			fmt.Fprintf(w, "\t  device %s: %s\n", d.Device, offloadState(d))
		}
		for i := range r.Waits {
			fmt.Fprintf(w, "\t  %s\n", printable(r.Waits[i].String()))
		}
	}
	return w.Flush()
}

// offloadState tells how an offload process is, on one line.
func offloadState(s offload.Session) string {
	switch {
	case s.Error != "":
		return s.State + ": " + printable(s.Error)
	case s.PID == 0:
		return s.State
	}
	return fmt.Sprintf("process %d %s", s.PID, s.State)
}

// nodeState tells how a node is, on one line.
func nodeState(n control.Node) string {
	s := n.State
	if s != "up" {
		s += " since " + n.Since.Format(time.TimeOnly)
	}
	if n.Own {
		s += ", gorun's own"
	}
	if n.CPUs > 0 {
		s += fmt.Sprintf(", %d CPUs", n.CPUs)
	}
	switch {
	case len(n.Ranks) > 0:
		s += ", " + wireup.Ranks(n.Ranks)
	case n.State == "up":
		s += ", a spare"
	}
	if n.Why != "" {
		s += ": " + n.Why
	}
	return printable(s)
}

var killCommand = command{
	name: "kill", args: "[JOB]", short: "end a running job",
	long: "All ranks get SIGTERM and a second to end, then SIGKILL. Returns when nothing of the\njob runs any more. JOB is the beginning of a job's id or of its incarnation's id. It may\nbe left out when only one job runs.",
	setup: func(fs *flag.FlagSet, std stdio) func([]string) int {
		now := fs.Bool("9", false, "SIGKILL at once")
		return func(args []string) int {
			if len(args) > 0 { // without, the only one is meant
				var status int
				if args, status = jobFirst(fs, std, "kill", args); status != 0 {
					return status
				}
			}
			return withJob(std, args, func(r *control.Record) error {
				ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
				defer cancel()
				return r.Kill(ctx, *now)
			})
		}
	},
}
