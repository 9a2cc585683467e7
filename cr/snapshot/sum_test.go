package snapshot

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"strings"
	"testing"
)

// newest is a schema as it is written now.
func newest(t testing.TB) []byte {
	s := schema()
	s.Format = Format
	p, err := s.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// Whichever bit of a schema is flipped, it is not taken for what was written.
func TestSchemaBits(t *testing.T) {
	p := newest(t)
	if s, err := ParseSchema(p); err != nil || !s.Digested() {
		t.Fatal(s, err)
	}
	for i := range p {
		for bit := range 8 {
			p[i] ^= 1 << bit
			if _, err := ParseSchema(p); !errors.Is(err, ErrSchema) && !errors.Is(err, ErrFormat) {
				t.Fatalf("bit %d of byte %d: %v\n%s", bit, i, err, p)
			}
			p[i] ^= 1 << bit
		}
	}
	_, body, _ := bytes.Cut(p, []byte(sumEnd))
	for name, p := range map[string]string{
		"without the sum":                  title + string(body),
		"an older format, without the sum": title + strings.Replace(string(body), fmt.Sprintf("format = %d", Format), "format = 7", 1) + "sum = \"\"\n",
		"an older format with a sum":       string(addSum(bytes.Replace(body, fmt.Appendf(nil, "format = %d", Format), []byte("format = 7"), 1))),
		"another program":                  strings.Replace(string(p), "/x/solver", "/x/s0lver", 1),
	} {
		if _, err := ParseSchema([]byte(p)); !errors.Is(err, ErrSchema) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What a forged schema makes the parser need is bounded by its ranks, not by its length.
func TestSchemaMemory(t *testing.T) {
	good, err := schema().Encode()
	if err != nil {
		t.Fatal(err)
	}
	const long = 24 << 20
	image := "[[images]]\nrank = 0\nfile = \"x\"\n"
	for name, p := range map[string]string{
		"images":       string(good) + strings.Repeat(image, long/len(image)),
		"places":       string(good) + strings.Repeat("[[placement]]\n", long/14),
		"copies":       string(good) + strings.Repeat("[[copies]]\n", long/11),
		"one array":    "a = [" + strings.Repeat("1,", long/2) + "]\n" + string(good),
		"one image":    string(good) + "[[images]]\nx = [" + strings.Repeat("1,", long/2) + "]\n",
		"keys":         string(good) + "[plan]\n" + strings.Repeat("a=''\n", long/5),
		"before a sum": strings.Repeat("\n", long) + string(good),
	} {
		in := []byte(p)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := ParseSchema(in)
		runtime.ReadMemStats(&after)
		if used := after.TotalAlloc - before.TotalAlloc; !errors.Is(err, ErrSchema) || used > 4*long {
			t.Errorf("%s: %d MB for %d, %.200v", name, used>>20, len(in)>>20, err)
		}
	}
}

// The lists of many ranks are read piece by piece.
func TestSchemaOfManyRanks(t *testing.T) {
	s := schema()
	s.Format, s.NP, s.Placement, s.Images = Format, 5000, nil, nil
	for rank := range s.NP {
		s.Placement = append(s.Placement, Placement{rank, rank / 64, "n\n[[images]]"})
		s.Images = append(s.Images, Image{Rank: rank, File: ImageFile(rank), Size: int64(rank + 1), Digest: strings.Repeat("12", 32), Codec: "none"})
	}
	p, err := s.Encode()
	if err != nil {
		t.Fatal(err)
	}
	got, err := ParseSchema(p)
	if err != nil || !reflect.DeepEqual(got, s) {
		t.Fatal(len(p), err)
	}
}
