package stdio

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// silent is a stream of which nobody reads: a write ends when the test does.
type silent struct{ free chan struct{} }

func (s silent) Write(p []byte) (int, error) {
	<-s.free
	return len(p), nil
}

// slow is a reader who takes his time for each little piece.
type slow struct {
	every time.Duration
	got   bytes.Buffer
}

func (s *slow) Write(p []byte) (int, error) {
	<-time.After(s.every * time.Duration((len(p)+hurriedPiece-1)/hurriedPiece))
	return s.got.Write(p)
}

// dropped is how many bytes of each stream were.
func dropped(p *Printer) (n [3]int) {
	for i := range p.Streams {
		n[i] = p.Streams[i].Dropped
	}
	return n
}

// Output that nobody reads is waited for, until somebody is in a hurry: then it is
// dropped, the ranks get their credit as if it was written, and the other stream
// goes on.
func TestUnreadOutput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out, credit := silent{make(chan struct{})}, 0
		defer close(out.free)
		var errs bytes.Buffer
		p := NewPrinter(out, &errs, false)
		print := func(stream int, text string) {
			p.Print(Piece{Stream: stream, Data: []byte(text), Credit: func(n int) { credit += n - FrameCost }})
		}
		print(1, "hangs")
		print(1, "waits")
		print(2, "an error\n")
		synctest.Wait()
		if credit != 0 {
			t.Errorf("credit for %d bytes that nobody has read", credit)
		}
		if errs.Len() > 0 {
			t.Errorf("%q overtakes what was printed before", &errs)
		}
		p.Hurry()
		p.Hurry()
		synctest.Wait()
		if errs.String() != "an error\n" {
			t.Errorf("errors %q: they wait for output that nobody reads", &errs)
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
		if credit != len("hangswaitsan error\n") || dropped(p) != [3]int{1: 10} || errs.String() != "an error\n" {
			t.Errorf("credit %d, dropped %v, errors %q", credit, dropped(p), &errs)
		}
		p.Lastly("last words\n")
		if !strings.HasSuffix(errs.String(), "last words\n") {
			t.Errorf("errors %q", &errs)
		}
	})
}

// While nobody is in a hurry both streams come out in the order of printing.
func TestStreamsInOrder(t *testing.T) {
	var all bytes.Buffer // not to be written to by two at a time
	p := NewPrinter(&all, &all, false)
	want := ""
	for i := range 1000 {
		line := fmt.Sprintln(i)
		p.Print(Piece{Stream: 1 + i*i/7%2, Data: []byte(line), Credit: func(int) {}})
		want += line
	}
	p.Close()
	if all.String() != want {
		t.Errorf("printed out of order: %q", &all)
	}
}

// Where both streams end at one place, gorun's words and a rank's errors begin on a line of their own, before and after
// Close. Where they do not, nothing is put between.
func TestUnfinishedLine(t *testing.T) {
	say := func(p *Printer) {
		for _, j := range []Piece{
			{Rank: 0, Stream: 1, Data: []byte("half ")}, {Rank: 0, Stream: 1, Data: []byte("a line")},
			{Rank: -1, Stream: 2, Data: []byte("gorun: a word\n")},
			{Rank: 1, Stream: 1, Data: []byte("step 5\r")}, {Rank: 1, Stream: 2, Data: []byte("rank 1: status 3\n")},
			{Rank: 0, Stream: 1, Data: []byte("the rest")},
		} {
			j.Credit = func(int) {}
			p.Print(j)
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
		p.Lastly("gorun: the verdict\n")
		p.Lastly("gorun: go on with this\n")
	}
	dir := t.TempDir()
	open := func(name string) *os.File {
		f, err := os.OpenFile(filepath.Join(dir, name), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		return f
	}
	say(NewPrinter(open("one"), open("one"), false))
	holds(t, dir, "one", "half a line\ngorun: a word\nstep 5\r\nrank 1: status 3\nthe rest\ngorun: the verdict\ngorun: go on with this\n")
	say(NewPrinter(open("tagged"), open("tagged"), true))
	holds(t, dir, "tagged", "[0] half a line\ngorun: a word\n[1] step 5\r\n[1] rank 1: status 3\n[0] the rest\ngorun: the verdict\ngorun: go on with this\n")
	say(NewPrinter(open("out"), open("err"), false))
	holds(t, dir, "out", "half a line\nstep 5\r\nthe rest")
	holds(t, dir, "err", "gorun: a word\nrank 1: status 3\ngorun: the verdict\ngorun: go on with this\n")
}

// Standard error may go the same way.
func TestUnreadErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := silent{make(chan struct{})}
		defer close(all.free)
		p := NewPrinter(all, all, false)
		for stream := 1; stream <= 2; stream++ {
			p.Print(Piece{Stream: stream, Data: []byte("x"), Credit: func(int) {}})
		}
		p.Hurry()
		p.Close()
		if dropped(p) != [3]int{1: 1, 2: 1} {
			t.Errorf("dropped %v", dropped(p))
		}
		p.Lastly("nobody hears this")

		p = NewPrinter(all, all, false) // where the errors were not tried before
		p.Print(Piece{Stream: 1, Data: []byte("x"), Credit: func(int) {}})
		p.Hurry()
		p.Close()
		p.Lastly("nor this")
	})
}

// A reader who takes his time gets everything, however long, also if it comes in
// one piece and only a little is read at a time.
func TestSlowReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := slow{every: unreadGrace * 9 / 10}
		p := NewPrinter(&out, &out, false)
		p.Hurry()
		line := strings.Repeat("x", 3*hurriedPiece) + "\n"
		for range 20 {
			p.Print(Piece{Stream: 1, Data: []byte(line), Credit: func(int) {}})
		}
		p.Close()
		if want := strings.Repeat(line, 20); out.got.String() != want || dropped(p) != [3]int{} {
			t.Errorf("%d bytes of %d came, dropped %v", out.got.Len(), len(want), dropped(p))
		}
	})
}
