package criu

import (
	"fmt"
	"runtime"

	"github.com/gorun-mpi/gorun/cr/image"
	"github.com/gorun-mpi/gorun/cr/whole"
)

// What the launcher asks of a back-end.
var _ whole.Imager = (*Backend)(nil)

// Name is what -cr takes and what stands in images.
func (b *Backend) Name() string { return Name }

// Doc is one line for gorun info.
func (b *Backend) Doc() string {
	return "whole processes, with CRIU (criu.org); ranks stand still until their images are written"
}

// Features is empty: 'criu check' tells all there is.
func (b *Backend) Features() []whole.Feature { return nil }

// CheckProgram has no objection: criu images C as well.
func (b *Backend) CheckProgram(string) error { return nil }

// CheckRestart says why the images of a job cannot go on here.
func (b *Backend) CheckRestart(images []image.Source, files whole.FilesPolicy) error {
	if err := b.Supported(); err != nil {
		return err
	}
	writer := map[string]int{}
	for rank, src := range images {
		st, err := readSource(src)
		if err != nil {
			return fmt.Errorf("rank %d: %w", rank, err)
		}
		if err := st.check(files); err != nil {
			return fmt.Errorf("rank %d: %w", rank, err)
		}
		for _, f := range st.Files {
			if other, twice := writer[f.Path]; twice {
				return fmt.Errorf("ranks %d and %d write to %s: criu cannot bring back what each has written", other, rank, f.Path)
			}
			writer[f.Path] = rank
		}
	}
	return nil
}

// Describe tells what an image holds.
func (b *Backend) Describe(path string) ([]whole.Fact, error) {
	st, err := ReadState(path)
	if err != nil {
		return nil, err
	}
	facts := []whole.Fact{
		{Name: "process id", Value: fmt.Sprint(st.PID)},
		{Name: "program", Value: st.Program},
	}
	for _, f := range st.Files {
		facts = append(facts, whole.Fact{Name: "output file", Value: fmt.Sprintf("%s, %d bytes", f.Path, f.Size)})
	}
	return facts, nil
}

// NewTracer returns what an agent works with. All processes are made by one
// thread, that lives as long as the tracer.
func (b *Backend) NewTracer(int) (whole.Tracer, error) {
	t := &tracer{b: b, work: make(chan func())}
	go func() {
		runtime.LockOSThread()
		for f := range t.work {
			f()
		}
	}()
	return t, nil
}

type tracer struct {
	b    *Backend
	work chan func()
}

// do runs f on the tracer's thread: a restored process's parent-death signal
// fires when the thread ends that made it.
func (t *tracer) do(f func()) {
	done := make(chan struct{})
	t.work <- func() { defer close(done); f() }
	<-done
}

// Attach names a rank. It touches nothing.
func (t *tracer) Attach(pid, rank, oob int, _ [3]int) (whole.Target, error) {
	return &target{b: t.b, pid: pid, rank: rank, oob: oob}, nil
}

// Close comes last.
func (t *tracer) Close() { close(t.work) }
