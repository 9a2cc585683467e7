package launcher

import (
	"bytes"
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

// slow is a reader who takes his time for each write.
type slow struct {
	every time.Duration
	got   bytes.Buffer
}

func (s *slow) Write(p []byte) (int, error) {
	<-time.After(s.every)
	return s.got.Write(p)
}

// Output that nobody reads is waited for, until somebody is in a hurry: then it is
// dropped, the ranks get their credit as if it was written, and the other stream
// goes on.
func TestUnreadOutput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out, credit := silent{make(chan struct{})}, 0
		defer close(out.free)
		var errs bytes.Buffer
		p := newPrinter(out, &errs, false)
		print := func(stream int, text string) {
			p.print(printJob{stream: stream, data: []byte(text), credit: func(n int) { credit += n - frameCost }})
		}
		print(1, "hangs")
		print(1, "waits")
		print(2, "an error\n")
		synctest.Wait()
		if credit != 0 {
			t.Errorf("credit for %d bytes that nobody has read", credit)
		}
		p.hurry()
		p.hurry()
		if err := p.close(); err != nil {
			t.Error(err)
		}
		if credit != len("hangswaitsan error\n") || p.dropped != [3]int{1: 10} || errs.String() != "an error\n" {
			t.Errorf("credit %d, dropped %v, errors %q", credit, p.dropped, &errs)
		}
		p.lastly("last words\n")
		if !strings.HasSuffix(errs.String(), "last words\n") {
			t.Errorf("errors %q", &errs)
		}
	})
}

// Standard error may go the same way.
func TestUnreadErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := silent{make(chan struct{})}
		defer close(all.free)
		p := newPrinter(all, all, false)
		for stream := 1; stream <= 2; stream++ {
			p.print(printJob{stream: stream, data: []byte("x"), credit: func(int) {}})
		}
		p.hurry()
		p.close()
		if p.dropped != [3]int{1: 1, 2: 1} {
			t.Errorf("dropped %v", p.dropped)
		}
		p.lastly("nobody hears this")

		p = newPrinter(all, all, false) // where the errors were not tried before
		p.print(printJob{stream: 1, data: []byte("x"), credit: func(int) {}})
		p.hurry()
		p.close()
		p.lastly("nor this")
	})
}

// A reader who takes his time gets everything, however long.
func TestSlowReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := slow{every: unreadGrace * 9 / 10}
		p := newPrinter(&out, &out, false)
		p.hurry()
		for range 20 {
			p.print(printJob{stream: 1, data: []byte("line\n"), credit: func(int) {}})
		}
		p.close()
		if want := strings.Repeat("line\n", 20); out.got.String() != want || p.dropped != [3]int{} {
			t.Errorf("%d bytes of %d came, dropped %v", out.got.Len(), len(want), p.dropped)
		}
	})
}
