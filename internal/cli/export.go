package cli

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/gorun-mpi/gorun/cr/image"
	crself "github.com/gorun-mpi/gorun/cr/self"
	"github.com/gorun-mpi/gorun/cr/snapshot"
	"github.com/gorun-mpi/gorun/internal/cli/export"
)

// exportFlags are those of gorun image export.
type exportFlags struct {
	format, name, out, ckptDir string
	rank                       int
	trust                      bool
}

func (o *exportFlags) declare(fs *flag.FlagSet) {
	fs.StringVar(&o.format, "format", "npy", "of export: `format` of the files, npy (NumPy) or hdf5")
	fs.IntVar(&o.rank, "rank", -1, "of export: only this `rank`'s")
	fs.StringVar(&o.name, "name", "", "of export: only the `variable` registered under this name")
	fs.StringVar(&o.out, "o", "", "of export: the `folder` that the files go into; it is made if need be")
	fs.BoolVar(&o.trust, "trust", false, "read what another user has written, or could have")
	fs.StringVar(&o.ckptDir, "ckpt-dir", "", "of export: the `folder` with snapshots (default $GORUN_CKPT_DIR, else ~/.gorun/snapshots)")
}

// run exports variables of a snapshot.
func (o *exportFlags) run(args []string, std stdio) int {
	switch {
	case len(args) != 1 || o.out == "":
		return usage(std, "usage: gorun image export -format hdf5|npy SNAPSHOT [-rank R] [-name VAR] -o DIR")
	case o.format != "npy" && o.format != "hdf5":
		return usage(std, "-format %s: known are npy and hdf5", o.format)
	}
	all, passed, err := findSnapshots(o.ckptDir, args[0], o.trust, toRead)
	if err != nil {
		return failed(std, err)
	}
	tellPassed(std, passed)
	s := all[0]
	switch {
	case s.Schema.Backend != crself.Backend:
		err = fmt.Errorf("%s: its images are of whole processes (%s): only portable ones, of programs that register their variables (-cr=self), can be exported", s.SchemaPath(), s.Schema.Backend)
	case o.rank >= s.Schema.NP:
		return usage(std, "-rank %d: the snapshot has %d ranks", o.rank, s.Schema.NP)
	default:
		err = opens(s)
	}
	if err != nil {
		return failed(std, err)
	}
	return failed(std, o.export(s, std))
}

func (o *exportFlags) export(s *snapshot.Snapshot, std stdio) error {
	if o.rank >= 0 {
		return o.exportRank(s.Good(o.rank), o.rank, nil, std)
	}
	images := make([]image.Source, s.Schema.NP)
	for rank := range images {
		images[rank] = s.Good(rank)
	}
	whole, err := o.exportWhole(images, std)
	if err != nil {
		return err
	}
	for rank, from := range images {
		if err := o.exportRank(from, rank, whole, std); err != nil {
			return fmt.Errorf("rank %d: %w", rank, err)
		}
	}
	return nil
}

// exportWhole exports the variables that are distributed over all ranks, each as one array, and returns their names. Those whose parts are no whole
// are named, and left to the ranks.
func (o *exportFlags) exportWhole(images []image.Source, std stdio) (done map[string]bool, err error) {
	r, err := images[0].Open()
	if err != nil {
		return nil, fmt.Errorf("rank 0: %w", err)
	}
	names, err := export.Distributed(r)
	if err = errors.Join(err, r.Close()); err != nil {
		return nil, fmt.Errorf("rank 0: %w", err)
	}
	done = map[string]bool{}
	to := exporter{o: o, base: filepath.Join(o.out, "global"), out: std}
	defer to.abort()
	for _, name := range names {
		if o.name != "" && name != o.name {
			continue
		}
		a, err := export.Whole(images, name)
		if errors.Is(err, export.ErrKind) {
			continue // the ranks will say so
		}
		if errors.Is(err, export.ErrRows) {
			fmt.Fprintf(std.err, "gorun: exported by rank: %v\n", err)
			continue
		}
		if err == nil {
			err = to.add(a)
		}
		if err != nil {
			return nil, err
		}
		done[name] = true
	}
	return done, to.close()
}

