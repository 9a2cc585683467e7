package launcher

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/cr/image"
	"github.com/gorun-mpi/gorun/cr/native"
)

func init() { RegisterImager(nativeImager{}) }

// nativeImager is package cr/native as an Imager.
type nativeImager struct{}

func (nativeImager) Name() string { return defaultImager }

func (nativeImager) Doc() string {
	return "whole processes: any Go program without cgo, unmodified, at any moment; no root needed"
}

func (nativeImager) Supported() error               { return native.Supported() }
func (nativeImager) CheckProgram(path string) error { return native.CheckProgram(path) }

func (nativeImager) Features() []Feature {
	var all []Feature
	for _, f := range native.Features() {
		all = append(all, Feature(f))
	}
	return all
}

func (nativeImager) NewTracer(threads int) (Tracer, error) {
	return nativeTracer{native.NewTracer(threads)}, nil
}

// readStates reads the states of a job's images, several at a time.
func readStates(images []string) ([]*native.State, error) {
	states, errs := make([]*native.State, len(images)), make([]error, len(images))
	var wg sync.WaitGroup
	turn := make(chan struct{}, 4)
	for rank, path := range images {
		wg.Go(func() {
			turn <- struct{}{}
			defer func() { <-turn }()
			if states[rank], errs[rank] = native.ReadState(path); errs[rank] != nil {
				errs[rank] = fmt.Errorf("rank %d: %w", rank, errs[rank])
			}
		})
	}
	wg.Wait()
	return states, errors.Join(errs...)
}

func (nativeImager) CheckRestart(images []string, files FilesPolicy) error {
	states, err := readStates(images)
	if err != nil {
		return err
	}
	checked := map[string]bool{} // most ranks ran on machines of one kind
	for rank, s := range states {
		id := fmt.Sprint(s.Host)
		if checked[id] {
			continue
		}
		checked[id] = true
		if err := s.CheckHost(); err != nil {
			return fmt.Errorf("rank %d: %w", rank, err)
		}
	}
	if files != FilesRefuse {
		return nil
	}
	return oneWriter(states)
}

// Shared is oneWriter for images that were not read yet.
func (nativeImager) Shared(images []string) error {
	states, err := readStates(images)
	if err != nil {
		return err
	}
	return oneWriter(states)
}

// oneWriter refuses files that several ranks were writing to: each would go on
// at a place of its own, and none may cut off what another has written.
func oneWriter(states []*native.State) error {
	type file struct{ dev, inode uint64 }
	writers, names := map[file][]int{}, map[file]string{}
	for rank, s := range states {
		for _, f := range s.Files {
			id := file{f.Dev, f.Inode}
			if written(&f) && !slices.Contains(writers[id], rank) {
				writers[id] = append(writers[id], rank)
				names[id] = f.Path
			}
		}
	}
	var errs []error
	for id, ranks := range writers {
		if len(ranks) > 1 {
			errs = append(errs, fmt.Errorf("%s was being written to by several ranks (%s), so that it cannot be brought back to what it was (use -files copy to go on in a copy of it, -files keep to go on in it as it is)", names[id], rankList(ranks)))
		}
	}
	return errors.Join(errs...)
}

// Outputs lists the regular files that an image has open for writing.
func (nativeImager) Outputs(image string) ([]string, error) {
	s, err := native.ReadState(image)
	if err != nil {
		return nil, err
	}
	var all []string
	for _, f := range s.Files {
		if written(&f) {
			all = append(all, f.Path)
		}
	}
	return all, nil
}

// written reports whether f is a regular file that is still there under its name
// and may be written to.
func written(f *native.File) bool {
	return f.Kind == native.FileRegular && !f.Deleted && f.Flags&unix.O_ACCMODE != unix.O_RDONLY &&
		f.Flags&unix.O_PATH == 0 && f.Mode&unix.S_IFMT == unix.S_IFREG
}

