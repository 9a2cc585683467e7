package snapshot

import (
	"errors"
	"io/fs"
	"math/rand"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/cr/store"
	"github.com/gorun-mpi/gorun/internal/storage/flush"
)

// pieces are the images of a snapshot as a flush takes them.
func pieces(s *Snapshot) (all []flush.Piece) {
	for _, im := range s.Schema.Images {
		all = append(all, flush.Piece{Name: im.File, Size: im.Size, Digest: im.Digest})
	}
	return all
}

// fill copies the images of a snapshot from its first copy.
func fill(t testing.TB, p *Copying) {
	t.Helper()
	s := p.Snapshot()
	from, err := s.images(s.Copies()[0])
	if err != nil {
		t.Fatal(err)
	}
	st, set := p.Images()
	err = flush.Pieces(t.Context(), flush.From{Store: from, Name: s.Copies()[0].Set}, flush.Set{Store: st, Name: set}, pieces(s), flush.Options{})
	if err != nil {
		t.Fatal(err)
	}
}

// beside makes a copy beside the schema.
func beside(t testing.TB, c *Catalogue, s *Snapshot) *Snapshot {
	t.Helper()
	p, err := c.Copy(s, Beside, nil)
	if err != nil {
		t.Fatal(err)
	}
	fill(t, p)
	if s, err = p.Commit(time.Now()); err != nil {
		t.Fatal(err)
	}
	return s
}

// An image is read of whichever copy is good, and the loss of one copy, or of a part of each, costs nothing.
func TestCopies(t *testing.T) {
	n := newNodes(t, "a", "b")
	c := n.catalogue()
	beside(t, c, n.commit(c, jobA))
	s, err := c.Find(jobA)
	if err != nil || s.Schema.Format != Format || len(s.Copies()) != 2 || !s.Away() {
		t.Fatalf("%+v, %v", s.Schema, err)
	}
	if _, err := c.Copy(s, Beside, nil); !errors.Is(err, fs.ErrExist) {
		t.Errorf("the same again: %v", err)
	}
	flip(t, filepath.Join(n.dir, n.files()[0])) // rank 0 there, rank 1 here
	flip(t, s.ImagePath(1))
	if err := s.Verify(nil); err != nil {
		t.Errorf("with a good copy of each: %v", err)
	}
	for rank := range 2 {
		r, err := s.Good(rank).Open()
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(r.Verify(), r.Close()); err != nil {
			t.Errorf("rank %d: %v", rank, err)
		}
	}
	for _, one := range s.Copies() {
		if err := s.Only(one).Verify(nil); err == nil {
			t.Errorf("%s is said to be whole", one.Place())
		}
	}
	n.down = []string{"a", "b"}
	if err := s.Check(); err != nil {
		t.Errorf("without nodes: %v", err)
	}
	if err := s.Verify(nil); err == nil || !strings.Contains(err.Error(), "no copy is good") || !strings.Contains(err.Error(), "rank 1") {
		t.Errorf("no copy of rank 1: %v", err)
	}
	if _, err := s.Good(1).Open(); err == nil || !strings.Contains(err.Error(), "no copy is good") {
		t.Errorf("no copy of rank 1: %v", err)
	}
}

// A copy of which an image is not where all see it does not count: who has written it may have seen another folder of
// this name, such as one that is not mounted on its node.
func TestCopyElsewhere(t *testing.T) {
	n := newNodes(t, "a", "b")
	c := n.catalogue()
	s := n.commit(c, jobA)
	p, err := c.Copy(s, Beside, nil)
	if err != nil {
		t.Fatal(err)
	}
	fill(t, p)
	if err := os.Remove(s.ImagePath(1)); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Commit(time.Now()); !errors.Is(err, ErrImage) || !strings.Contains(err.Error(), "rank 1") {
		t.Errorf("committed without an image: %v", err)
	}
	if s, err = c.Load(s.Dir); err != nil || len(s.Copies()) != 1 {
		t.Errorf("%v, %v", s.Copies(), err)
	}
	beside(t, c, s)
}

