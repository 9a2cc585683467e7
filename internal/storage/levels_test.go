package storage

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/cr/image"
	"github.com/gorun-mpi/gorun/cr/snapshot"
	"github.com/gorun-mpi/gorun/cr/store"
	"github.com/gorun-mpi/gorun/internal/job/spec"
	"github.com/gorun-mpi/gorun/internal/storage/flush"
)

const testJob = "5f1c0a52-0000-4000-8000-000000000001"

// deaf is a head whose goroutine has ended.
type deaf struct{ Head }

func (deaf) Post(func())      {}
func (deaf) Copying()         {}
func (deaf) Beside(_, _ bool) {}
func (deaf) Kept([]Kept)      {}

// taken commits a snapshot beside its schema.
func taken(t *testing.T, cat *snapshot.Catalogue, np int) *snapshot.Snapshot {
	t.Helper()
	p, err := cat.Begin(testJob)
	if err != nil {
		t.Fatal(err)
	}
	s := snapshot.Schema{
		Incarnation: "00000000000000aa", Created: time.Now().UTC(), NP: np, Backend: "self", Transport: "tcp",
		Program: snapshot.Program{Path: "/bin/solver", Digest: strings.Repeat("ab", 32), Dir: "/tmp"},
	}
	for rank := range np {
		sum := writeImage(t, p, s.Incarnation, rank, np)
		s.Images = append(s.Images, snapshot.Image{Rank: rank, File: snapshot.ImageFile(rank), Size: sum.Size, Digest: sum.Digest, Codec: "none"})
		s.Placement = append(s.Placement, snapshot.Placement{Rank: rank, Host: "node"})
	}
	snap, hold, err := p.Commit(s)
	if err != nil {
		t.Fatal(err)
	}
	hold.Release()
	return snap
}

// writeImage writes the image of a rank.
func writeImage(t *testing.T, p *snapshot.Pending, incarnation string, rank, np int) image.Summary {
	t.Helper()
	m := image.LocalMeta()
	m.Job, m.Incarnation, m.Rank, m.Size, m.Seq, m.Backend = testJob, incarnation, rank, np, p.Seq, "self"
	w, err := image.Create(p.ImagePath(rank), m, image.Options{BlockSize: 4096})
	if err == nil {
		err = w.Section("x", "value", "t", bytes.Repeat([]byte{byte(rank), 1, 2}, 9000))
	}
	if err != nil {
		t.Fatal(err)
	}
	sum, err := w.Commit()
	if err != nil {
		t.Fatal(err)
	}
	return sum
}

