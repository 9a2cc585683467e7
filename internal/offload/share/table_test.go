package share

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestTable checks that two agents see each other's seats, and that a process keeps the seat of an agent that has died.
func TestTable(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "seats")
	a, b := NewTable(dir), NewTable(dir)
	first, err := a.Join(Seat{Device: "0", Job: "one", Held: 7})
	must(t, err)
	second, err := b.Join(Seat{Device: "0", Job: "two"})
	must(t, err)
	<-first.Changed
	must(t, second.Update(func(all []Seat, mine *Seat) {
		if len(all) != 2 || mine.Job != "two" || all[0].Held+all[1].Held != 7 {
			t.Errorf("%+v", all)
		}
		mine.Need, mine.Since = 8, Now()
	}))
	waitFor(t, first, func(all []Seat, mine *Seat) bool { return len(all) == 2 && all[0].Need+all[1].Need == 8 })

	// A process has inherited the lock, and outlives its agent.
	sleeper := exec.Command("sleep", "1000")
	sleeper.ExtraFiles = []*os.File{second.File}
	must(t, sleeper.Start())
	b.deaf(second.Changed)
	must(t, second.File.Close())
	waitFor(t, first, func(all []Seat, mine *Seat) bool { return len(all) == 2 })
	must(t, sleeper.Process.Kill())
	sleeper.Wait()
	waitFor(t, first, func(all []Seat, mine *Seat) bool { return len(all) == 1 && mine.Job == "one" })
	must(t, first.Close())
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the last one has left the folder: %v", err)
	}
}

// waitFor looks at the seats until they are as they have to be, at the beginning and whenever one changes.
func waitFor(t *testing.T, h *Held, right func(all []Seat, mine *Seat) bool) {
	t.Helper()
	late := time.After(time.Minute)
	for {
		var last []Seat
		ok := false
		must(t, h.Update(func(all []Seat, mine *Seat) { last, ok = all, right(all, mine) }))
		if ok {
			return
		}
		select {
		case <-h.Changed:
		case <-late:
			t.Fatalf("nobody told of a change, or it is none: %+v", last)
		}
	}
}

// TestExclusive checks that the second one is refused by name, whichever of the two wants the device for itself.
func TestExclusive(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "seats")
	table := NewTable(dir)
	for _, c := range []struct {
		first, second bool
		want          string
	}{
		{true, true, "rank 3 of job 12345678 has it for itself"},
		{true, false, "rank 3 of job 12345678 has it for itself"},
		{false, true, "use -devices share"},
	} {
		h, err := table.Join(Seat{Device: "0", Exclusive: c.first, Job: "1234567890", Rank: 3})
		must(t, err)
		if _, err := table.Join(Seat{Device: "0", Exclusive: c.second}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v", c, err)
		}
		other, err := table.Join(Seat{Device: "1", Exclusive: c.second})
		must(t, err)
		must(t, other.Close())
		must(t, h.Close())
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Error("the folder is left")
	}
}
