package stdio

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// Whatever the pieces in which a stream comes, nothing of it is lost, and what
// is passed on before the end of the stream ends with a whole line.
func TestSplitter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pieces := rapid.SliceOf(rapid.StringMatching(`[ab\n\r]{0,20}`)).Draw(t, "pieces")
		var s Splitter
		var got bytes.Buffer
		for _, p := range pieces {
			out := s.Feed([]byte(p))
			if len(out) > 0 && !strings.ContainsRune("\n\r", rune(out[len(out)-1])) {
				t.Fatalf("%q passed on, which is no whole line", out)
			}
			got.Write(out)
			if bytes.ContainsAny(s.Buf, "\n\r") {
				t.Fatalf("%q held back", s.Buf)
			}
		}
		got.Write(s.Rest())
		if want := strings.Join(pieces, ""); got.String() != want {
			t.Fatalf("%q became %q", want, got.String())
		}
	})
}

func TestSplitterLongLine(t *testing.T) {
	var s Splitter
	n := 0
	for range 3 * maxLine / 1000 {
		n += len(s.Feed(bytes.Repeat([]byte{'x'}, 1000)))
		if len(s.Buf) >= maxLine {
			t.Fatalf("%d bytes are held", len(s.Buf))
		}
	}
	if n < 2*maxLine {
		t.Errorf("only %d bytes were passed on", n)
	}
}

// A long line is passed on whole where lines are kept, whatever comes around it; one beyond the limit in parts.
func TestSplitterKeepsLongLines(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	long := strings.Repeat("y", 5*tapeMemory/2) + "\n"
	text := "first\n" + long + "last\n" + strings.Repeat("z", maxLine) + "\rhalf"
	for _, size := range []int{1000, 4096, OutputChunk} {
		s := Splitter{Keep: LongestLine}
		var got bytes.Buffer
		open := false
		pass := func(p []byte, more bool) {
			if end := bytes.IndexAny(p, lineEnds); more && end >= 0 || !more && end >= 0 && end != len(p)-1 {
				t.Fatalf("a line ends within a piece of it")
			}
			open = more
			got.Write(p)
		}
		emit := func(p []byte) {
			s.Long(pass)
			if open {
				t.Fatal("a line goes on, and nothing comes")
			}
			got.Write(p)
		}
		for rest := text; rest != ""; rest = rest[min(size, len(rest)):] {
			emit(s.Feed([]byte(rest[:min(size, len(rest))])))
			if len(s.Buf) > maxLine {
				t.Fatalf("%d bytes are in memory", len(s.Buf))
			}
		}
		emit(s.Rest())
		if got.String() != text {
			t.Fatalf("%d bytes came out as %d, in pieces of %d", len(text), got.Len(), size)
		}
	}
	const most = 2 << 20
	s, n := Splitter{Keep: most}, 0
	for range 2*most/OutputChunk + 1 {
		s.Feed(make([]byte, OutputChunk))
		s.Long(func(p []byte, _ bool) { n += len(p) })
	}
	if n < most || n > 2*most+maxLine {
		t.Errorf("of a line without end %d bytes were passed on", n)
	}
}

// While a line comes in pieces, what others print waits, in whatever order it comes, unless the rest never comes.
func TestPiecesOfALine(t *testing.T) {
	piece := func(rank int32, text string, more bool) Piece {
		return Piece{Rank: rank, Stream: 1, Data: []byte(text), More: more}
	}
	got := printed(t, true, piece(0, "a", true), piece(1, "b\n", false), piece(0, "a", true), piece(-1, "gorun: x\n", false), piece(0, "a\n", false), piece(2, "c\n", false))
	if want := "[0] aaa\n[1] b\ngorun: x\n[2] c\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	got = printed(t, false, piece(0, "a", true), piece(1, "b\n", false)) // and then the printer is closed
	if want := "a\nb\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	var out bytes.Buffer
	p := NewPrinter(&out, &out, false)
	written := make(chan bool, 2)
	for _, j := range []Piece{piece(0, "a", true), piece(1, "b\n", false)} {
		j.Credit = func(int) { written <- true }
		p.Print(j)
	}
	<-written
	p.Release([]int{0}) // its agent is lost
	<-written
	if err := p.Close(); err != nil || out.String() != "a\nb\n" {
		t.Errorf("%q, %v", &out, err)
	}
}

