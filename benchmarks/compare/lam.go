package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/gorun-mpi/gorun/benchmarks/internal/bench"
)

// lam is a LAM/MPI session of our own: its daemon must run before any program
// starts, and neither of them as root.
type lam struct {
	dir string   // for the session's files, and for the program
	as  []string // begins every command
	env []string
}

// nobody is an ordinary user that every Debian has.
const nobody = 65534

// bootLAM starts the daemon and makes the library's programs run under it.
func bootLAM(ctx context.Context, p *library) (*lam, error) {
	dir, err := os.MkdirTemp("", "gorun-lam-")
	if err != nil {
		return nil, err
	}
	l := &lam{dir: dir, env: []string{"LAM_MPI_SESSION_PREFIX=" + dir, "HOME=" + dir}}
	if os.Geteuid() == 0 {
		l.as = []string{"setpriv", fmt.Sprintf("--reuid=%d", nobody), fmt.Sprintf("--regid=%d", nobody), "--clear-groups"}
		err = os.Chown(dir, nobody, nobody)
	}
	if err == nil {
		err = l.run(ctx, "lamboot")
	}
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	launch := map[string][]string{}
	for transport, args := range p.launch {
		launch[transport] = append(l.as[:len(l.as):len(l.as)], args...)
	}
	p.launch, p.env = launch, map[string][]string{"shm": l.env, "tcp": l.env}
	return l, nil
}

// run runs one of LAM's commands. The daemon keeps the standard files that it
// is started with, so they are not pipes.
func (l *lam) run(ctx context.Context, command string) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	log, err := os.Create(filepath.Join(l.dir, command+".log"))
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := bench.Command(ctx, l.env, append(l.as[:len(l.as):len(l.as)], command)...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = l.dir, log, log
	if err := cmd.Run(); err != nil {
		text, _ := os.ReadFile(log.Name())
		return fmt.Errorf("%s: %w\n%s", command, err, text)
	}
	return nil
}

// clean ends the ranks of a program whose mpirun was ended.
func (l *lam) clean() error { return l.run(context.Background(), "lamclean") }

// halt ends the daemon, also after an interrupt, and removes the session.
func (l *lam) halt() error {
	return errors.Join(l.run(context.Background(), "lamhalt"), os.RemoveAll(l.dir))
}
