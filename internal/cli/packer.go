package cli

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/term"

	"github.com/gorun-mpi/gorun/cr/image"
	"github.com/gorun-mpi/gorun/cr/snapshot"
	"github.com/gorun-mpi/gorun/cr/snapshot/parcel"
	"github.com/gorun-mpi/gorun/cr/whole"
	"github.com/gorun-mpi/gorun/internal/job/spec"
	"github.com/gorun-mpi/gorun/internal/protocol/wire"
	"github.com/gorun-mpi/gorun/internal/storage/storeurl"
)

// packer carries out gorun snapshots -export and -import.
type packer struct {
	std          stdio
	export, take string // the files
	key          string
	plain, trust bool
}

func (p *packer) wanted() bool { return p.export != "" || p.take != "" }

func (p *packer) run(dir string, args []string) int {
	switch {
	case p.export != "" && p.take != "":
		return usage(p.std, "-export and -import: one at a time")
	case p.plain && (p.key != "" || p.take != ""):
		return usage(p.std, "-plain goes with -export alone, and not with -ckpt-key")
	case p.take != "" && len(args) > 0:
		return usage(p.std, "-import FILE takes no SNAPSHOT: all that is in FILE is taken in")
	}
	if p.take != "" {
		return failed(p.std, p.imports(dir))
	}
	args = append(args, "latest")
	all, passed, err := findSnapshots(dir, args[0], p.trust, toRead)
	if err != nil {
		return failed(p.std, err)
	}
	tellPassed(p.std, passed)
	s, err := swept(all[0])
	if err == nil {
		err = opens(s)
	}
	if err == nil {
		err = p.exports(s)
	}
	return failed(p.std, err)
}

// exports writes one file.
func (p *packer) exports(s *snapshot.Snapshot) (err error) {
	bar := newBar(p.std.err)
	defer bar.clear()
	opt := parcel.Options{Progress: func(done, total int64) { bar.draw("export", done, total, true) }}
	if opt.Libraries, err = libraries(s); err != nil {
		return err
	}
	if !p.plain {
		opt.KeyFile = cmp.Or(p.key, keyOf(s))
	}
	if p.export == "-" {
		if opt.KeyFile != "" {
			return errors.New("-export -: a sealed file cannot be a stream: name a FILE, or write it unsealed by -plain")
		}
		if f, ok := p.std.out.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
			return errors.New("-export -: standard output is a terminal")
		}
		r, err := parcel.Write(p.std.out, s, opt)
		bar.clear()
		p.lacks(r)
		return err
	}
	r, err := parcel.WriteFile(p.export, s, opt)
	bar.clear()
	if err != nil {
		return err
	}
	p.lacks(r)
	_, err = fmt.Fprintln(p.std.out, p.export)
	return err
}

// lacks says what a file lacks.
func (p *packer) lacks(r parcel.Report) {
	if len(r.Changed) > 0 {
		fmt.Fprintf(p.std.err, "gorun: not in the file, as other files lie there by now, so that a restart elsewhere needs the ones that were mapped: %s\n", strings.Join(r.Changed, ", "))
	}
	if r.Without != "" {
		fmt.Fprintf(p.std.err, "gorun: the executable is not in the file, as %s is not the one that ran any more: a restart elsewhere has to name it (gorun restart SNAPSHOT -- PROGRAM)\n", r.Without)
	}
}

// libraries lists the files that the images of a snapshot need beside the executable, each once.
func libraries(s *snapshot.Snapshot) (all []parcel.Library, err error) {
	if s.Schema.Backend == wire.BackendSelf {
		return nil, nil
	}
	by, err := whole.Find(s.Schema.Backend)
	if err != nil {
		return nil, err
	}
	linked, ok := by.(whole.Linked)
	if !ok {
		return nil, nil
	}
	err = spec.Read(s, func(images []image.Source) error {
		for rank, im := range images {
			list, err := linked.Libraries(im)
			if err != nil {
				return fmt.Errorf("rank %d: %w", rank, err)
			}
			for _, l := range list {
				if l := parcel.Library(l); !slices.Contains(all, l) {
					all = append(all, l)
				}
			}
		}
		return nil
	})
	return all, err
}

// keyOf is the key file of a snapshot's images, if they are sealed.
func keyOf(s *snapshot.Snapshot) string {
	for _, c := range s.Copies() {
		if key := storeurl.Place(c.Place()).KeyFile(); key != "" {
			return key
		}
	}
	return ""
}

// imports takes in one file.
func (p *packer) imports(dir string) error {
	root, err := ckptDir(dir)
	if err != nil {
		return err
	}
	c, err := openCatalogue(root)
	if err != nil {
		return err
	}
	opt := parcel.Options{}
	if p.key != "" {
		if opt.KeyFile, err = filepath.Abs(p.key); err != nil { // the schema names it
			return err
		}
	}
	bar := newBar(p.std.err)
	defer bar.clear()
	opt.Progress = func(done, total int64) { bar.draw("import", done, total, true) }
	var s *snapshot.Snapshot
	if p.take == "-" {
		s, err = parcel.Import(c, p.std.in, opt)
	} else {
		opt.Trust = p.trust
		s, err = parcel.ImportFile(c, p.take, opt)
	}
	if err != nil {
		return foreign(err, toImport)
	}
	bar.clear()
	fmt.Fprintln(p.std.out, s.SchemaPath())
	return nil
}
