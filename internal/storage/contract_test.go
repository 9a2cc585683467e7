package storage

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorun-mpi/gorun/cr/snapshot"
	"github.com/gorun-mpi/gorun/cr/store"
	"github.com/gorun-mpi/gorun/internal/job/program"
	"github.com/gorun-mpi/gorun/internal/job/spec"
	"github.com/gorun-mpi/gorun/internal/protocol/oob"
)

// ear is a head whose goroutine is that of the test.
type ear struct {
	events chan func()
	done   chan struct{}
	mu     sync.Mutex
	said   []string
	works  int
	kept   []Kept
	copied []int
}

func (l *ear) Post(f func()) {
	select {
	case l.events <- f:
	case <-l.done:
	}
}
func (l *ear) Done() <-chan struct{} { return l.done }
func (l *ear) Works(n int)           { l.works = n }
func (l *ear) Kept(all []Kept)       { l.kept = all }
func (l *ear) Beside(_, _ bool)      {}
func (l *ear) Copying()              {}
func (l *ear) Copied(n int, _ Cost)  { l.copied = append(l.copied, n) }
func (l *ear) Taken(error)           {}

func (l *ear) Say(line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.said = append(l.said, line)
}

// newest is the newest snapshot that was told.
func (l *ear) newest() *snapshot.Snapshot { return l.kept[len(l.kept)-1].Snapshot }

// until does what is posted until something is so.
func (l *ear) until(so func() bool) {
	for !so() {
		(<-l.events)()
	}
}

// cycle is a service with a second level, of a job of two ranks.
func cycle(t *testing.T, from *snapshot.Snapshot, dir, far string) (*Service, *ear) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	prog := &program.Program{}
	prog.Hold(exe)
	l := &ear{events: make(chan func(), 64), done: make(chan struct{})}
	sv, err := New(Config{
		Job: testJob, Program: prog, Note: "from", Head: l,
		Options: &spec.Options{
			NP: 2, Agents: 1, CR: "self", CkptDir: dir, From: from,
			Base:   &spec.Level{Name: "near", Every: time.Hour},
			Levels: []spec.Level{{Name: "far", Every: time.Millisecond, Place: snapshot.Place{Kind: store.KindDir, Folder: far}}},
		},
	})
	if err == nil {
		err = sv.Claim(false)
	}
	if err == nil {
		err = sv.Open(nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	sv.Lineup(Lineup{Life: 1, Nodes: []string{sv.OwnName(), sv.OwnName()}})
	sv.Start()
	return sv, l
}

// checkpoint takes one, as a head does. An error is that of the commit.
func checkpoint(t *testing.T, sv *Service, l *ear, note string, harm func(p *snapshot.Pending)) (seq int, err error) {
	t.Helper()
	over := false
	sv.Begin(false, nil, func(a Attempt, beginning error) {
		if beginning != nil {
			t.Fatal(beginning)
		}
		seq = a.Seq
		w := Written{Seq: a.Seq, Began: time.Now(), Note: note, Schema: snapshot.Schema{
			Incarnation: "00000000000000aa", Created: sv.now(), NP: 2, Backend: "self", Transport: "tcp",
			Program: snapshot.Program{Path: "/bin/solver", Dir: "/tmp"},
		}}
		for rank := range 2 {
			sum := writeImage(t, sv.pending[a.Seq].Pending, w.Schema.Incarnation, rank, 2)
			w.Images = append(w.Images, oob.ImageInfo{File: snapshot.ImageFile(rank), Size: sum.Size, Digest: sum.Digest})
			w.Schema.Images = append(w.Schema.Images, snapshot.Image{Rank: rank, File: snapshot.ImageFile(rank), Size: sum.Size, Digest: sum.Digest, Codec: "none"})
			w.Schema.Placement = append(w.Schema.Placement, snapshot.Placement{Rank: rank, Host: "node"})
		}
		harm(sv.pending[a.Seq].Pending)
		sv.Commit(w, func(committing error) {
			if over, err = true, committing; err != nil {
				sv.Discard(a.Seq)
			}
		})
	})
	l.until(func() bool { return over && l.works == 0 })
	return seq, err
}

// The contract of the head with the storage, from the first snapshot to the restart by another head.
func TestContract(t *testing.T) {
	dir, far := t.TempDir(), filepath.Join(t.TempDir(), "far")
	sv, l := cycle(t, nil, dir, far)
	well := func(*snapshot.Pending) {}
	first, err := checkpoint(t, sv, l, "one", well)
	if err != nil || l.newest().Schema.Sequence != first {
		t.Fatalf("%v, kept %+v", err, l.kept)
	}
	lost, err := checkpoint(t, sv, l, "lost", func(p *snapshot.Pending) { os.Remove(p.ImagePath(1)) })
	if err == nil || l.newest().Schema.Sequence != first {
		t.Fatalf("committed without an image: %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, testJob, fmt.Sprint(lost))); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a discarded attempt is left: %v", err)
	}
	second, err := checkpoint(t, sv, l, "two", well)
	if err != nil {
		t.Fatal(err)
	}
	l.until(func() bool { // the level has it
		_, there := l.newest().Copy(sv.opt.Levels[0].Place)
		return there && l.newest().Schema.Sequence == second
	})
	if len(l.copied) == 0 || sv.Levels(0)[1].Last != second {
		t.Errorf("copies told: %v, level %+v", l.copied, sv.Levels(0)[1])
	}
	var notes []string
	for _, k := range l.kept {
		notes = append(notes, k.Note.(string))
	}
	if !slices.Equal(notes, []string{"one", "two"}) {
		t.Errorf("notes of the snapshots: %v", notes)
	}
	choose := func(left []int, refused string) (got Choice) {
		over := false
		sv.Choose(left, nil, func(note any) error {
			if note == refused {
				return errors.New("the head cannot")
			}
			return nil
		}, func(c Choice, err error) {
			if err != nil {
				t.Error(err)
			}
			got, over = c, true
		})
		l.until(func() bool { return over })
		return got
	}
	for i, c := range []struct {
		left    []int
		refused string
		want    int
	}{{nil, "", second}, {[]int{second}, "", first}, {nil, "two", first}} {
		if got := choose(c.left, c.refused); got.From == nil || got.From.Schema.Sequence != c.want || !got.Any {
			t.Errorf("choice %d: %+v, want %d", i, got, c.want)
		}
	}
	if !slices.ContainsFunc(l.said, func(s string) bool { return strings.Contains(s, "cannot be used: the head cannot") }) {
		t.Errorf("the user is not told why: %q", l.said)
	}

	newest := l.newest()
	close(l.done)
	sv.End(Ending{GoesOn: true})
	if got := sv.Outlives(); got != newest.SchemaPath() {
		t.Errorf("what outlives the job: %q", got)
	}
	sv.CloseMemory(true)
	sv.Close()

	again, err := sv.cat.Load(newest.Dir)
	if err != nil {
		t.Fatal(err)
	}
	sv, l = cycle(t, again, dir, far)
	if kept := l.kept; len(kept) != 1 || kept[0].Note != "from" {
		t.Errorf("the second head begins with %+v", kept)
	}
	close(l.done)
	sv.End(Ending{})
	sv.CloseMemory(false)
	sv.Close()
}
