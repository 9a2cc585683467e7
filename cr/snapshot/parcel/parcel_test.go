package parcel

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"pgregory.net/rapid"

	"github.com/gorun-mpi/gorun/cr/image"
	"github.com/gorun-mpi/gorun/cr/snapshot"
	"github.com/gorun-mpi/gorun/cr/store"
	"github.com/gorun-mpi/gorun/cr/store/sealed"
	"github.com/gorun-mpi/gorun/internal/storage/storeurl"
)

const job = "0a11ce00-0000-4000-8000-000000000001"

// open opens a catalogue that reaches folders and sealed folders.
func open(t testing.TB, root string) *snapshot.Catalogue {
	t.Helper()
	c, err := snapshot.Open(root)
	if err != nil {
		t.Fatal(err)
	}
	c.Stores(func(p snapshot.Place, _ []string) (store.Store, error) {
		return storeurl.Opener{}.Open(storeurl.Place(p))
	})
	return c
}

// memory is a folder in memory, where that can be had: these tests make much durable.
func memory(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "gorun-parcel-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// take takes a snapshot of two ranks whose images build on the snapshot base. It keeps the libraries of those before.
func take(t testing.TB, c *snapshot.Catalogue, place snapshot.Place, base, size int, exe string, before ...*snapshot.Snapshot) *snapshot.Snapshot {
	t.Helper()
	p, err := c.BeginIn(job, place, nil)
	if err != nil {
		t.Fatal(err)
	}
	digest, err := snapshot.FileDigest(exe)
	if err == nil {
		err = p.KeepProgram(exe, digest)
	}
	for _, s := range before {
		err = errors.Join(err, p.KeepLibraries(s))
	}
	if err != nil {
		t.Fatal(err)
	}
	s := snapshot.Schema{
		Incarnation: "00000000000000aa", Created: time.Date(2026, 11, 21, 0, 0, p.Seq, 0, time.UTC), NP: 2,
		Backend: "native", Transport: "tcp", Program: snapshot.Program{Path: exe, Digest: digest, Dir: "/tmp"},
	}
	st, set := p.Images()
	for rank := range s.NP {
		m := image.LocalMeta()
		m.Job, m.Incarnation, m.Rank, m.Size, m.Seq, m.Backend = p.Job, s.Incarnation, rank, s.NP, p.Seq, "native"
		w, err := image.NewPiece{Context: context.Background(), Store: st, Set: set, Name: snapshot.ImageFile(rank)}.Create(m, image.Options{})
		if err != nil {
			t.Fatal(err)
		}
		text := make([]byte, size)
		r := rand.New(rand.NewPCG(uint64(p.Seq), uint64(rank)))
		for i := range text {
			text[i] = byte(r.Uint32()) & 0x3f
		}
		if err := w.Section("x", "value", "string", text); err != nil {
			t.Fatal(err)
		}
		sum, err := w.Commit()
		if err != nil {
			t.Fatal(err)
		}
		s.Images = append(s.Images, snapshot.Image{Rank: rank, File: snapshot.ImageFile(rank), Size: sum.Size, Digest: sum.Digest, Codec: "none", Base: base})
		s.Placement = append(s.Placement, snapshot.Placement{Rank: rank, Host: "node"})
	}
	snap, h, err := p.Commit(s)
	if err != nil {
		t.Fatal(err)
	}
	h.Release()
	return snap
}

// chain takes three snapshots in a catalogue of its own, each built on the one before, but for a fourth that nobody needs.
func chain(t testing.TB, size int, sealedBy string) (*snapshot.Catalogue, *snapshot.Snapshot) {
	t.Helper()
	exe := filepath.Join(t.TempDir(), "solver")
	if err := os.WriteFile(exe, []byte("#!/bin/true\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	c := open(t, memory(t))
	place := snapshot.Place(storeurl.Beside(c.Root(), sealedBy))
	take(t, c, place, 0, size, exe)
	take(t, c, place, 0, size, exe)
	take(t, c, place, 2, size, exe)
	s := take(t, c, place, 3, size, exe)
	if err := os.Remove(exe); err != nil {
		t.Fatal(err)
	}
	return c, s
}

func written(t testing.TB, s *snapshot.Snapshot) []byte {
	t.Helper()
	var b bytes.Buffer
	r, err := Write(&b, s, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(r.Snapshots, []int{2, 3, 4}) || r.Without != "" {
		t.Fatalf("%+v", r)
	}
	return b.Bytes()
}

// empty fails if anything of the job is in a catalogue.
func empty(t interface{ Errorf(string, ...any) }, c *snapshot.Catalogue) {
	filepath.WalkDir(c.Root(), func(path string, d fs.DirEntry, err error) error {
		if path != c.Root() && (err != nil || !d.IsDir() && d.Name() != "stores" && d.Name() != "lock" && d.Name() != "sequence") {
			t.Errorf("left is %s (%v)", path, err)
		}
		return nil
	})
}

// A parcel has all that the snapshot needs: it is intact elsewhere when the original is gone. It can be taken in twice, and
// into the catalogue that has a part of it.
func TestElsewhere(t *testing.T) {
	c, s := chain(t, 100_000, "")
	var last int64
	var b bytes.Buffer
	if _, err := Write(&b, s, Options{Progress: func(done, total int64) { last = total - done }}); err != nil || last != 0 {
		t.Fatal(err, last)
	}
	if err := c.Remove(job); err != nil {
		t.Fatal(err)
	}
	d := open(t, memory(t))
	for range 2 {
		got, err := Import(d, bytes.NewReader(b.Bytes()), Options{Progress: func(done, total int64) { last = total - done }})
		if err != nil || last != 0 {
			t.Fatal(err, last)
		}
		if err := got.Verify(nil); err != nil || got.Schema.Sequence != 4 {
			t.Error(err, got.Dir)
		}
		if newest, err := d.Latest(job); err != nil || newest.Dir != got.Dir {
			t.Error(newest, err)
		}
		text, err := os.ReadFile(got.ProgramPath())
		if err != nil || string(text) != "#!/bin/true\n" {
			t.Errorf("%q %v", text, err)
		}
	}
	if done, err := d.Prune(job, 1); err != nil || len(done.Removed) > 0 {
		t.Errorf("%+v %v", done, err)
	}
	p, err := d.Begin(job) // later ones have later numbers
	if err != nil || p.Seq != 5 {
		t.Fatal(p, err)
	}
	p.Discard()
	again := written(t, find(t, d))
	if !bytes.Equal(again, b.Bytes()) {
		t.Error("a parcel of what was taken in is another one")
	}
}

// Libraries come along that are what they were, stay with the snapshots of the job that goes on, and go with the last of them.
func TestLibraries(t *testing.T) {
	c, s := chain(t, 1000, "")
	there, changed := filepath.Join(t.TempDir(), "libthere.so"), filepath.Join(t.TempDir(), "libchanged.so")
	for _, path := range []string{there, changed} {
		if err := os.WriteFile(path, []byte(path), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	digest, err := snapshot.FileDigest(there)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	r, err := Write(&b, s, Options{Libraries: []Library{{there, digest}, {changed, strings.Repeat("0", 64)}, {there, digest}}})
	if err != nil || !slices.Equal(r.Changed, []string{changed}) {
		t.Fatal(err, r)
	}
	if err := c.Remove(job); err != nil {
		t.Fatal(err)
	}
	d := open(t, memory(t))
	got, err := Import(d, bytes.NewReader(b.Bytes()), Options{})
	if err != nil || !slices.Equal(got.Schema.Program.Libraries, []string{digest}) || got.Schema.Format != snapshot.Format {
		t.Fatal(err, got)
	}
	os.Remove(there)
	var again bytes.Buffer
	if _, err := Write(&again, got, Options{}); err != nil || !bytes.Equal(again.Bytes(), b.Bytes()) {
		t.Errorf("a parcel of what was taken in is another one: %v", err)
	}
	newest := take(t, d, snapshot.Place{}, 0, 1000, got.ProgramPath(), got)
	if _, err := d.Prune(job, 1); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(newest.LibraryPath(digest)); err != nil || string(text) != there {
		t.Errorf("%q, %v", text, err)
	}
	os.Chmod(newest.LibraryPath(digest), 0o700)
	if err := os.WriteFile(newest.LibraryPath(digest), []byte("other"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := newest.Check(); !errors.Is(err, snapshot.ErrProgram) {
		t.Errorf("a library was altered: %v", err)
	}
}

func find(t testing.TB, c *snapshot.Catalogue) *snapshot.Snapshot {
	t.Helper()
	s, err := c.Latest(job)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Of one snapshot there is one parcel, wherever its images lie, and whatever the compressor's goroutines do.
func TestDeterministic(t *testing.T) {
	c, s := chain(t, 3_000_000, "")
	a := written(t, s)
	for _, seq := range []int{2, 3, 4} {
		s, err := c.Load(filepath.Join(c.JobDir(job), fmt.Sprint(seq)))
		if err != nil {
			t.Fatal(err)
		}
		copies(t, c, s, snapshot.Place{Kind: "dir", Folder: t.TempDir()}, true)
	}
	if !bytes.Equal(a, written(t, find(t, c))) {
		t.Error("another parcel of the same snapshot in another place")
	}
}

// copies copies the images of a snapshot to another place, or moves them there.
func copies(t testing.TB, c *snapshot.Catalogue, s *snapshot.Snapshot, to snapshot.Place, move bool) *snapshot.Snapshot {
	t.Helper()
	p, err := c.Copy(s, to, nil)
	if err != nil {
		t.Fatal(err)
	}
	st, set := p.Images()
	if err := st.Begin(t.Context(), set); err != nil {
		t.Fatal(err)
	}
	for _, im := range s.Schema.Images {
		text, err := os.ReadFile(s.ImagePath(im.Rank))
		if err == nil {
			err = os.WriteFile(filepath.Join(to.Folder, set, im.File), text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	now, err := p.Commit(time.Now())
	if err == nil && move {
		_, err = c.DropCopy(now, snapshot.Beside)
	}
	if err != nil {
		t.Fatal(err)
	}
	return now
}

// Of two copies the good one goes into the parcel; without one nothing is written.
func TestGoodCopy(t *testing.T) {
	c, s := chain(t, 10_000, "")
	want := written(t, s)
	beside := s.ImagePath(0)
	s = copies(t, c, s, snapshot.Place{Kind: "dir", Folder: t.TempDir()}, false)
	if err := os.Truncate(beside, 100); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(want, written(t, s)) {
		t.Error("another parcel, with one copy damaged")
	}
	away := s.Schema.More[0]
	if err := os.Remove(filepath.Join(away.Folder, away.Set, snapshot.ImageFile(0))); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if _, err := Write(&b, s, Options{}); !errors.Is(err, snapshot.ErrImage) || !strings.Contains(err.Error(), "rank 0") {
		t.Errorf("without a good copy: %v", err)
	}
}

// Whatever byte of a parcel is changed, wherever it is cut off: it is refused by that name, and nothing of it is left.
func TestAltered(t *testing.T) {
	_, s := chain(t, 5_000, "")
	whole := written(t, s)
	rapid.Check(t, func(r *rapid.T) {
		b := bytes.Clone(whole)
		if rapid.Bool().Draw(r, "cut") {
			b = b[:rapid.IntRange(0, len(b)-1).Draw(r, "at")]
		} else {
			b[rapid.IntRange(0, len(b)-1).Draw(r, "at")] ^= 1 << rapid.IntRange(0, 7).Draw(r, "bit")
		}
		root := memory(t)
		defer os.RemoveAll(root)
		d := open(t, root)
		got, err := Import(d, bytes.NewReader(b), Options{})
		switch {
		case err == nil && got.Verify(nil) == nil: // a bit without a meaning, of which zstd has some
		case !errors.Is(err, ErrParcel):
			r.Fatalf("not refused: %v", err)
		default:
			empty(r, d)
		}
	})
	d := open(t, memory(t))
	if _, err := Import(d, io.MultiReader(bytes.NewReader(whole), strings.NewReader("more")), Options{}); !errors.Is(err, ErrParcel) {
		t.Errorf("more behind it: %v", err)
	}
}

// member is one of a forged parcel.
type member struct {
	tar.Header
	text []byte
}

func unpacked(t testing.TB, b []byte) (all []member) {
	t.Helper()
	zr, err := zstd.NewReader(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	defer zr.Close()
	for tr := tar.NewReader(zr); ; {
		h, err := tr.Next()
		if err == io.EOF {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(tr)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, member{*h, text})
	}
}

func packed(t testing.TB, all []member) []byte {
	t.Helper()
	b, err := pack(all)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func pack(all []member) ([]byte, error) {
	var b bytes.Buffer
	zw, err := zstd.NewWriter(&b)
	if err != nil {
		return nil, err
	}
	tw := tar.NewWriter(zw)
	for _, m := range all {
		m.Header.Size = int64(len(m.text))
		if m.Typeflag != tar.TypeReg {
			m.Header.Size = 0
		}
		if err := tw.WriteHeader(&m.Header); err != nil {
			return nil, err
		}
		if m.Header.Size > 0 {
			if _, err := tw.Write(m.text); err != nil {
				return nil, err
			}
		}
	}
	err = errors.Join(tw.Close(), zw.Close())
	return b.Bytes(), err
}

// Forged parcels whose compressed stream is right are refused by the name of what is wrong.
func TestForged(t *testing.T) {
	_, s := chain(t, 5_000, "")
	whole := written(t, s)
	at := func(all []member, suffix string) int {
		return slices.IndexFunc(all, func(m member) bool { return strings.HasSuffix(m.Name, suffix) })
	}
	for name, c := range map[string]struct {
		forge func(all []member) []member
		says  string
	}{
		"a path that leads out": {func(all []member) []member { all[at(all, "3/rank-00001.img")].Name = "../../evil"; return all }, `"../../evil" is where ` + job + `/3/rank-00001.img belongs`},
		"an absolute path":      {func(all []member) []member { all[0].Name = "/etc/passwd"; return all }, `"/etc/passwd"`},
		"a link": {func(all []member) []member {
			m := &all[at(all, "2/rank-00000.img")]
			m.Typeflag, m.Linkname = tar.TypeSymlink, "/etc/passwd"
			return all
		}, "rank-00000.img"},
		"one more": {func(all []member) []member {
			return append(all, member{tar.Header{Typeflag: tar.TypeReg, Name: "more"}, nil})
		}, `"more"`},
		"one twice":    {func(all []member) []member { return slices.Insert(all, 2, all[2]) }, "2/rank-00000.img"},
		"one missing":  {func(all []member) []member { return slices.Delete(all, 2, 3) }, "2/rank-00000.img belongs"},
		"without sums": {func(all []member) []member { return all[:len(all)-1] }, "ends before SHA256SUMS"},
		"another image": {func(all []member) []member {
			all[at(all, "4/rank-00001.img")].text[2000] ^= 1
			return all
		}, "4/rank-00001.img was altered"},
		"a shorter image": {func(all []member) []member {
			m := &all[at(all, "4/rank-00001.img")]
			m.text = m.text[:len(m.text)-1]
			return all
		}, "4/rank-00001.img has"},
		"another program": {func(all []member) []member { all[len(all)-2].text[0] ^= 1; return all }, "programs/"},
		"a newer format": {func(all []member) []member {
			all[0].text = bytes.Replace(all[0].text, []byte("format = 1"), []byte("format = 7"), 1)
			return all
		}, "use the newer gorun"},
		"no base": {func(all []member) []member {
			all[0].text = bytes.Replace(all[0].text, []byte("[2, 3, 4]"), []byte("[3, 4]"), 1)
			return append(all[:1], all[4:]...)
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			d := open(t, memory(t))
			_, err := Import(d, bytes.NewReader(packed(t, c.forge(unpacked(t, whole)))), Options{})
			if !errors.Is(err, ErrParcel) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v, want %q", err, c.says)
			}
			empty(t, d)
		})
	}
}

// Another snapshot of the same number is not replaced, and a damaged one is not taken for good.
func TestThereAlready(t *testing.T) {
	_, s := chain(t, 5_000, "")
	whole := written(t, s)
	d := open(t, memory(t))
	exe := filepath.Join(t.TempDir(), "other")
	if err := os.WriteFile(exe, []byte("#!/bin/false\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		take(t, d, snapshot.Beside, 0, 4000, exe)
	}
	if _, err := Import(d, bytes.NewReader(whole), Options{}); !errors.Is(err, ErrOther) {
		t.Errorf("another: %v", err)
	}
	d = open(t, memory(t))
	got, err := Import(d, bytes.NewReader(whole), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(got.ImagePath(1), 100); err != nil {
		t.Fatal(err)
	}
	if _, err := Import(d, bytes.NewReader(whole), Options{}); !errors.Is(err, snapshot.ErrImage) {
		t.Errorf("damaged: %v", err)
	}
}

// What is sealed leaves its store with a key only, and is sealed again where it is taken in.
func TestSealed(t *testing.T) {
	key, other := filepath.Join(t.TempDir(), "key"), filepath.Join(t.TempDir(), "other")
	if err := errors.Join(sealed.NewKey(key), sealed.NewKey(other)); err != nil {
		t.Fatal(err)
	}
	_, s := chain(t, 200_000, key)
	file := filepath.Join(t.TempDir(), "s.tar.zst")
	if _, err := WriteFile(file, s, Options{KeyFile: other}); err != nil {
		t.Fatal(err)
	}
	for want, keyFile := range map[string]string{"it is sealed": "", "another key": key} {
		d := open(t, memory(t))
		if _, err := ImportFile(d, file, Options{KeyFile: keyFile}); !errors.Is(err, sealed.ErrKey) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", keyFile, err)
		}
		empty(t, d)
	}
	d := open(t, memory(t))
	got, err := ImportFile(d, file, Options{KeyFile: other})
	if err != nil {
		t.Fatal(err)
	}
	if err := got.Verify(nil); err != nil {
		t.Error(err)
	}
	if storeurl.Place(got.Place()).KeyFile() != other {
		t.Errorf("it lies in %v", got.Place())
	}
	if err := d.Remove(job); err != nil {
		t.Fatal(err)
	}
	if got, err = ImportFile(d, file, Options{KeyFile: other}); err != nil || got.Verify(nil) != nil {
		t.Error("again: ", err)
	}
	if left, _ := filepath.Glob(file + "*"); len(left) != 1 {
		t.Errorf("left are %v", left)
	}
}

// A file that cannot be read, and one that is none.
func TestNoParcel(t *testing.T) {
	d := open(t, memory(t))
	if _, err := ImportFile(d, filepath.Join(t.TempDir(), "none"), Options{}); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	for _, text := range []string{"", "x", strings.Repeat("no parcel ", 1000)} {
		file := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := ImportFile(d, file, Options{}); !errors.Is(err, ErrParcel) || !strings.Contains(err.Error(), file) {
			t.Errorf("%.10q: %v", text, err)
		}
	}
	_, s := chain(t, 100, "")
	if err := os.Truncate(s.ImagePath(1), 50); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "s.tar.zst")
	if _, err := WriteFile(file, s, Options{}); !errors.Is(err, snapshot.ErrImage) || !strings.Contains(err.Error(), s.ImagePath(1)) {
		t.Error(err)
	}
	if left, _ := filepath.Glob(file + "*"); len(left) != 0 {
		t.Errorf("left are %v", left)
	}
}
