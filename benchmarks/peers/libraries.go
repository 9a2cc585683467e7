package main

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/gorun-mpi/gorun/benchmarks/internal/bench"
)

//go:embed c/pingpong.c
var pingpong []byte

// peer is another MPI library, by the names of its commands in Debian, and what
// makes it use TCP even within a machine.
type peer struct {
	name  string
	mpicc string
	mpi   []string // launcher with its flags
	env   []string
}

var peers = []peer{
	{
		name:  "openmpi",
		mpicc: "mpicc.openmpi",
		mpi: []string{"mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "-np", "2",
			"--mca", "btl", "tcp,self", "--mca", "pml", "ob1"},
	},
	{
		name:  "mpich",
		mpicc: "mpicc.mpich",
		mpi:   []string{"mpirun.mpich", "-np", "2"},
		env:   []string{"UCX_TLS=tcp,self"},
	},
}

// build compiles pingpong.c for the library; if it is not installed, the
// contender is nil and why says what is missing.
func (p *peer) build(ctx context.Context, dir string, o *options) (c *contender, why string, err error) {
	for _, tool := range []string{p.mpicc, p.mpi[0]} {
		if _, err := exec.LookPath(tool); err != nil {
			return nil, tool + " is not installed", nil
		}
	}
	if err := os.WriteFile(source(dir), pingpong, 0o666); err != nil {
		return nil, "", err
	}
	exe := filepath.Join(dir, "pingpong."+p.name)
	if _, err := bench.Output(ctx, time.Minute, nil, p.mpicc, "-O2", "-o", exe, source(dir)); err != nil {
		return nil, "", err
	}
	return &contender{name: p.name, env: p.env, args: func(mode string, sizes []string) []string {
		args := append(append([]string(nil), p.mpi...), exe, mode, fmt.Sprint(o.time.Seconds()), fmt.Sprint(o.batches))
		return append(args, sizes...)
	}}, "", nil
}