// exportRank exports one rank's variables, except those that are exported already. What is not numbers is left out and named, once for all ranks.
func (o *exportFlags) exportRank(from image.Source, rank int, done map[string]bool, std stdio) error {
	r, err := from.Open()
	if err != nil {
		return err
	}
	defer r.Close()
	to, n := exporter{o: o, base: filepath.Join(o.out, fmt.Sprintf("rank-%05d", rank)), out: std}, len(done)
	defer to.abort()
	for _, sec := range r.Sections() {
		if !export.Variable(sec) || done[sec.Name] || o.name != "" && sec.Name != o.name {
			continue
		}
		a, err := export.Read(r, sec)
		if errors.Is(err, export.ErrKind) && o.name == "" {
			fmt.Fprintf(std.err, "gorun: rank %d: left out: %v\n", rank, err)
			continue
		}
		if err == nil {
			err = to.add(a)
		}
		if err != nil {
			return err
		}
		n++
	}
	if n == 0 {
		return o.nothing(r)
	}
	return to.close()
}

// nothing says what there is instead.
func (o *exportFlags) nothing(r *image.Reader) error {
	var names []string
	for _, sec := range r.Sections() {
		if export.Variable(sec) {
			names = append(names, fmt.Sprintf("%q (%s)", sec.Name, short(sec.Type)))
		}
	}
	what := "no variable of numbers"
	if o.name != "" {
		what = fmt.Sprintf("no variable %q", o.name)
	}
	return fmt.Errorf("%s has %s; it has %s", r.Path(), what, strings.Join(names, ", "))
}

// exporter writes the files of one rank, or of all: rank-00003/NAME.npy for each variable, or rank-00003.h5.
type exporter struct {
	o    *exportFlags
	base string // DIR/rank-00003
	out  stdio
	h5   *export.HDF5
	file *os.File // that is being written, under a name of its own
	to   string   // the name that it gets
}

func (e *exporter) create(path string) (err error) {
	if err = os.MkdirAll(filepath.Dir(path), 0o777); err == nil {
		e.to = path
		e.file, err = os.OpenFile(path+".part", os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o666)
	}
	return err
}

// add writes one variable.
func (e *exporter) add(a *export.Array) error {
	if e.o.format == "npy" {
		if err := e.create(filepath.Join(e.base, export.FileName(a.Name)+".npy")); err != nil {
			return err
		}
		w := bufio.NewWriter(e.file)
		if err := errors.Join(export.WriteNPY(w, a), w.Flush()); err != nil {
			return err
		}
		return e.finish()
	}
	if e.h5 == nil {
		if err := e.create(e.base + ".h5"); err != nil {
			return err
		}
		e.h5 = export.NewHDF5(e.file)
	}
	return e.h5.Add(a)
}

func (e *exporter) close() error {
	if e.h5 == nil {
		return nil
	}
	if err := e.h5.Close(); err != nil {
		return err
	}
	return e.finish()
}

// finish gives a file its name, and prints that.
func (e *exporter) finish() error {
	f := e.file
	e.file = nil
	err := f.Close()
	if err == nil {
		err = os.Rename(f.Name(), e.to)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	_, err = fmt.Fprintln(e.out.out, e.to)
	return err
}

// abort removes what is half-written.
func (e *exporter) abort() {
	if e.file != nil {
		e.file.Close()
		os.Remove(e.file.Name())
	}
}

// parseMixed parses flags before and after arguments, and returns the arguments.
func parseMixed(fs *flag.FlagSet, args []string) (rest []string, err error) {
	for {
		if err := fs.Parse(args); err != nil {
			return nil, err
		}
		if args = fs.Args(); len(args) == 0 {
			return rest, nil
		}
		rest, args = append(rest, args[0]), args[1:]
	}
}
