package stdio

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// A file is cut to what a rank had printed, whatever its lines are and with and without tags.
func TestFilesBegin(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		tag := rapid.Bool().Draw(t, "tag")
		f, err := OpenFiles(dir, "job", 2, false, func(err error) { t.Error(err) })
		if err != nil {
			t.Fatal(err)
		}
		f.Tag = tag
		p := NewPrinter(nil, nil, tag)
		p.Files = f
		text := ""
		print := func(s string) {
			if s != "" {
				p.Print(Piece{Rank: 1, Stream: 1, Data: []byte(s), Credit: func(int) {}})
				text += s
			}
		}
		piece := rapid.StringMatching(`([a\n\[]|\[1\] ){0,12}`)
		for _, s := range rapid.SliceOfN(piece, 0, 5).Draw(t, "before") {
			print(s)
		}
		to := rapid.IntRange(0, len(text)).Draw(t, "to")
		p.Print(Piece{Rank: -1, Stream: 1, Credit: func(int) {}, Do: func() {
			if err := f.Begin(1, []int64{0, int64(to)}); err != nil {
				t.Error(err)
			}
		}})
		text = text[:to]
		for _, s := range rapid.SliceOfN(piece, 0, 3).Draw(t, "after") {
			print(s)
		}
		if err := p.Close(); err != nil {
			t.Fatal(err)
		}
		if began := f.Began(1, 1); began != int64(to) {
			t.Fatalf("it began at %d, want %d", began, to)
		}
		f.Close()
		got, err := os.ReadFile(filepath.Join(dir, "rank.1.out"))
		want := text
		if tag {
			want = ""
			for line := range strings.SplitAfterSeq(text, "\n") {
				if line != "" {
					want += "[1] " + line
				}
			}
		}
		if err != nil || string(got) != want {
			t.Fatalf("%q, %v, want %q", got, err, want)
		}
	})
}
