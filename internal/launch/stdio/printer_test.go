package stdio

import (
	"bytes"
	"fmt"
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
