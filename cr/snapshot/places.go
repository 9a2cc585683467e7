package snapshot

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/BurntSushi/toml"
	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/cr/image"
	"github.com/gorun-mpi/gorun/cr/store"
	"github.com/gorun-mpi/gorun/internal/system/rawstring"
)

// Place is where the images of a snapshot lie if not beside its schema: a store of this kind, and what tells it
// from others of the kind, such as a folder.
type Place struct {
	Kind   string `toml:"kind"`
	Folder string `toml:"folder"`
}

// String is the place for people.
func (p Place) String() string {
	switch {
	case p == Beside:
		return "beside the schema"
	case p.Folder == "":
		return p.Kind
	}
	return p.Kind + " " + p.Folder
}

// Opener opens the store at a place. nodes are those that are known to have had parts of it.
type Opener func(p Place, nodes []string) (store.Store, error)

// Stores tells the catalogue how to reach images that lie elsewhere. Without it they can be listed, and neither
// be read nor removed. It is called before the catalogue is used.
func (c *Catalogue) Stores(open Opener) { c.open = open }

// at opens the store at a place.
func (c *Catalogue) at(p Place, nodes []string) (store.Store, error) {
	if c.open == nil {
		return nil, fmt.Errorf("%s: %w", p, ErrStore)
	}
	return c.open(p, nodes)
}

// Through has the snapshot reach its images by another opener than that of the catalogue which found it.
func (s *Snapshot) Through(open Opener) { s.open = open }

