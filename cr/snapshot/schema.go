// Package snapshot keeps the snapshots of jobs in a folder. It knows which snapshots there are, where their
// images lie, and which are whole.
//
//	ROOT/
//	  <job uuid>/                  one lineage: a job and all restarts of it
//	    sequence                   the highest number ever given out
//	    finished                   that of the newest snapshot of a run that ended well
//	    lock                       held while numbers are given out or folders swept
//	    tails                      what restarts have cut off output files
//	    stores                     where else images of the job were put
//	    claim-<uuid>.*             by which a head alone has the job, see claim.go
//	    programs/<sha-256>         executables, kept once each for the images of whole
//	                               processes, which can go on with no other
//	    <seq>/                     one snapshot
//	      schema.toml              written last: present means whole
//	      rank-00000.img ...       one image a rank, unless they lie in a store
//	      lock                     held exclusively by the head that writes the
//	                               snapshot, shared by restarts that use it
//
// # Commit
//
// A snapshot is whole or absent. Begin takes a number that was never given out, and locks the folder. It writes
// the number to the file sequence, durably, before it makes the folder. The ranks write their images there and
// make them durable. Commit then takes these steps:
//
//   - It checks that each image exists with its size.
//   - It makes the folder durable.
//   - It writes the schema under another name and makes it durable.
//   - It gives the schema its name and makes the folder durable again.
//
// A crash before the rename leaves a folder without a schema: no snapshot. A crash after it leaves a whole one.
//
// # Chains
//
// An incremental image leaves out the pages that have not changed since an earlier snapshot of the same
// incarnation. The schema names that snapshot. So a snapshot is worth as much as those it builds on. Chain
// finds them, Verify reads them too, a Hold holds them, and Prune keeps them. Prune removes the newest first,
// so a crash within it leaves no snapshot without its base.
//
// # Stores
//
// Images lie beside the schema, or in a store of another kind (package store): the schema names its kind, its
// place and the set. Such a set is called <job>/<home>/<seq>. Home is made once for each job, catalogue and place, so
// that one job with two catalogues does not mix its numbers, nor two places their sets that are one folder. Begin notes the store durably before anything is
// put there. Removal goes the other way: schema, folder, then the set. What a crash or a node out of reach leaves
// there has no folder any more, and numbers are never reused, so Sweep finds it.
//
// # Copies
//
// A snapshot has one copy of its images or several, in different places: weak ones that are taken
// often, and strong ones that are made of them behind the program (Catalogue.Copy). It is whole as
// soon as the first is. The schema names all. To add one it is rewritten, when the copy is whole
// and durable. To remove one it is rewritten first. So a copy that is named is whole after any
// crash. Each image is read of whichever copy has it good: all have the same digest. A snapshot
// without a copy is removed. Prune counts the copies of each place on their own, so newer copies in
// one place never cost the last ones of another.
//
// A copy of a job's folder shares the images with the original: it may be restarted, and removing from it removes
// no image.
//
// # Leftovers
//
// A folder without a schema is being written, or was left by a crash. The lock tells which: the kernel drops it
// with the process that held it. So Sweep removes exactly those folders whose lock it gets. Prune and Discard
// remove the schema first, so a crash within them leaves a leftover and never half a snapshot. Locks are of the
// flock kind. On a network file system they work as far as it passes them on.
//
// Folders may be moved and copied: a schema names its images by their names within its own folder. The
// snapshots it builds on and its executable lie beside it. So copy the job's whole folder if it has incremental
// images.
package snapshot

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/BurntSushi/toml"
	"github.com/google/uuid"

	"github.com/gorun-mpi/gorun/cr/image"
	"github.com/gorun-mpi/gorun/cr/snapshot/internal/nesting"
	"github.com/gorun-mpi/gorun/cr/store"
	"github.com/gorun-mpi/gorun/internal/system/owned"
	"github.com/gorun-mpi/gorun/internal/system/rawstring"
)

// Format is the schema format written here. Formats 1 to Format can be read.
//
//   - Format 2 added chains, kept programs and pauses.
//   - Format 3 added parameters, the transports asked for, and bytes that are not UTF-8.
//   - Format 4 added how much of standard input was read, and the flags that a restart takes over.
//   - Format 5 added stores: images that lie elsewhere than beside the schema.
//   - Format 6 added further copies.
//   - Format 7 added libraries kept beside the program.
//   - Format 8 added a sum over all of the schema. Images have digests of all their bytes since. Every snapshot is
//     written in this format now. One that an older gorun took stays as it is, whatever copies it gets.
const Format = FormatSum

// The first format in which a schema may have something.
const (
	FormatStore  = 5 // in a store
	FormatCopies = 6 // in several places

	FormatLibraries = 7 // there are some, wherever the images are

	FormatSum = 8
)