// flip damages a byte in the middle of a file.
func flip(t testing.TB, path string) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 64 {
		b[4096+i] ^= 1
	}
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// A snapshot loses its copies one by one; with one left its images lie beside the schema.
func TestDropCopy(t *testing.T) {
	n := newNodes(t, "a", "b")
	c := n.catalogue()
	s := beside(t, c, n.commit(c, jobA))
	h, err := s.Hold()
	if err != nil {
		t.Fatal(err)
	}
	if gone, err := c.DropCopy(s, atNodes); gone || err != nil {
		t.Errorf("while it is held: %v, %v", gone, err)
	}
	h.Release()
	if gone, err := c.DropCopy(s, atNodes); !gone || err != nil {
		t.Fatal(gone, err)
	}
	if left := n.files(); len(left) > 0 {
		t.Errorf("left on nodes: %v", left)
	}
	if s, err = c.Load(s.Dir); err != nil || s.Schema.Format != Format || s.Away() || s.Verify(nil) != nil {
		t.Fatalf("%+v, %v, %v", s.Schema, err, s.Verify(nil))
	}
	if gone, err := c.DropCopy(s, Beside); !gone || err != nil {
		t.Fatal(gone, err)
	}
	if _, err := os.Stat(s.Dir); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if gone, err := c.DropCopy(s, Beside); !gone || err != nil {
		t.Errorf("what is gone: %v, %v", gone, err)
	}
}

// A crash at any step of a copy leaves the copy whole or absent, the snapshot whole in any case, and another try goes
// through.
func TestCrashAtEveryStepOfCopy(t *testing.T) {
	for _, step := range []string{"", "names durable", "schema written", "schema renamed", "folder synced"} {
		n := newNodes(t, "a", "b")
		c := n.catalogue()
		s := n.commit(c, jobA)
		p, err := c.Copy(s, Beside, nil)
		if err != nil {
			t.Fatal(err)
		}
		fill(t, p)
		died := errors.New("died")
		p.step = func(done string) error {
			if done == step {
				return died
			}
			return nil
		}
		if step == "" {
			p.hold.Release() // it dies before
		} else if _, err := p.Commit(time.Now()); !errors.Is(err, died) {
			t.Fatalf("%s: %v", step, err)
		}
		now, err := c.Load(s.Dir)
		if err != nil || now.Verify(nil) != nil {
			t.Fatalf("%s: %v, %v", step, err, now.Verify(nil))
		}
		if whole := len(now.Copies()) == 2; whole != (step == "schema renamed" || step == "folder synced") {
			t.Errorf("after %q: %v copies", step, now.Copies())
		}
		if len(now.Copies()) == 1 {
			now = beside(t, c, now)
		}
		n.down = n.all
		if err := now.Verify(nil); err != nil {
			t.Errorf("%s: %v", step, err)
		}
	}
}

// What a copy has left half done is swept when nobody holds its snapshot, also that of the newest, and not before.
func TestSweepHalfCopy(t *testing.T) {
	n := newNodes(t, "a", "b")
	c := n.catalogue()
	s := commit(t, c, jobA, 2)
	p, err := c.Copy(s, atNodes, n.all)
	if err != nil {
		t.Fatal(err)
	}
	_, set := p.Images()
	here := n.on("a")
	put := func() {
		if err := errors.Join(here.Begin(t.Context(), set), here.Commit(t.Context(), set)); err != nil {
			t.Fatal(err)
		}
	}
	put()
	sets := func() int {
		all, err := here.Sets(t.Context(), filepath.Dir(set))
		if err != nil {
			t.Fatal(err)
		}
		return len(all)
	}
	if _, err := c.Sweep(jobA); err != nil || sets() != 1 {
		t.Errorf("while it is made: %d sets, %v", sets(), err)
	}
	p.Abort(false)
	if gone, err := c.Sweep(jobA); err != nil || sets() != 0 || len(gone) != 1 {
		t.Errorf("%v, %d sets, %v", gone, sets(), err)
	}
}