// A copy is made of several others of which none is whole, image by image, and of what a try before has left. Without a good copy of
// an image there is none, and the error names it and each place.
func TestCopyImageByImage(t *testing.T) {
	cat, err := snapshot.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	sv := &Service{cat: cat, id: testJob, opt: &spec.Options{}}
	cat.Stores(sv.openPlace)
	level := func(name string) *spec.Level {
		return &spec.Level{Name: name, Place: snapshot.Place{Kind: store.KindDir, Folder: filepath.Join(t.TempDir(), name)}}
	}
	s, second := taken(t, cat, 4), level("second")
	if s, err = sv.copyOne(t.Context(), s, second, newCost()); err != nil {
		t.Fatal(err)
	}
	harm := func(c snapshot.Copy, ranks ...int) {
		t.Helper()
		_, set, err := s.At(c)
		if err != nil {
			t.Fatal(err)
		}
		for _, rank := range ranks {
			path := s.ImagePath(rank)
			if c.Store != "" {
				path = filepath.Join(second.Place.Folder, set, s.Schema.Images[rank].File)
			}
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			b[5000] ^= 1
			if err := os.WriteFile(path, b, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	harm(s.Copies()[0], 0, 2)
	harm(s.Copies()[1], 1, 3)
	third := level("third")
	if s, err = sv.copyOne(t.Context(), s, third, newCost()); err != nil {
		t.Fatal(err)
	}
	if i := slices.IndexFunc(s.Copies(), func(c snapshot.Copy) bool { return c.Place() == third.Place }); i < 0 || s.Only(s.Copies()[i]).Verify(nil) != nil {
		t.Errorf("%v", s.Copies())
	}
	s = s.Only(s.Copies()[0]) // the others are lost
	if err := os.Remove(s.ImagePath(3)); err != nil {
		t.Fatal(err)
	}
	fourth := level("fourth")
	c := &copying{s: s, to: store.OpenDir(fourth.Place.Folder), set: "x", level: fourth, cost: newCost()}
	if err = sv.copyImages(t.Context(), c, s.Schema.Images); err == nil {
		t.Fatal("made of nothing")
	}
	for _, want := range []string{"from beside the schema: ", "rank-00000.img", "rank-00002.img", "rank-00003.img"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in: %v", want, err)
		}
	}
	if infos, err := c.to.List(t.Context(), "x"); err != nil || !slices.ContainsFunc(infos, func(i store.Info) bool { return i.Name == "rank-00001.img" }) {
		t.Errorf("the good image was not copied: %v, %v", infos, err)
	}
}

func TestPlacesOf(t *testing.T) {
	cat, err := snapshot.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if got := spec.PlacesOf(taken(t, cat, 1)); got != "beside the schema" {
		t.Error(got)
	}
}

// A snapshot that a level is to have stays from that moment on: the copy may wait for the job's lock, and a newer snapshot take its place meanwhile.
func TestHeldForLevel(t *testing.T) {
	cat, err := snapshot.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	far := spec.Level{Name: "far", Every: time.Second, Place: snapshot.Place{Kind: store.KindDir, Folder: filepath.Join(t.TempDir(), "far")}}
	sv := &Service{cat: cat, id: testJob, head: deaf{}, opt: &spec.Options{Levels: []spec.Level{far}}}
	cat.Stores(sv.openPlace)
	s := taken(t, cat, 1)
	sv.chain = []commit{{snap: s}}
	sv.levels = levels{plan: flush.NewPlan([]flush.Level{{Name: far.Name, Every: far.Every}}, time.Now()), copies: make([]*behind, 1), others: make([]counts, 1), merged: make([]mergedLast, 1), upTo: make([]int, 1)}
	job, err := os.Open(filepath.Join(cat.JobDir(testJob), store.LockFile))
	if err == nil {
		err = unix.Flock(int(job.Fd()), unix.LOCK_EX)
	}
	if err != nil {
		t.Fatal(err)
	}
	sv.flushTo(0, s)
	own, err := os.Open(filepath.Join(s.Dir, store.LockFile))
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	if err := unix.Flock(int(own.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != unix.EWOULDBLOCK {
		t.Errorf("it may be removed before it is copied: %v", err)
	}
	job.Close()
	<-sv.levels.copies[0].over
	if err := unix.Flock(int(own.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		t.Errorf("it stays for ever: %v", err)
	}
}

// blocked is a store that is read when it is let.
type blocked struct {
	store.Store
	let chan bool
}

func (b blocked) Open(ctx context.Context, set, piece string) (store.Reader, error) {
	<-b.let
	return b.Store.Open(ctx, set, piece)
}

// Who restarts is told what is waited for.
func TestSlowStoreIsTold(t *testing.T) {
	cat, err := snapshot.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	far := spec.Level{Name: "far", Place: snapshot.Place{Kind: store.KindDir, Folder: filepath.Join(t.TempDir(), "far")}}
	sv := &Service{cat: cat, id: testJob, opt: &spec.Options{}}
	cat.Stores(sv.openPlace)
	s, err := sv.copyOne(t.Context(), taken(t, cat, 1), &far, newCost())
	if err == nil {
		err = os.Remove(s.ImagePath(0))
	}
	if err != nil {
		t.Fatal(err)
	}
	let := make(chan bool)
	s.Through(func(snapshot.Place, []string) (store.Store, error) {
		return blocked{store.OpenDir(far.Place.Folder), let}, nil
	})
	told := ""
	slow := spec.Slow{Tell: func(line string) {
		told = line
		close(let)
	}}
	got, err := spec.Sound([]*snapshot.Snapshot{s, s}, 0, "", func(_ *snapshot.Snapshot, why error) { t.Error(why) }, slow)
	if got != s || err != nil || !strings.Contains(told, "still looking at snapshot 1") || !strings.Contains(told, "in dir "+far.Place.Folder) {
		t.Errorf("%v, %v, told %q", got, err, told)
	}
}