func printed(t *testing.T, tag bool, jobs ...Piece) string {
	t.Helper()
	var out bytes.Buffer
	p := NewPrinter(&out, &out, tag)
	credit := 0
	for _, j := range jobs {
		j.Credit = func(n int) { credit += n }
		p.Print(j)
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	want := 0
	for _, j := range jobs {
		want += len(j.Data) + FrameCost
	}
	if credit != want {
		t.Errorf("credit for %d bytes, want %d", credit, want)
	}
	return out.String()
}

func piece(rank int32, text string) Piece {
	return Piece{Rank: rank, Stream: 1, Data: []byte(text)}
}

func TestPrinter(t *testing.T) {
	for _, c := range []struct {
		tag  bool
		want string
		jobs []Piece
	}{
		{false, "a\nb\n", []Piece{piece(0, "a\n"), piece(1, "b\n")}},
		{false, "no newline", []Piece{piece(0, "no "), piece(0, "newline")}},
		{false, "half\nb\nrest", []Piece{piece(0, "half"), piece(1, "b\n"), piece(0, "rest")}},
		{true, "[0] a\n[0] b\n[12] c\n", []Piece{piece(0, "a\nb\n"), piece(12, "c\n")}},
		{true, "[0] 1%\r2%\rdone\n[1] x\n", []Piece{piece(0, "1%\r"), piece(0, "2%\rdone\n"), piece(1, "x\n")}},
		{true, "[0] half\n[1] b\n[0] rest\n", []Piece{piece(0, "half"), piece(1, "b\n"), piece(0, "rest\n")}},
	} {
		if got := printed(t, c.tag, c.jobs...); got != c.want {
			t.Errorf("tag %v: %q, want %q", c.tag, got, c.want)
		}
	}
}

// Lines of many ranks through splitters and printer come out whole.
func TestLinesStayWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const np = 3
		var in [np]string
		for r := range in {
			for i := range rapid.IntRange(0, 5).Draw(t, "lines") {
				in[r] += fmt.Sprintf("rank %d line %d %s\n", r, i, strings.Repeat("x", rapid.IntRange(0, 30).Draw(t, "len")))
			}
		}
		var out bytes.Buffer
		p := NewPrinter(&out, &out, false)
		var s [np]Splitter
		rest := in
		for rest != [np]string{} {
			r := rapid.IntRange(0, np-1).Draw(t, "rank")
			n := rapid.IntRange(0, len(rest[r])).Draw(t, "bytes")
			if data := s[r].Feed([]byte(rest[r][:n])); len(data) > 0 {
				p.Print(Piece{Rank: int32(r), Stream: 1, Data: data, Credit: func(int) {}})
			}
			rest[r] = rest[r][n:]
		}
		p.Close()
		var got [np]string
		for line := range strings.SplitAfterSeq(out.String(), "\n") {
			var r int
			if _, err := fmt.Sscanf(line, "rank %d ", &r); err == nil {
				got[r] += line
			} else if line != "" {
				t.Fatalf("mixed line %q", line)
			}
		}
		if got != in {
			t.Fatalf("%q came out as %q", in, got)
		}
	})
}

func TestWindow(t *testing.T) {
	w := NewWindow(10)
	if !w.Take(6) {
		t.Fatal("a free window refuses")
	}
	done := make(chan bool)
	go func() { done <- w.Take(6) }()
	select {
	case <-done:
		t.Fatal("more was taken than there is")
	default:
	}
	w.Give(2)
	if !<-done {
		t.Error("not let go on after give")
	}
	go func() { done <- w.Take(1000) }()
	w.Open()
	if <-done {
		t.Error("an ended window says that somebody wants it")
	}
}