func (nativeImager) Describe(path string) ([]Fact, error) {
	s, err := native.ReadState(path)
	if err != nil {
		return nil, err
	}
	saved, err := savedPages(path)
	if err != nil {
		return nil, err
	}
	var mapped uint64
	for _, r := range s.Regions {
		mapped += r.End - r.Start
	}
	base := "full"
	if s.Base > 0 {
		base = fmt.Sprintf("incremental, builds on snapshot %d", s.Base)
	}
	facts := []Fact{
		{"executable", s.Exe},
		{"go build id", s.BuildID},
		{"process", fmt.Sprintf("pid %d, %d threads, in %s", s.PID, len(s.Threads), s.Dir)},
		{"memory", fmt.Sprintf("%s; %d regions with %d MB of addresses, %.1f MB saved", base, len(s.Regions), mapped>>20, float64(saved)/1e6)},
		{"linux", s.Host.Kernel},
		{"processor", s.Host.CPU},
	}
	kinds := map[string]int{}
	for _, f := range s.Files {
		kinds[f.Kind]++
		if f.Kind == native.FileRegular {
			facts = append(facts, Fact{"open file", describeFile(&f)})
		}
	}
	var counts []string
	for kind, n := range kinds {
		counts = append(counts, fmt.Sprintf("%d %s", n, kind))
	}
	slices.Sort(counts)
	return append(facts, Fact{"descriptors", strings.Join(counts, ", ")}), nil
}

func describeFile(f *native.File) string {
	how := "read"
	if f.Flags&unix.O_ACCMODE != unix.O_RDONLY {
		how = "written"
	}
	if f.Deleted {
		how += ", deleted"
	}
	return fmt.Sprintf("%s (descriptor %d, %s, at %d of %d)", filepath.Clean(f.Path), f.FD, how, f.Offset, f.Size)
}

// savedPages is how much memory an image holds itself.
func savedPages(path string) (n uint64, err error) {
	r, err := image.Open(path)
	if err != nil {
		return 0, err
	}
	defer r.Close()
	for _, s := range r.Sections() {
		if s.Kind == "pages" {
			n += s.Size
		}
	}
	return n, nil
}

type nativeTracer struct{ *native.Tracer }

func (t nativeTracer) Attach(pid, rank, oob int, std [3]int) (Target, error) {
	g, err := t.Tracer.Attach(pid, rank, oob, std)
	if err != nil {
		return nil, plainly(err)
	}
	return nativeTarget{g}, nil
}

func (t nativeTracer) Restore(o RestoreOptions) (*Restored, error) {
	files, err := native.ParseFilesPolicy(string(o.Files))
	if err != nil {
		return nil, err
	}
	r, err := t.Tracer.Restore(native.RestoreOptions{
		Rank: o.Rank, Image: o.Image, BasePath: o.Base, Program: o.Program,
		Stdin: o.Stdin, Stdout: o.Stdout, Stderr: o.Stderr, OOB: o.OOB, Files: files, Tag: o.Tag, Wait: true, Hold: o.Hold,
	})
	if err != nil {
		return nil, notWho(err)
	}
	back := &Restored{
		PID: r.PID, Unread: r.Unread, Warn: strings.Join(r.Notes, "; "),
		Go: func() error { return notWho(r.Go()) }, End: func() error { return notWho(r.End()) },
		Close: r.Close,
	}
	if r.Moved != "" {
		back.Note = "the kernel's clock functions were replaced: " + r.Moved
	}
	return back, nil
}

// notWho leaves out of an error of a restore whose it is: the head says that.
func notWho(err error) error {
	var e *native.RestoreError
	if errors.As(err, &e) {
		return fmt.Errorf("%s: %w", e.Image, e.Err)
	}
	return err
}

type nativeTarget struct{ *native.Target }

func (g nativeTarget) Capture(o CaptureOptions) (Copy, error) {
	c, err := g.Target.Capture(native.CaptureOptions{Base: o.Base, Seq: o.Seq, Track: o.Track, NoFork: o.NoFork})
	if err != nil {
		return nil, plainly(err)
	}
	return nativeCopy{c}, nil
}

type nativeCopy struct{ *native.Copy }

func (c nativeCopy) Write(path string, m image.Meta, opt image.Options) (image.Summary, error) {
	m.Format = native.Format
	s, err := c.Copy.Write(path, m, opt)
	return s, plainly(err)
}

// plainly leaves out of an error whose it is: the head says that.
func plainly(err error) error {
	if errors.Is(err, native.ErrDied) {
		return ErrRankDied
	}
	var e *native.Error
	if errors.As(err, &e) {
		return e.Err
	}
	return err
}
