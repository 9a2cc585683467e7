package snapshot

import (
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// build takes a snapshot whose rank i builds on bases[i], and returns it with its
// Hold.
func build(t testing.TB, c *Catalogue, bases ...int) (*Snapshot, *Hold) {
	t.Helper()
	p := begin(t, c, jobA)
	schema := writeImages(t, p, len(bases))
	for i, b := range bases {
		schema.Images[i].Base = b
	}
	s, h, err := p.Commit(schema)
	if err != nil {
		t.Fatal(err)
	}
	return s, h
}

// chain makes the snapshots 1 (full), 2 on 1, 3 on 2 and 1, 4 (full).
func chain(t testing.TB) (*Catalogue, []*Snapshot) {
	t.Helper()
	c := catalogue(t)
	var all []*Snapshot
	for _, bases := range [][]int{{0, 0, 0}, {1, 1, 1}, {2, 1, 2}, {0, 0, 0}} {
		s, h := build(t, c, bases...)
		h.Release()
		all = append(all, s)
	}
	return c, all
}

func seqsOf(all []*Snapshot) []int {
	var seqs []int
	for _, s := range all {
		seqs = append(seqs, s.Schema.Sequence)
	}
	return seqs
}

func TestChain(t *testing.T) {
	c, all := chain(t)
	for i, want := range [][]int{{1}, {2, 1}, {3, 2, 1}, {4}} {
		got, err := all[i].Chain()
		if err != nil || !reflect.DeepEqual(seqsOf(got), want) {
			t.Errorf("%d: %v %v", i+1, seqsOf(got), err)
		}
		if err := all[i].Verify(nil); err != nil {
			t.Error(err)
		}
	}
	third := all[2]
	if got := third.Schema.Bases(); !reflect.DeepEqual(got, []int{2, 1}) {
		t.Error(got)
	}
	if got := third.BasePath(1, 1); got != all[0].ImagePath(1) {
		t.Error(got)
	}
	// The job's folder may be called and lie anywhere.
	moved := filepath.Join(t.TempDir(), "elsewhere")
	if err := os.Rename(c.JobDir(jobA), moved); err != nil {
		t.Fatal(err)
	}
	s, err := Load(filepath.Join(moved, "3"))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Verify(nil); err != nil {
		t.Error(err)
	}
}

func TestBrokenChain(t *testing.T) {
	for name, x := range map[string]struct {
		damage func(c *Catalogue, all []*Snapshot) error
		want   error
		text   string
	}{
		"gone": {func(c *Catalogue, all []*Snapshot) error {
			return os.RemoveAll(all[0].Dir)
		}, ErrNotFound, "copied as a whole"},
		"without a schema": {func(c *Catalogue, all []*Snapshot) error {
			return os.Remove(all[0].SchemaPath())
		}, ErrNotCommitted, "older snapshot"},
		"damaged schema": {func(c *Catalogue, all []*Snapshot) error {
			return os.WriteFile(all[0].SchemaPath(), []byte("format = 2"), 0o600)
		}, ErrSchema, "older snapshot"},
		"newer schema": {func(c *Catalogue, all []*Snapshot) error {
			return os.WriteFile(all[0].SchemaPath(), []byte("format = 99"), 0o600)
		}, ErrFormat, "newer gorun"},
		"another in its place": {func(c *Catalogue, all []*Snapshot) error {
			return errors.Join(os.RemoveAll(all[0].Dir), os.CopyFS(all[0].Dir, os.DirFS(all[3].Dir)))
		}, ErrMisplaced, "it is snapshot 4"},
		"of another run": {func(c *Catalogue, all []*Snapshot) error {
			return edit(all[0], func(s *Schema) { s.Incarnation = "other" })
		}, ErrSchema, "incarnation is other"},
		"of another program": {func(c *Catalogue, all []*Snapshot) error {
			return edit(all[0], func(s *Schema) { s.Program.Digest = strings.Repeat("9", 64) })
		}, ErrSchema, "program is 999"},
		"image called otherwise": {func(c *Catalogue, all []*Snapshot) error {
			return edit(all[0], func(s *Schema) { s.Images[1].File = "odd.img" })
		}, ErrSchema, "odd.img"},
	} {
		t.Run(name, func(t *testing.T) {
			c, all := chain(t)
			if err := x.damage(c, all); err != nil {
				t.Fatal(err)
			}
			s := all[2]
			_, err := s.Chain()
			_, holdErr := s.Hold()
			for what, err := range map[string]error{"chain": err, "check": s.Check(), "verify": s.Verify(nil), "hold": holdErr} {
				if !errors.Is(err, ErrChain) || !errors.Is(err, x.want) {
					t.Fatalf("%s: %v", what, err)
				}
				for _, text := range []string{s.Dir, "rank 0 and of 2 more", "snapshot 1", x.text} {
					if !strings.Contains(err.Error(), text) {
						t.Errorf("%s: %q does not say %q", what, err, text)
					}
				}
			}
			// A failed Hold holds nothing.
			if done, err := c.Prune(jobA, 1); slices.Contains(done.InUse, 3) {
				t.Error(done, err)
			}
		})
	}
}

// edit changes a committed schema.
func edit(s *Snapshot, change func(*Schema)) error {
	schema := *s.Schema
	schema.Images = slices.Clone(schema.Images)
	change(&schema)
	text, err := schema.Encode()
	if err != nil {
		return err
	}
	return os.WriteFile(s.SchemaPath(), text, 0o600)
}

// TestCheckSeesTheImagesBelow damages images of a chain: only what a restart
// needs matters.
func TestCheckSeesTheImagesBelow(t *testing.T) {
	c := catalogue(t)
	for _, bases := range [][]int{{0, 0}, {1, 0}} {
		_, h := build(t, c, bases...)
		h.Release()
	}
	first, err := c.Find(jobA + "/1")
	if err != nil {
		t.Fatal(err)
	}
	s, err := c.Latest(jobA)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(first.ImagePath(1)); err != nil {
		t.Fatal(err)
	}
	var read, total int64
	if err := s.Verify(func(d, all int64) { read, total = d, all }); err != nil {
		t.Error("an image that is not needed:", err)
	}
	if want := s.Bytes() + first.Schema.Images[0].Size; read != want || total != want {
		t.Errorf("progress %d of %d, want %d", read, total, want)
	}
	if err := os.Remove(first.ImagePath(0)); err != nil {
		t.Fatal(err)
	}
	var bad *ImageError
	if err := s.Check(); !errors.As(err, &bad) || bad.Rank != 0 || bad.Path != first.ImagePath(0) || !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

func TestCommitRefusesABrokenChain(t *testing.T) {
	c := catalogue(t)
	for name, prepare := range map[string]func() int{
		"never there":   func() int { return 1 },
		"not committed": func() int { p := begin(t, c, jobA); t.Cleanup(func() { p.Discard() }); return p.Seq },
		"itself":        func() int { return -1 },
	} {
		base := prepare()
		p := begin(t, c, jobA)
		if base < 0 {
			base = p.Seq
		}
		s := writeImages(t, p, 1)
		s.Images[0].Base = base
		_, _, err := p.Commit(s)
		if !errors.Is(err, ErrChain) && !errors.Is(err, ErrSchema) || !strings.Contains(err.Error(), "rank 0") {
			t.Errorf("%s: %v", name, err)
		}
		if err := p.Discard(); err != nil {
			t.Error(err)
		}
	}
	if _, err := c.Latest(jobA); !errors.Is(err, ErrNotFound) {
		t.Error(err)
	}
}

func TestPruneKeepsWhatAChainNeeds(t *testing.T) {
	c, _ := chain(t) // 1, 2 on 1, 3 on 2 and 1, 4
	if err := os.RemoveAll(filepath.Join(c.JobDir(jobA), "4")); err != nil {
		t.Fatal(err)
	}
	done, err := c.Prune(jobA, 1)
	if err != nil || !reflect.DeepEqual(done, Pruned{Needed: []int{1, 2}}) {
		t.Fatalf("%+v %v", done, err)
	}
	five, h := build(t, c, 3, 0, 0)
	h.Release()
	if done, err = c.Prune(jobA, 1); err != nil || !reflect.DeepEqual(done, Pruned{Needed: []int{1, 2, 3}}) {
		t.Fatalf("%+v %v", done, err)
	}
	if err := five.Verify(nil); err != nil {
		t.Fatal(err)
	}
	_, h = build(t, c, 0, 0, 0)
	defer h.Release()
	if done, err = c.Prune(jobA, 1); err != nil || !reflect.DeepEqual(done, Pruned{Removed: []int{1, 2, 3, 5}}) {
		t.Fatalf("%+v %v", done, err)
	}
}

func TestHoldHoldsItsChain(t *testing.T) {
	c, all := chain(t)
	h, err := all[1].Hold()
	if err != nil {
		t.Fatal(err)
	}
	done, err := c.Prune(jobA, 1)
	if err != nil || !reflect.DeepEqual(done, Pruned{Removed: []int{3}, InUse: []int{2}, Needed: []int{1}}) {
		t.Fatalf("%+v %v", done, err)
	}
	// Even an older gorun, that knows nothing of chains, finds it locked.
	if busy, err := removeUnlessHeld(all[0].Dir, nil); !busy || err != nil {
		t.Fatal(busy, err)
	}
	h.Release()
	if done, err = c.Prune(jobA, 1); err != nil || !reflect.DeepEqual(done.Removed, []int{1, 2}) {
		t.Fatalf("%+v %v", done, err)
	}
}

func TestCommitHoldsItsChain(t *testing.T) {
	c, _ := chain(t)
	_, h := build(t, c, 3, 3, 3)
	for _, dir := range []string{"1", "2", "3", "5"} {
		if busy, err := removeUnlessHeld(filepath.Join(c.JobDir(jobA), dir), nil); !busy || err != nil {
			t.Error(dir, busy, err)
		}
	}
	h.Release()
}

// TestCrashInPrune stops a prune after any number of removals: what is left has
// all that it builds on.
func TestCrashInPrune(t *testing.T) {
	c := catalogue(t)
	for _, bases := range [][]int{{0}, {1}, {2}, {0}, {4}, {0}} {
		_, h := build(t, c, bases...)
		h.Release()
	}
	p := newPruner(c, keepN(1), 0)
	for seq := 6; seq > 0; seq-- {
		p.prune(c.dir(jobA, seq), seq)
		all, err := c.List(jobA)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range all {
			if err := s.Verify(nil); err != nil {
				t.Errorf("after %d: %v", seq, err)
			}
		}
	}
	if !reflect.DeepEqual(p.Removed, []int{5, 4, 3, 2, 1}) {
		t.Error(p.Removed)
	}
}

// TestPruneBesideUnreadable: what a schema of a newer gorun builds on is not
// known, a damaged one builds on nothing that matters.
func TestPruneBesideUnreadable(t *testing.T) {
	for text, want := range map[string]Pruned{
		"format = 99": {Removed: []int{3}, Needed: []int{1}},
		"format = 2":  {Removed: []int{1, 3}},
	} {
		c, all := chain(t)
		if err := edit(all[2], func(s *Schema) { s.Images[0].Base, s.Images[2].Base = 1, 1 }); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(all[1].SchemaPath(), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		done, err := c.Prune(jobA, 1)
		if !reflect.DeepEqual(done, want) || err == nil || !strings.Contains(err.Error(), all[1].SchemaPath()) {
			t.Errorf("%s: %+v %v", text, done, err)
		}
	}
}

// An image on which several snapshots build is named once.
func TestPruneOfDamagedChain(t *testing.T) {
	c, all := chain(t)
	for _, s := range all {
		for rank := range s.Schema.NP {
			if err := os.WriteFile(s.ImagePath(rank), []byte("damaged"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	done, err := c.Prune(jobA, 1)
	if err == nil || done.Removed != nil {
		t.Fatal(done, err)
	}
	for _, s := range all {
		for rank := range s.Schema.NP {
			if n := strings.Count(err.Error(), s.ImagePath(rank)); n != 1 {
				t.Errorf("%s is named %d times: %v", s.ImagePath(rank), n, err)
			}
		}
	}
}

// TestRandomChains commits, holds, releases and prunes at random: whatever stays
// can be restored, whatever is held stays, and nothing stays without a reason.
func TestRandomChains(t *testing.T) {
	for seed := range uint64(4) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			t.Parallel() // most of it is waiting for the disk
			r := rand.New(rand.NewPCG(seed, 1))
			c := catalogue(t)
			held := map[int]*Hold{}
			for range 40 {
				all, err := c.List(jobA)
				if err != nil {
					t.Fatal(err)
				}
				switch k := r.IntN(10); {
				case k < 4:
					randomCommit(t, c, r, all, held)
				case k < 6 && len(all) > 0:
					s := all[r.IntN(len(all))]
					h, err := s.Hold()
					if err != nil {
						t.Fatal(err)
					}
					held[s.Schema.Sequence].Release()
					held[s.Schema.Sequence] = h
				case k < 8:
					for seq, h := range held {
						h.Release()
						delete(held, seq)
						break
					}
				case len(all) > 0:
					checkPrune(t, c, all, held, 1+r.IntN(3))
				}
			}
			for _, h := range held {
				h.Release()
			}
		})
	}
}

func randomCommit(t *testing.T, c *Catalogue, r *rand.Rand, all []*Snapshot, held map[int]*Hold) {
	t.Helper()
	bases := make([]int, 2)
	for i := range bases {
		if n := len(all); n > 0 && r.IntN(3) > 0 {
			bases[i] = all[n-1-r.IntN(min(n, 2))].Schema.Sequence
		}
	}
	s, h := build(t, c, bases...)
	if r.IntN(2) == 0 {
		held[s.Schema.Sequence] = h
	} else {
		h.Release()
	}
}

func checkPrune(t *testing.T, c *Catalogue, before []*Snapshot, held map[int]*Hold, keep int) {
	t.Helper()
	needed := map[int]bool{}
	for i, s := range slices.Backward(before) {
		seq := s.Schema.Sequence
		if _, ok := held[seq]; ok || i >= len(before)-keep || needed[seq] {
			needed[seq] = true
			for _, base := range s.Schema.Bases() { // of all ranks: it stays whole
				needed[base] = true
			}
		}
	}
	done, err := c.Prune(jobA, keep)
	if err != nil {
		t.Fatal(err)
	}
	after, err := c.List(jobA)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range after {
		if err := s.Check(); err != nil {
			t.Errorf("%+v: %v", done, err)
		}
		if !needed[s.Schema.Sequence] {
			t.Errorf("%d stayed without need", s.Schema.Sequence)
		}
	}
	if len(after) != len(needed) || len(before)-len(after) != len(done.Removed) {
		t.Errorf("%v before, %v after, %+v", seqsOf(before), seqsOf(after), done)
	}
}