// Nodes are those that wrote the images, in order, none if these lie beside the schema.
func (s *Snapshot) Nodes() []string {
	var all []string
	for _, im := range s.Schema.Images {
		if im.Node != "" {
			all = append(all, im.Node)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// ErrStore says that images lie in a store that cannot be reached from here.
var ErrStore = errors.New("images lie in a store that is not reached from here")

// storesFile lists, within a job's folder, the stores that its images were ever put into.
const storesFile = "stores"

// maxStores bounds that file, in bytes.
const maxStores = 1 << 20

// jobStores is the content of that file. Home tells the job's sets in this catalogue from those that the same
// job has in another catalogue, with the same numbers. A further place has a home of its own: two places may be one folder, by another path
// or with a seal, and what lies in the one is not to be taken for leftovers of the other. Folder is the inode of the job's folder: in a copy of the
// folder it is another. What lies in the stores belongs to the original. A copy may read it, and removes nothing.
type jobStores struct {
	Home   string     `toml:"home"`
	Folder string     `toml:"folder"`
	Nodes  []string   `toml:"nodes"` // that were ever part of the job
	Places []jobPlace `toml:"store"`
}

// jobPlace is a place of a job.
type jobPlace struct {
	Place
	Home string `toml:"home,omitempty"` // "": that of the job
}

// home tells the job's sets in a place, "" if there are none.
func (s *jobStores) home(p Place) string {
	for _, x := range s.Places {
		if x.Place == p {
			return cmp.Or(x.Home, s.Home)
		}
	}
	return ""
}

// sets is what the names of a job's sets in a place begin with.
func (s *jobStores) sets(job string, p Place) string { return job + "/" + s.home(p) }

// set is the name of a snapshot in a place.
func (s *jobStores) set(job string, p Place, seq int) string {
	return s.sets(job, p) + "/" + strconv.Itoa(seq)
}

func (s *jobStores) each(f func(string) string) *jobStores {
	t := &jobStores{Home: s.Home, Folder: s.Folder, Nodes: rawstring.Each(s.Nodes, f)}
	for _, p := range s.Places {
		t.Places = append(t.Places, jobPlace{Place{p.Kind, f(p.Folder)}, p.Home})
	}
	return t
}

// inode is the inode of a folder.
func inode(dir string) (string, error) {
	var st unix.Stat_t
	if err := unix.Stat(dir, &st); err != nil {
		return "", fmt.Errorf("stat %s: %w", dir, err)
	}
	return strconv.FormatUint(st.Ino, 10), nil
}

// ownStores is readStores for who is about to remove something: a copy of the folder has no stores.
func ownStores(jobDir string) (*jobStores, error) {
	s, err := readStores(jobDir)
	if err != nil {
		return nil, err
	}
	folder, err := inode(jobDir)
	if err != nil || folder != s.Folder {
		return &jobStores{}, err
	}
	return s, nil
}

// readStores reads the file; without one there are none.
func readStores(jobDir string) (*jobStores, error) {
	s, err := readIfThere(filepath.Join(jobDir, storesFile), maxStores, false, parseStores)
	if s == nil && err == nil {
		s = &jobStores{}
	}
	return s, err
}

func parseStores(p []byte) (*jobStores, error) {
	if len(p) > maxStores {
		return nil, fmt.Errorf("%w: %d bytes, at most %d", ErrSchema, len(p), maxStores)
	}
	if err := checkNesting(p); err != nil {
		return nil, err
	}
	s := &jobStores{}
	if err := toml.Unmarshal(p, s); err != nil {
		return nil, fmt.Errorf("%w: %v", ErrSchema, err)
	}
	homes := []string{s.Home}
	for _, p := range s.Places {
		homes = append(homes, cmp.Or(p.Home, s.Home))
	}
	for _, home := range homes {
		if len(home) != 8 || store.CheckSet(home) != nil {
			return nil, fmt.Errorf("%w: home %.80q", ErrSchema, home)
		}
	}
	return s.each(rawstring.Unescape), nil
}

// noteStore notes durably that images of the job will be put into a place. The caller holds the job's lock.
func noteStore(jobDir string, p Place, nodes []string) (*jobStores, error) {
	s, err := ownStores(jobDir)
	if err != nil {
		return nil, err
	}
	fresh := slices.DeleteFunc(slices.Clone(nodes), func(n string) bool { return slices.Contains(s.Nodes, n) })
	noted := s.home(p) != ""
	if noted && len(fresh) == 0 {
		return s, nil
	}
	s.Nodes = append(s.Nodes, fresh...)
	slices.Sort(s.Nodes)
	s.Nodes = slices.Compact(s.Nodes)
	switch {
	case s.Home == "":
		if s.Folder, err = inode(jobDir); err != nil {
			return nil, err
		}
		s.Home = newHome()
		s.Places = []jobPlace{{Place: p}}
	case !noted:
		s.Places = append(s.Places, jobPlace{p, newHome()})
	}
	var b bytes.Buffer
	if err := toml.NewEncoder(&b).Encode(s.each(rawstring.Escape)); err != nil {
		return nil, err
	}
	return s, writeDurable(filepath.Join(jobDir, storesFile), b.Bytes())
}

func newHome() string {
	var b [4]byte
	rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// patience bounds what a catalogue waits for in a store.
const patience = 30 * time.Second

// Place is where the first copy lies, the zero value: beside the schema.
func (s *Snapshot) Place() Place { return Place{s.Schema.Store, s.Schema.Folder} }

// images returns the store of a copy that lies elsewhere.
func (s *Snapshot) images(c Copy) (store.Store, error) {
	if s.open == nil {
		return nil, fmt.Errorf("%s: %w (%s)", s.Dir, ErrStore, c.Place())
	}
	return s.open(c.Place(), s.Nodes())
}

// Image is where a rank's image can be read: the first of its copies that can be opened and is the right one.
func (s *Snapshot) Image(rank int) image.Source {
	im := s.Schema.Images[rank]
	if len(s.Schema.More) == 0 {
		return s.source(s.Copies()[0], im)
	}
	return anyImage{s, im}
}

func (s *Snapshot) source(c Copy, im Image) image.Source {
	if c.Store == "" {
		return image.Path(filepath.Join(s.Dir, im.File))
	}
	return farImage{s, c, im}
}

// anyImage is an image of which there are several copies.
type anyImage struct {
	s  *Snapshot
	im Image
}

func (a anyImage) Open() (*image.Reader, error) {
	var errs []error
	for _, c := range a.s.Copies() {
		r, err := a.s.source(c, a.im).Open()
		if err == nil && r.Digest() == a.im.Digest {
			return r, nil
		}
		if err == nil {
			err = fmt.Errorf("%w: digest %s, the schema says %s", ErrImage, r.Digest(), a.im.Digest)
			r.Close()
		}
		errs = append(errs, err)
	}
	return nil, pieceErrors(a.s.Copies(), errs)
}

// String names the first copy.
func (a anyImage) String() string { return a.s.source(a.s.Copies()[0], a.im).String() }

// Good is where a rank's image can be read of a copy that is good: of each, all is read before. It is for what could not be read of Image.
func (s *Snapshot) Good(rank int) image.Source { return goodImage{s, s.Schema.Images[rank]} }

type goodImage anyImage

func (g goodImage) Open() (*image.Reader, error) {
	var errs []error
	for _, c := range g.s.Copies() {
		r, err := g.open(c)
		if err == nil {
			return r, nil
		}
		errs = append(errs, err)
	}
	return nil, pieceErrors(g.s.Copies(), errs)
}

func (g goodImage) open(c Copy) (*image.Reader, error) {
	st, set, err := g.s.At(c)
	if err != nil {
		return nil, err
	}
	if o, ok := st.(goodOpener); ok {
		r, err := o.OpenGood(context.Background(), set, g.im.File, g.im.Digest)
		if err != nil {
			return nil, err
		}
		return image.OpenPiece(r, g.s.source(c, g.im).String())
	}
	r, err := g.s.Only(c).Image(g.im.Rank).Open()
	if err != nil {
		return nil, err
	}
	if r.Digest() != g.im.Digest {
		err = fmt.Errorf("%w: digest %s, the schema says %s", ErrImage, r.Digest(), g.im.Digest)
	} else {
		err = r.Verify()
	}
	if err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

func (g goodImage) String() string { return anyImage(g).String() }

// goodOpener is what a store has besides that may have several copies of an image: it opens one that is good, checked where it lies.
type goodOpener interface {
	OpenGood(ctx context.Context, set, piece, digest string) (store.Reader, error)
}

// farImage is an image in a store.
type farImage struct {
	s  *Snapshot
	c  Copy
	im Image
}

func (f farImage) Open() (*image.Reader, error) {
	st, err := f.s.images(f.c)
	if err != nil {
		return nil, &image.Error{Op: "read", Path: f.String(), Err: err}
	}
	// Reading has no limit of its own: the store ends what does not go on.
	return image.Piece{Context: context.Background(), Store: st, Set: f.c.Set, Name: f.im.File}.Open()
}

// String names the image and the node that wrote it.
func (f farImage) String() string {
	name := f.c.Set + "/" + f.im.File
	if f.im.Node != "" {
		name = f.im.Node + ":" + name
	}
	return name
}

// far is a set in a store.
type far struct {
	place Place
	set   string
	nodes []string // that may have some of it
}

// removeFar removes sets from their stores. What cannot be removed is an error and stays.
func (c *Catalogue) removeFar(sets []far) error {
	_, err := c.removeSets(sets)
	return err
}

// removeSets is removeFar, and returns those that are gone. Of several at one place that cannot be removed the error has the reason of the first.
func (c *Catalogue) removeSets(sets []far) (gone []far, err error) {
	failed := map[string]int{} // index in errs, by place
	var errs []error
	var more []int
	for _, f := range sets {
		st, err := c.at(f.place, f.nodes)
		if err == nil {
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			err = st.Remove(ctx, f.set)
			cancel()
		}
		if err == nil {
			gone = append(gone, f)
			continue
		}
		at := fmt.Sprint(f.place, f.nodes)
		if i, ok := failed[at]; ok {
			more[i]++
			continue
		}
		failed[at] = len(errs)
		errs, more = append(errs, fmt.Errorf("images in %s, %s: %w", f.place, f.set, err)), append(more, 0)
	}
	for i, n := range more {
		if n > 0 {
			errs[i] = fmt.Errorf("%w; nor could %d more of its snapshots be removed there", errs[i], n)
		}
	}
	return gone, errors.Join(errs...)
}

// sweepFar finds sets that belong to no folder of the job any more: their snapshots were removed while a node
// was out of reach, or by a process that died. A set is never made before the folder of its number, and no
// number is used twice. So a set that is listed before the folders are, and has none, will never have one.
// What was left of a copy is removed at once, and named in swept.
func (c *Catalogue) sweepFar(job string) (left []far, swept []string, err error) {
	stores, err := ownStores(c.JobDir(job))
	if err != nil {
		return nil, nil, err
	}
	var errs []error
	for _, at := range stores.Places {
		place := at.Place
		st, err := c.at(place, stores.Nodes)
		if errors.Is(err, ErrStore) {
			continue // listed by those who can reach it
		}
		var sets []string
		if err == nil {
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			sets, err = st.Sets(ctx, stores.sets(job, place))
			cancel()
		}
		if err != nil && !errors.Is(err, store.ErrUnreachable) { // named when something is to be removed there
			errs = append(errs, fmt.Errorf("%s: %w", place, err))
		}
		for _, set := range sets {
			seq, ok := parseSeq(filepath.Base(set))
			if !ok || set != stores.set(job, place, seq) {
				continue // not ours
			}
			if _, err := os.Lstat(c.dir(job, seq)); errors.Is(err, fs.ErrNotExist) {
				left = append(left, far{place, set, stores.Nodes})
			} else if c.half(job, seq, place, set) {
				gone, err := c.removeHalf(job, seq, far{place, set, stores.Nodes})
				if gone && err == nil {
					swept = append(swept, place.String()+": "+set)
				}
				errs = append(errs, err)
			}
		}
	}
	return left, swept, errors.Join(errs...)
}