// SchemaFile is the name of the schema within a snapshot's folder.
const SchemaFile = store.SchemaFile

// maxSchema bounds a schema in bytes; that of 16,384 ranks has about 5 MB.
const maxSchema = 256 << 20

// Digested reports whether digests cover all bytes of the snapshot: the schema has a sum, and its images have digests of
// their blocks. In older ones only damage by chance is sure to be found, and none within what the schema says.
func (s *Schema) Digested() bool { return s.Format >= FormatSum }

// format is the one in which a schema is written: what an older gorun has taken does not become better by it.
func (s *Schema) format() int {
	if s.Format == 0 || s.Digested() {
		return Format
	}
	return FormatSum - 1
}

// maxCopies bounds the number of further copies.
const maxCopies = 16

// maxRanks bounds the number of ranks.
const maxRanks = 1 << 20

// Schema describes one snapshot: the program, where its ranks ran, and the images.
type Schema struct {
	Format      int               `toml:"format"`
	Job         string            `toml:"job"`         // uuid; the same for all restarts
	Incarnation string            `toml:"incarnation"` // of the run that took it
	Sequence    int               `toml:"sequence"`
	Created     time.Time         `toml:"created"`
	NP          int               `toml:"np"`
	Backend     string            `toml:"backend"`          // "self", "native"
	CR          string            `toml:"cr,omitempty"`     // as asked for: "auto" or a back-end
	Transport   string            `toml:"transport"`        // in use when it was taken
	RPI         []string          `toml:"rpi,omitempty"`    // as asked for, by preference; none: the default
	Point       uint64            `toml:"point"`            // number of the Point, self only
	Gate        int64             `toml:"gate,omitzero"`    // ns for which no message was sent
	Input       int64             `toml:"input,omitzero"`   // bytes of standard input that rank 0 had read
	Store       string            `toml:"store,omitempty"`  // the kind of store that has the images; none: they lie beside the schema
	Folder      string            `toml:"folder,omitempty"` // the store's place
	Set         string            `toml:"set,omitempty"`    // the images' name there
	More        []Copy            `toml:"copies,omitempty"` // where else all of them lie
	Lineage     []Ancestor        `toml:"lineage,omitempty"`
	Params      map[string]string `toml:"params,omitempty"`  // of modules, by name, as the job was given them
	Plan        map[string]string `toml:"plan,omitempty"`    // flags of gorun that a restart takes over, by name
	Printed     [][]int64         `toml:"printed,omitempty"` // by rank, bytes of its standard output and error in the files of gorun's -output-dir; none: there are no such files
	Program     Program           `toml:"program"`
	Placement   []Placement       `toml:"placement"`
	Images      []Image           `toml:"images"` // by rank
}

// Ancestor is a snapshot from which a run was restarted. A schema lists the
// first one first; the last is the parent of the run that took the snapshot.
type Ancestor struct {
	Incarnation string `toml:"incarnation"`
	Sequence    int    `toml:"sequence"`
}

// Program is what the ranks run. Its strings are as the operating system has them. TOML is UTF-8, so a schema's
// file has, for a byte that is not UTF-8, "\u0000" and two hexadecimal digits: x, the byte e9 and y are
// "x\u0000e9y".
type Program struct {
	Path   string   `toml:"path"`           // absolute, of the executable
	Digest string   `toml:"digest"`         // its SHA-256, hex
	Kept   bool     `toml:"kept,omitempty"` // beside the snapshots, see Snapshot.ProgramPath
	Dir    string   `toml:"dir"`            // working folder
	Args   []string `toml:"args"`
	Env    []string `toml:"env"` // NAME=value, only what was allowed

	// Libraries are the SHA-256, in hex, of other files that images of whole processes need, libraries and what child processes run. They are kept
	// as the program is, by their sums; only parcels bring them along.
	Libraries []string `toml:"libraries,omitempty"`
}

// Placement tells where a rank ran.
type Placement struct {
	Rank  int    `toml:"rank"`
	Agent int    `toml:"agent"`
	Host  string `toml:"host"`
}

// Image is one rank's file.
type Image struct {
	Rank   int    `toml:"rank"`
	File   string `toml:"file"` // within the snapshot's folder, or its set
	Size   int64  `toml:"size"` // bytes
	Digest string `toml:"digest"`
	Codec  string `toml:"codec"`
	Base   int    `toml:"base,omitzero"`  // sequence of the snapshot that has its unchanged pages; 0: it is full
	Raw    uint64 `toml:"raw,omitzero"`   // bytes of memory it holds, before compression
	Pause  int64  `toml:"pause,omitzero"` // ns for which the process stood still
	Node   string `toml:"node,omitempty"` // that wrote it into a store that lies in parts on the nodes
}