// Newer copies in a weak place never cost the last ones in a strong one.
func TestPruneByPlace(t *testing.T) {
	n := newNodes(t, "a")
	c := n.catalogue()
	strong := beside(t, c, n.commit(c, jobA))
	for range 4 {
		n.commit(c, jobA)
	}
	done, err := c.PruneLevels(jobA, func(p Place) int { return map[Place]int{Beside: 1, atNodes: 2}[p] })
	if err != nil || !slices.Equal(done.Removed, []int{2, 3}) || !slices.Equal(done.Dropped, []Dropped{{1, atNodes}}) {
		t.Fatalf("%+v, %v", done, err)
	}
	now, err := c.Load(strong.Dir)
	if err != nil || len(now.Copies()) != 1 || now.Copies()[0].Place() != Beside || now.Verify(nil) != nil {
		t.Fatalf("%+v, %v", now, err)
	}
}

// TestRandomCopies commits, copies, drops and prunes in any order. All that is listed is whole in each of its copies, and
// each place keeps its newest.
func TestRandomCopies(t *testing.T) {
	for seed := range int64(6) {
		r := rand.New(rand.NewSource(seed))
		n := newNodes(t, "a")
		c := n.catalogue()
		all := func() []*Snapshot {
			s, err := c.List(jobA)
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
		n.commit(c, jobA)
		for range 15 {
			some := all()
			if len(some) == 0 {
				n.commit(c, jobA)
				continue
			}
			s := some[r.Intn(len(some))]
			switch what := r.Intn(6); {
			case what < 2:
				n.commit(c, jobA)
			case what < 4:
				if s.Away() && len(s.Copies()) == 1 {
					beside(t, c, s)
				}
			case what < 5:
				if gone, err := c.DropCopy(s, s.Copies()[r.Intn(len(s.Copies()))].Place()); !gone || err != nil {
					t.Fatal(gone, err)
				}
			default:
				keep := map[Place]int{Beside: 1 + r.Intn(2), atNodes: 1 + r.Intn(2)}
				before := inPlaces(some)
				if _, err := c.PruneLevels(jobA, func(p Place) int { return keep[p] }); err != nil {
					t.Fatal(err)
				}
				after := inPlaces(all())
				for p, seqs := range before {
					if want := seqs[max(0, len(seqs)-keep[p]):]; !slices.Equal(after[p], want) {
						t.Fatalf("seed %d, %s: %v of %v, keep %d", seed, p, after[p], seqs, keep[p])
					}
				}
			}
			for _, s := range all() {
				for _, one := range s.Copies() {
					if err := s.Only(one).Check(); err != nil {
						t.Fatalf("seed %d: %v", seed, err)
					}
				}
			}
		}
	}
}

// inPlaces lists the snapshots of each place, the oldest first.
func inPlaces(all []*Snapshot) map[Place][]int {
	in := map[Place][]int{}
	for _, s := range all {
		for _, c := range s.Copies() {
			in[c.Place()] = append(in[c.Place()], s.Schema.Sequence)
		}
	}
	return in
}

// Two who make the same copy at once do not harm each other: one of them names it.
func TestCopiedTwiceAtOnce(t *testing.T) {
	n := newNodes(t, "a")
	c := n.catalogue()
	s := n.commit(c, jobA)
	var both []*Copying
	for range 2 {
		p, err := c.Copy(s, Beside, nil)
		if err != nil {
			t.Fatal(err)
		}
		fill(t, p)
		both = append(both, p)
	}
	_, first := both[0].Commit(time.Now())
	_, second := both[1].Commit(time.Now())
	now, err := c.Load(s.Dir)
	if first != nil || !errors.Is(second, fs.ErrExist) || err != nil || len(now.Copies()) != 2 || now.Only(now.Copies()[1]).Verify(nil) != nil {
		t.Errorf("%v, %v, %v", first, second, err)
	}
}

// A place without room fails its copy and nothing else. When there is room the copy goes through.
func TestCopyDiskFull(t *testing.T) {
	full := mount(t, 0, "size=64k")
	c := catalogue(t)
	c.Stores(func(p Place, _ []string) (store.Store, error) { return store.OpenDir(p.Folder), nil })
	s := commit(t, c, jobA, 1)
	filler := filepath.Join(full, "filler")
	f, err := os.Create(filler)
	if err != nil {
		t.Fatal(err)
	}
	fillUp(f)
	f.Close()
	p, err := c.Copy(s, Place{"dir", full}, nil)
	if err != nil {
		t.Fatal(err)
	}
	from, name, err := s.At(s.Copies()[0])
	if err != nil {
		t.Fatal(err)
	}
	st, set := p.Images()
	try := func() error {
		return flush.Pieces(t.Context(), flush.From{Store: from, Name: name}, flush.Set{Store: st, Name: set}, pieces(s), flush.Options{})
	}
	if err := try(); !errors.Is(err, unix.ENOSPC) {
		t.Fatalf("without room: %v", err)
	}
	if err := errors.Join(s.Verify(nil), os.Remove(filler), try()); err != nil {
		t.Fatal(err)
	}
	if s, err = p.Commit(time.Now()); err != nil || s.Only(s.Copies()[1]).Verify(nil) != nil {
		t.Error(err)
	}
}

// The same of a copy beside the schema.
func TestSweepHalfBeside(t *testing.T) {
	n := newNodes(t, "a")
	c := n.catalogue()
	s := n.commit(c, jobA)
	p, err := c.Copy(s, Beside, nil)
	if err != nil {
		t.Fatal(err)
	}
	fill(t, p)
	for _, held := range []bool{true, false} {
		if !held {
			p.Abort(false)
		}
		gone, err := c.Sweep(jobA)
		if _, there := os.Stat(s.ImagePath(0)); err != nil || (there == nil) != held || (len(gone) == 0) != held {
			t.Errorf("held %v: swept %v, %v, %v", held, gone, there, err)
		}
	}
	beside(t, c, s)
	if gone, err := c.Sweep(jobA); err != nil || len(gone) > 0 || s.Verify(nil) != nil {
		t.Errorf("whole copies: %v, %v, %v", gone, err, s.Verify(nil))
	}
}

// What was in the memory of a job goes when the job is over: nobody holds it any more. Copies elsewhere stay.
func TestSweepMemory(t *testing.T) {
	n := newNodes(t, "a")
	c := n.catalogue()
	both, alone := beside(t, c, n.commit(c, jobA)), n.commit(c, jobA)
	inMemory := Place{Kind: store.KindMem}
	for _, s := range []*Snapshot{both, alone} { // as if their nodes had them in memory
		all := s.Copies()
		all[0].Store, all[0].Folder = inMemory.Kind, ""
		if _, err := s.rewrite(all, nil); err != nil {
			t.Fatal(err)
		}
	}
	l, err := lockJob(c.JobDir(jobA))
	if err == nil {
		_, err = noteStore(c.JobDir(jobA), inMemory, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	list := func(want ...int) {
		t.Helper()
		all, err := c.List(jobA)
		if err != nil || len(all) != len(want) {
			t.Fatal(all, err)
		}
		for i, s := range all {
			if len(s.Copies()) != want[i] {
				t.Errorf("snapshot %d: %v", s.Schema.Sequence, s.Copies())
			}
		}
	}
	var holds []*Hold
	for _, s := range []*Snapshot{both, alone} {
		h, err := s.Hold()
		if err != nil {
			t.Fatal(err)
		}
		holds = append(holds, h)
	}
	if _, err := c.Sweep(jobA); err != nil {
		t.Fatal(err)
	}
	list(2, 1)
	now, err := c.Load(alone.Dir)
	if err != nil || now.Lasting() != nil {
		t.Errorf("%v, %v", now.Lasting(), err)
	}
	if now, err = c.Load(both.Dir); err != nil || len(now.Lasting().Copies()) != 1 || now.Lasting().Verify(nil) != nil {
		t.Errorf("%v, %v", now, err)
	}
	if _, err := c.Prune(jobA, 1); err != nil {
		t.Errorf("prune beside a running job: %v", err)
	}
	list(2, 1)
	for _, h := range holds {
		h.Release()
	}
	if gone, err := c.Sweep(jobA); err != nil || len(gone) != 4 { // with what is on the nodes
		t.Fatalf("%v, %v", gone, err)
	}
	list(1)
	if now, err = c.Load(both.Dir); err != nil || now.Away() || now.Verify(nil) != nil {
		t.Errorf("%v, %v", now, err)
	}
}
