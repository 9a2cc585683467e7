package native

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/cr/image"
	"github.com/gorun-mpi/gorun/cr/native/internal/capture"
	"github.com/gorun-mpi/gorun/cr/native/internal/restore"
	"github.com/gorun-mpi/gorun/cr/native/internal/state"
	"github.com/gorun-mpi/gorun/cr/whole"
)

// Imager is the back-end, for whole.Register.
type Imager struct{}

var _ interface {
	whole.Imager
	whole.Outputs
	whole.Sharer
	whole.Merger
	whole.Mover
	whole.Tunable
} = Imager{}

// Name is what -cr takes and what stands in images.
const Name = state.Backend

// Name is that name.
func (Imager) Name() string { return Name }

// Doc is one line for gorun info.
func (Imager) Doc() string {
	return "whole processes: programs of Go and C, unmodified, at any moment; no root needed"
}

// Parameters lists those of a job that are for this back-end.
func (Imager) Parameters() []whole.Parameter {
	return []whole.Parameter{{Name: restore.ParamIDs, Default: "auto",
		Doc: "ids of restored processes and threads: same (in namespaces), new (noted anew where run-times keep them), or auto (same for programs with C in them where that can be had, else new)"}}
}

// CheckParams says what is wrong with them.
func (Imager) CheckParams(given map[string]string) error {
	return restore.CheckParams(given, Name+".")
}

// Moves says that processes can move.
func (Imager) Moves() {}

// Merge makes one image of several, each of which builds on the next.
func (Imager) Merge(to image.Target, seq, base int, from []image.Source, opt image.Options) (image.Summary, error) {
	return restore.Merge(to, seq, base, from, opt)
}

// Supported says why processes cannot be imaged on this machine, nil if they can.
func (Imager) Supported() error { return supported() }

// Features lists the optional features of this machine.
func (Imager) Features() []whole.Feature { return features() }

// CheckProgram says why the executable at path cannot be imaged, nil if nothing
// speaks against it.
func (Imager) CheckProgram(path string) error { return capture.CheckProgram(path) }

// NewTracer returns what an agent works with: threads for work on as many processes
// at the same time.
func (Imager) NewTracer(threads int) (whole.Tracer, error) { return newTracer(threads), nil }

// readStates reads the states of a job's images, several at a time.
func readStates(images []image.Source) ([]*state.State, error) {
	states, errs := make([]*state.State, len(images)), make([]error, len(images))
	var wg sync.WaitGroup
	turn := make(chan struct{}, 4)
	for rank, src := range images {
		wg.Go(func() {
			turn <- struct{}{}
			defer func() { <-turn }()
			if states[rank], errs[rank] = state.Read(src); errs[rank] != nil {
				errs[rank] = fmt.Errorf("rank %d: %w", rank, errs[rank])
			}
		})
	}
	wg.Wait()
	return states, errors.Join(errs...)
}

// CheckRestart says why the images of a job cannot go on here.
func (Imager) CheckRestart(images []image.Source, files whole.FilesPolicy) error {
	states, err := readStates(images)
	if err != nil {
		return err
	}
	checked := map[string]bool{} // most ranks ran on machines of one kind
	for rank, first := range states {
		for _, s := range first.All() {
			id := fmt.Sprint(s.Host)
			if checked[id] {
				continue
			}
			checked[id] = true
			if err := s.CheckHost(); err != nil {
				return fmt.Errorf("rank %d: %w", rank, err)
			}
		}
	}
	if files == whole.FilesRefuse {
		_, err = state.SharedFiles(states)
	}
	return err
}

// Shared lists the files that several of a job's images have open for writing.
func (Imager) Shared(images []image.Source) ([]whole.SharedFile, error) {
	states, err := readStates(images)
	if err != nil {
		return nil, err
	}
	return state.SharedFiles(states)
}

// Libraries lists the files that an image needs beside the executable: what its processes map, and what the children run.
func (Imager) Libraries(src image.Source) ([]whole.Library, error) {
	s, err := state.Read(src)
	if err != nil {
		return nil, err
	}
	return s.Libraries(), nil
}

// Outputs lists the regular files that an image has open for writing.
func (Imager) Outputs(src image.Source) ([]string, error) {
	s, err := state.Read(src)
	if err != nil {
		return nil, err
	}
	var all []string
	for _, f := range s.AllFiles() {
		if f.Output() && !slices.Contains(all, f.Path) {
			all = append(all, f.Path)
		}
	}
	return all, nil
}

// Describe tells what an image holds.
func (Imager) Describe(path string) ([]whole.Fact, error) {
	s, err := state.Read(image.Path(path))
	if err != nil {
		return nil, err
	}
	saved, err := savedPages(path)
	if err != nil {
		return nil, err
	}
	var mapped uint64
	regions := 0
	for _, m := range s.All() {
		regions += len(m.Regions)
		for _, r := range m.Regions {
			mapped += r.End - r.Start
		}
	}
	base := "full"
	if s.Base > 0 {
		base = fmt.Sprintf("incremental, builds on snapshot %d", s.Base)
	}
	facts := []whole.Fact{
		{Name: "executable", Value: s.Exe},
		{Name: "go build id", Value: s.BuildID},
		{Name: "process", Value: fmt.Sprintf("pid %d, %d threads, in %s", s.PID, len(s.Threads), s.Dir)},
		{Name: "memory", Value: fmt.Sprintf("%s; %d regions with %d MB of addresses, %.1f MB saved", base, regions, mapped>>20, float64(saved)/1e6)},
		{Name: "linux", Value: s.Host.Kernel},
		{Name: "processor", Value: s.Host.CPU},
	}
	for _, m := range s.Members {
		facts = append(facts, whole.Fact{Name: "child process", Value: fmt.Sprintf("pid %d of %d, %d threads, %s in %s", m.PID, m.Kin.Parent, len(m.Threads), m.Exe, m.Dir)})
	}
	for _, k := range s.Ended {
		facts = append(facts, whole.Fact{Name: "child process", Value: fmt.Sprintf("pid %d of %d, has ended: %s", k.ID, k.Parent, k.Name)})
	}
	kinds := map[string]int{}
	for _, f := range s.AllFiles() {
		kinds[f.Kind]++
		if f.Kind == state.FileRegular {
			facts = append(facts, whole.Fact{Name: "open file", Value: describeFile(&f)})
		}
	}
	var counts []string
	for kind, n := range kinds {
		counts = append(counts, fmt.Sprintf("%d %s", n, kind))
	}
	slices.Sort(counts)
	return append(facts, whole.Fact{Name: "descriptors", Value: strings.Join(counts, ", ")}), nil
}

func describeFile(f *state.File) string {
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