// Parent is the snapshot from which the run that took this one was restarted.
func (s *Schema) Parent() (Ancestor, bool) {
	if len(s.Lineage) == 0 {
		return Ancestor{}, false
	}
	return s.Lineage[len(s.Lineage)-1], true
}

// Bases lists the snapshots that images of this one build on directly, the
// newest first; none if all are full.
func (s *Schema) Bases() []int {
	var bases []int
	for _, im := range s.Images {
		if im.Base > 0 && !slices.Contains(bases, im.Base) {
			bases = append(bases, im.Base)
		}
	}
	slices.SortFunc(bases, func(a, b int) int { return b - a })
	return bases
}

// each returns p with what f makes of the strings that users give.
func (p Program) each(f func(string) string) Program {
	p.Path, p.Dir = f(p.Path), f(p.Dir)
	p.Args, p.Env = rawstring.Each(p.Args, f), rawstring.Each(p.Env, f)
	return p
}

// escape changes the strings that users give.
func (s *Schema) escape(f func(string) string) {
	s.Program, s.Folder = s.Program.each(f), f(s.Folder)
	s.More = slices.Clone(s.More)
	for i := range s.More {
		s.More[i].Folder = f(s.More[i].Folder)
	}
}

// ImageFile is the name of a rank's image.
func ImageFile(rank int) string { return fmt.Sprintf("rank-%05d.img", rank) }

// Encode writes the schema as TOML.
func (s *Schema) Encode() ([]byte, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	var b bytes.Buffer
	e := toml.NewEncoder(&b)
	e.Indent = ""
	text := *s
	text.escape(rawstring.Escape)
	if err := e.Encode(text); err != nil {
		return nil, err
	}
	if s.Format < FormatSum {
		return append([]byte(title), b.Bytes()...), nil
	}
	return addSum(b.Bytes()), nil
}

// ParseSchema reads a schema from bytes that may be damaged or forged. Errors: ErrFormat for a newer format,
// ErrSchema for anything else.
func ParseSchema(p []byte) (*Schema, error) {
	if len(p) > maxSchema {
		return nil, fmt.Errorf("%w: %d bytes, at most %d", ErrSchema, len(p), maxSchema)
	}
	if !utf8.Valid(p) {
		return nil, fmt.Errorf("%w: it is not UTF-8 text", ErrSchema)
	}
	if err := checkNesting(p); err != nil {
		return nil, err
	}
	p, summed, err := takeSum(p)
	if err != nil {
		return nil, err
	}
	s, err := decode(p)
	if err != nil {
		return nil, err
	}
	if summed != (s.Format >= FormatSum) {
		return nil, fmt.Errorf("%w: format %d, and a sum: %v", ErrAltered, s.Format, summed)
	}
	s.escape(rawstring.Unescape)
	if err := s.check(); err != nil {
		return nil, err
	}
	return s, nil
}

// ReadSchema reads the schema file path. Errors: ErrForeign if another user could have written it.
func ReadSchema(path string) (*Schema, error) { return readSchema(path, false) }

func readSchema(path string, trust bool) (*Schema, error) {
	p, err := readIn(path, maxSchema, trust)
	if errors.Is(err, owned.ErrKind) {
		err = fmt.Errorf("%w: %w", ErrSchema, err)
	}
	if err != nil {
		return nil, explain(err)
	}
	s, err := ParseSchema(p)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return s, nil
}

