package cli

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"time"

	"github.com/gorun-mpi/gorun/internal/job/control"
	"github.com/gorun-mpi/gorun/internal/protocol/wire"
	"github.com/gorun-mpi/gorun/internal/system/alive"
	"github.com/gorun-mpi/gorun/internal/system/owned"
	"github.com/gorun-mpi/gorun/internal/system/rawstring"
)

var waitCommand = command{
	name: "wait", args: "JOB", short: "wait for the end of a job",
	long: `
Returns when the job has ended, with the job's exit status. A job that was started by
gorun -detach may have ended before: its status is kept for thirty days, in
~/.gorun/ended ($GORUN_DIR/ended if that is set).

JOB is the beginning of a job's id or of its incarnation's id; of a job that has ended, of
its id.`,
	setup: func(fs *flag.FlagSet, std stdio) func([]string) int {
		return func(args []string) int {
			args, status := jobFirst(fs, std, "wait", args)
			if status == 0 && len(args) > 1 {
				status = usage(std, "one JOB at a time")
			}
			if status != 0 {
				return status
			}
			code, err := wait(args[0])
			if err != nil {
				return failed(std, err)
			}
			return code
		}
	},
}

// wait waits for the end of a job and returns its status.
func wait(id string) (code int, err error) {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt)
	defer cancel()
	r, ferr := control.FindJob(id)
	if ferr == nil {
		id = r.Job
		code, ferr = r.Wait(ctx)
	}
	switch {
	case ferr == nil:
		return code, nil
	case errors.Is(ferr, context.Canceled):
		return 0, errors.New("not waiting any longer; the job goes on")
	}
	if id, err = keptJob(id); err == nil {
		code, err = waitKept(ctx, id)
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%w, and nothing is known of such a job's end: that is kept of those started by gorun -detach", ferr)
	}
	return code, err
}

// lookEvery is how often the file of a job is read that this machine does not know, or that is just ending.
const lookEvery = 50 * time.Millisecond

// waitKept waits for the end of a detached job by what is kept of it.
func waitKept(ctx context.Context, job string) (code int, err error) {
	for {
		d, err := detachedJob(job)
		switch {
		case err != nil:
			return 0, err
		case d.Status != nil:
			return *d.Status, nil
		case d.State() == alive.Dead:
			if d, err = detachedJob(job); err == nil && d.Status != nil { // at last
				return *d.Status, nil
			}
			return 0, fmt.Errorf("job %s: its gorun (pid %d) was killed, so nobody knows its status", job, d.PID)
		}
		select {
		case <-ctx.Done():
			return 0, errors.New("not waiting any longer; the job goes on")
		case <-time.After(lookEvery):
		}
	}
}

// detached is what is kept of a detached job, in a file that is named by its id: which process is its gorun, and at last how it has ended.
type detached struct {
	alive.Process
	Status *int             `json:"status,omitempty"`
	Output rawstring.String `json:"output,omitempty"` // the file, once the job has ended
	Folder rawstring.String `json:"folder,omitempty"` // of its snapshots; "": it has none
}

// keptJob completes the beginning of the id of a job of which something is kept. The error is fs.ErrNotExist if there is none.
func keptJob(prefix string) (string, error) {
	dir, err := detachedFolder()
	if err != nil {
		return "", err
	}
	in, err := owned.OpenFolder(dir)
	if err != nil {
		return "", err
	}
	defer in.Close()
	entries, err := in.Entries()
	if err != nil {
		return "", err
	}
	var all []string
	for _, e := range entries {
		switch name := e.Name(); {
		case name == prefix:
			return name, nil
		case strings.HasPrefix(name, prefix) && filepath.Ext(name) == "":
			all = append(all, name)
		}
	}
	switch len(all) {
	case 0:
		return "", fs.ErrNotExist
	case 1:
		return all[0], nil
	}
	return "", fmt.Errorf("%q fits several jobs that have ended, give more of the id: %s", prefix, strings.Join(all, ", "))
}

// detachedFolder has these files.
func detachedFolder() (string, error) {
	if dir := os.Getenv("GORUN_DIR"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "ended"), nil
	}
	home, err := homeDir()
	return filepath.Join(home, ".gorun", "ended"), err
}

// keptFor is how long they are kept.
const keptFor = 30 * 24 * time.Hour

// keep writes the file, and removes those that are too old.
func (d *detached) keep(job string) error {
	dir, err := detachedFolder()
	if err != nil {
		return err
	}
	in, err := owned.MakeFolder(dir)
	if err != nil {
		return err
	}
	defer in.Close()
	path := filepath.Join(dir, job)
	if err := os.WriteFile(path+".part", wire.JSON(d), 0o600); err != nil {
		return err
	}
	if err := os.Rename(path+".part", path); err != nil {
		return err
	}
	entries, err := in.Entries()
	for _, e := range entries {
		if st, serr := e.Info(); serr == nil && time.Since(st.ModTime()) > keptFor {
			err = errors.Join(err, in.Remove(e.Name()))
		}
	}
	return err
}

// detachedJob reads what is kept of a job.
func detachedJob(job string) (*detached, error) {
	dir, err := detachedFolder()
	if err != nil {
		return nil, err
	}
	in, err := owned.OpenFolder(dir)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	b, err := in.ReadFile(job)
	if err != nil {
		return nil, err
	}
	d := &detached{}
	if err := json.Unmarshal(b, d); err != nil || d.Status != nil && (*d.Status < 0 || *d.Status > 255) {
		return nil, fmt.Errorf("%s: nothing that gorun has written: remove it", filepath.Join(dir, job))
	}
	return d, nil
}
