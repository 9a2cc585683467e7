package restore

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/gorun-mpi/gorun/cr/image"
	"github.com/gorun-mpi/gorun/cr/native/internal/pages"
	"github.com/gorun-mpi/gorun/cr/native/internal/state"
)

// memoryOf is what a restore of a chain, newest first, writes, one byte for each page.
func memoryOf(t rapid.TB, paths []string) string {
	c, err := openChain(image.Path(paths[0]), 0, func(seq int) image.Source { return image.Path(paths[len(paths)-seq]) })
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	windows, _, err := c.plan()
	if err != nil {
		t.Fatal(err)
	}
	var m fakeMemory
	if err := c.fill(&m, windows, nil); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(m.bytes)
}

// Whichever images of a chain are merged, from the newest on, a restore writes the same.
func TestMerge(t *testing.T) {
	const first, windows, width = 0xc000000000, 2, 12
	region := state.Region{Start: first, End: first + windows*pages.Window, Prot: 3}
	rapid.Check(t, func(r *rapid.T) {
		n := rapid.IntRange(1, 5).Draw(r, "images")
		paths := make([]string, n) // newest first
		for seq := 1; seq <= n; seq++ {
			kinds := []byte{0, pages.Data, pages.Zero, pages.Base}
			if seq == 1 {
				kinds = kinds[:3]
			}
			content := map[uint64][2]string{}
			for w := range windows {
				var list pages.List
				data := ""
				for page := range width {
					kind := rapid.SampledFrom(kinds).Draw(r, "page")
					if kind == pages.Data {
						data += string(rapid.ByteRange('A', 'Z').Draw(r, "byte"))
					}
					if kind != 0 {
						list.Add(kind, page, 1)
					}
				}
				if list.String() != "" {
					content[first+uint64(w)*pages.Window] = [2]string{list.String(), data}
				}
			}
			paths[n-seq] = writeImage(t, seq, testState(seq-1, region), content)
		}
		want := memoryOf(r, paths)
		many := rapid.IntRange(1, n).Draw(r, "merged")
		var from []image.Source
		for _, p := range paths[:many] {
			from = append(from, image.Path(p))
		}
		merged := filepath.Join(t.TempDir(), "merged.img")
		if _, err := Merge(image.Path(merged), n-many+1, n-many, from, image.Options{Passing: true, NoFolder: true, Workers: 1}); err != nil {
			r.Fatal(err)
		}
		if got := memoryOf(r, append([]string{merged}, paths[many:]...)); got != want {
			r.Errorf("%d of %d images merged:\n got %s\nwant %s", many, n, got, want)
		}
	})
}

// What does not belong together is not merged.
func TestMergeRefused(t *testing.T) {
	region := state.Region{Start: 0xc000000000, End: 0xc000002000, Prot: 3}
	full := image.Path(writeImage(t, 1, testState(0, region), nil))
	second := image.Path(writeImage(t, 2, testState(1, region), nil))
	fourth := image.Path(writeImage(t, 4, testState(3, region), nil))
	for _, c := range []struct {
		from []image.Source
		base int
		want string
	}{
		{nil, 0, "no image"},
		{[]image.Source{second}, 0, "builds on snapshot 1"},
		{[]image.Source{second, full}, 1, "builds on snapshot 0"},
		{[]image.Source{fourth, second}, 1, "where 3 of job job was wanted"},
		{[]image.Source{image.Path(t.TempDir() + "/none")}, 0, "no such file"},
	} {
		out := filepath.Join(t.TempDir(), "merged.img")
		if _, err := Merge(image.Path(out), 5, c.base, c.from, image.Options{NoFolder: true}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v on %d: %v, want %q", c.from, c.base, err, c.want)
		}
		if left, _ := filepath.Glob(out + "*"); len(left) > 0 {
			t.Errorf("%v is left", left)
		}
	}
}