// check makes sure that a schema is complete and harmless. Above all, no name in it may lead out of its folder.
func (s *Schema) check() error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%w: %s", ErrSchema, fmt.Sprintf(format, args...))
	}
	switch id, err := uuid.Parse(s.Job); {
	case s.Format < 1:
		return bad("format %d", s.Format)
	case err != nil || id.String() != s.Job:
		return bad("job %q is not a uuid", s.Job)
	case s.Incarnation == "" || len(s.Incarnation) > 64:
		return bad("incarnation %.80q", s.Incarnation)
	case s.Sequence < 1:
		return bad("sequence %d", s.Sequence)
	case s.NP < 1 || s.NP > maxRanks:
		return bad("np = %d", s.NP)
	case s.Backend == "":
		return bad("no backend")
	case s.Gate < 0, s.Input < 0:
		return bad("gate = %d, input = %d", s.Gate, s.Input)
	case s.Program.Path == "" || !isDigest(s.Program.Digest):
		return bad("program without path or digest")
	case len(s.Images) != s.NP:
		return bad("%d images of %d ranks", len(s.Images), s.NP)
	case len(s.Placement) != s.NP:
		return bad("places of %d of %d ranks", len(s.Placement), s.NP)
	}
	if err := s.checkLibraries(); err != nil {
		return err
	}
	for _, kv := range s.Program.Env {
		if i := strings.IndexByte(kv, '='); i < 1 || strings.IndexByte(kv, 0) >= 0 {
			return bad("environment %.80q", kv)
		}
	}
	if err := s.checkStore(); err != nil {
		return err
	}
	files := make(map[string]bool, s.NP)
	for i, im := range s.Images {
		_, codecErr := image.ParseCodec(im.Codec)
		switch {
		case im.Rank != i:
			return bad("image %d is of rank %d", i, im.Rank)
		case im.File == "" || filepath.Base(im.File) != im.File || im.File == "." || im.File == ".." || strings.IndexByte(im.File, 0) >= 0,
			im.File == SchemaFile, im.File == lockFile:
			return bad("image name %.80q of rank %d", im.File, i)
		case files[im.File]:
			return bad("image %q belongs to two ranks", im.File)
		case im.Base < 0 || im.Base >= s.Sequence:
			return bad("the image of rank %d in snapshot %d builds on snapshot %d", i, s.Sequence, im.Base)
		case im.Raw > math.MaxInt64, im.Pause < 0:
			return bad("memory or pause of the image of rank %d", i)
		case im.Size < 1, !isDigest(im.Digest), codecErr != nil:
			return bad("size, digest or codec of the image of rank %d", i)
		}
		files[im.File] = true
		if s.Placement[i].Rank != i {
			return bad("place %d is of rank %d", i, s.Placement[i].Rank)
		}
	}
	return nil
}

// maxLibraries bounds their number.
const maxLibraries = 1 << 16

func (s *Schema) checkLibraries() error {
	all := s.Program.Libraries
	if len(all) > 0 && (s.Format < FormatLibraries || !s.Program.Kept) || len(all) > maxLibraries {
		return fmt.Errorf("%w: %d libraries in format %d", ErrSchema, len(all), s.Format)
	}
	for i, digest := range all {
		if !isDigest(digest) || i > 0 && all[i-1] >= digest {
			return fmt.Errorf("%w: library %.80q", ErrSchema, digest)
		}
	}
	return nil
}

// checkStore checks where the images are.
func (s *Schema) checkStore() error {
	if len(s.More) > 0 && s.Format < FormatCopies || len(s.More) > maxCopies {
		return fmt.Errorf("%w: %d further copies in format %d", ErrSchema, len(s.More), s.Format)
	}
	away, seen := false, map[Place]bool{}
	for _, c := range s.Copies() {
		if seen[c.Place()] {
			return fmt.Errorf("%w: two copies in store %.80q, folder %.80q", ErrSchema, c.Store, c.Folder)
		}
		seen[c.Place()] = true
		switch {
		case c.Store == "" && c.Folder == "" && c.Set == "":
			continue
		case s.Format < FormatStore, c.Store == "" || len(c.Store) > 64, store.CheckSet(c.Set) != nil, strings.IndexByte(c.Folder, 0) >= 0:
			return fmt.Errorf("%w: images in store %.80q, folder %.80q, set %.200q", ErrSchema, c.Store, c.Folder, c.Set)
		}
		away = true
	}
	if !away {
		return nil
	}
	for _, im := range s.Images {
		if err := store.CheckPiece(im.File); err != nil {
			return fmt.Errorf("%w: image of rank %d: %w", ErrSchema, im.Rank, err)
		}
	}
	return nil
}

func isDigest(s string) bool {
	return len(s) == 64 && strings.Trim(s, "0123456789abcdef") == ""
}

// checkNesting refuses what is nested deeper than any schema.
func checkNesting(p []byte) error {
	if !nesting.Shallow(p) {
		return fmt.Errorf("%w: nested too deeply", ErrSchema)
	}
	return nil
}

// Reasons for errors, for errors.Is.
var (
	ErrSchema       = errors.New("not a valid schema")
	ErrAltered      = fmt.Errorf("%w: it was damaged or altered since it was written (restart from another snapshot)", ErrSchema)
	ErrFormat       = errors.New("unknown format of the schema")
	ErrNotFound     = errors.New("no such snapshot")
	ErrAmbiguous    = errors.New("more than one snapshot fits")
	ErrNotCommitted = errors.New("not committed: an attempt that was not finished, or is being written")
	ErrMisplaced    = errors.New("this folder is another snapshot's")
	ErrFinished     = errors.New("the job has ended well since")
	ErrInUse        = errors.New("in use by a running restart")
	ErrImage        = errors.New("image does not fit the schema")
	ErrChain        = errors.New("what it builds on is missing")
	ErrProgram      = errors.New("kept program does not fit the schema")
	ErrEnded        = errors.New("already committed or discarded")
)
