package parcel

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/gorun-mpi/gorun/cr/snapshot"
)

// summed gives a parcel the sums that it ought to have, whatever is in it.
func summed(all []member) []member {
	var sums []byte
	for _, m := range all[:len(all)-1] {
		sums = fmt.Appendf(sums, "%x  %s\n", sha256.Sum256(m.text), m.Name)
	}
	all[len(all)-1].text = sums
	return all
}

// FuzzImport takes in whole parcels whose compression and sums are right, so that what stands behind them is reached:
// manifest, schema, image and their order.
func FuzzImport(f *testing.F) {
	_, s := chain(f, 300, "")
	whole := unpacked(f, written(f, s))
	first := func(suffix string) int {
		return slices.IndexFunc(whole, func(m member) bool { return strings.HasSuffix(m.Name, suffix) })
	}
	manifest, schema, img := 0, first("3/"+snapshot.SchemaFile), first("3/rank-00001.img")
	f.Add(whole[manifest].text, whole[schema].text, whole[img].text, whole[img].Name, byte(tar.TypeReg), 0, 0)
	f.Add(whole[manifest].text, whole[schema].text, whole[img].text, "/etc/passwd", byte(tar.TypeSymlink), 3, 1)
	old := unsummed(whole[schema].text)
	f.Add(whole[manifest].text, old, whole[img].text, whole[img].Name, byte(tar.TypeReg), 0, 0)
	root := memory(f)
	f.Fuzz(func(t *testing.T, m, s, i []byte, name string, kind byte, from, to int) {
		all := slices.Clone(whole)
		all[manifest].text, all[schema].text = m, s
		all[img].text, all[img].Name, all[img].Typeflag = i, name, kind
		if from = from & 0xff; from < len(all)-1 { // a member elsewhere, or twice
			all = slices.Insert(all, (to&0xff)%len(all), all[from])
		}
		p, err := pack(summed(all))
		if err != nil {
			return // no name or kind that an archive can have
		}
		dir, err := os.MkdirTemp(root, "")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(dir)
		c := open(t, dir)
		got, err := Import(c, bytes.NewReader(p), Options{})
		if err != nil {
			if left, _ := c.Jobs(); len(left) > 0 {
				t.Fatalf("%v, and %v is there", err, left)
			}
			return
		}
		if err := got.Verify(nil); err != nil {
			t.Fatalf("taken in, and not whole: %v", err)
		}
	})
}

// unsummed is the schema as a gorun wrote it that had no sums yet.
func unsummed(text []byte) []byte {
	lines := strings.SplitAfter(string(text), "\n")
	return []byte(lines[0] + strings.Replace(strings.Join(lines[2:], ""), fmt.Sprintf("format = %d\n", snapshot.Format), "format = 7\n", 1))
}

// A parcel of an older gorun, whose schemas have no sums, is taken in, and says so. Another sum than the schema's
// is refused, though those of the parcel are right.
func TestSums(t *testing.T) {
	_, s := chain(t, 300, "")
	whole := unpacked(t, written(t, s))
	for name, change := range map[string]func(text []byte) []byte{
		"older":   unsummed,
		"altered": func(text []byte) []byte { return bytes.Replace(text, []byte("/tmp"), []byte("/tmq"), 1) },
	} {
		all := slices.Clone(whole)
		for i := range all {
			if strings.HasSuffix(all[i].Name, snapshot.SchemaFile) {
				all[i].text = change(all[i].text)
			}
		}
		d := open(t, memory(t))
		got, err := Import(d, bytes.NewReader(packed(t, summed(all))), Options{})
		switch {
		case name == "altered" && (!errors.Is(err, ErrParcel) || !errors.Is(err, snapshot.ErrAltered)):
			t.Errorf("%s: %v", name, err)
		case name == "older" && (err != nil || got.Schema.Digested() || got.Verify(nil) != nil):
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A small parcel cannot have more of a schema than its ranks need.
func TestBomb(t *testing.T) {
	_, s := chain(t, 300, "")
	for name, more := range map[string]string{"images": "[[images]]\n", "one table": "[plan]\nx = '", "nothing": "\n"} {
		all := unpacked(t, written(t, s))
		all[1].text = append(unsummed(all[1].text), strings.Repeat(more, 64<<20/len(more))...)
		p := packed(t, summed(all))
		d := open(t, memory(t))
		if _, err := Import(d, bytes.NewReader(p), Options{}); !errors.Is(err, ErrParcel) || len(p) > 64<<10 {
			t.Errorf("%s: %d bytes: %.300v", name, len(p), err)
		}
		empty(t, d)
	}
}
