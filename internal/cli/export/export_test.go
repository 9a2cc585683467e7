package export

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/gorun-mpi/gorun/cr/image"
	"github.com/gorun-mpi/gorun/cr/self"
)

// written makes an image of variables, in the order of this machine.
func written(t *testing.T, vars map[string]any) *image.Reader {
	t.Helper()
	var reg self.Registry
	defer reg.Close()
	for name, ptr := range vars {
		if err := reg.Register(name, ptr); err != nil {
			t.Fatal(err)
		}
	}
	c, err := reg.Copy()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Release()
	path := filepath.Join(t.TempDir(), "image")
	if _, err := c.Write(image.Path(path), image.LocalMeta(), nil, image.Options{}, nil, nil); err != nil {
		t.Fatal(err)
	}
	r, err := image.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

func readAll(t *testing.T, r *image.Reader) map[string]*Array {
	t.Helper()
	all := map[string]*Array{}
	for _, s := range r.Sections() {
		if !Variable(s) {
			continue
		}
		a, err := Read(r, s)
		if err != nil {
			t.Fatal(err)
		}
		all[s.Name] = a
	}
	return all
}

func TestShapes(t *testing.T) {
	x, m, rows := []float64{1, 2, 3}, [][3]float32{{1, 2, 3}, {4, 5, 6}}, [][]int16{{1, 2}, {3, 4}, {5, 6}}
	n, none, block, empty := 7, []int32(nil), [2][2]complex64{{1, 2i}, {3, 4}}, []uint8{}
	all := readAll(t, written(t, map[string]any{"x": &x, "m": &m, "rows": &rows, "n": &n, "none": &none, "block": &block, "empty": &empty}))
	for name, want := range map[string]string{
		"x": "f8 [3] 24", "m": "f4 [2 3] 24", "rows": "i2 [3 2] 12", "n": "i8 [] 8", "none": "i4 [0] 0", "block": "c8 [2 2] 32", "empty": "u1 [0] 0",
	} {
		a := all[name]
		if got := fmt.Sprintf("%c%d %v %d", a.Class, a.Size, a.Shape, len(a.Data)); got != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
	if got := all["rows"].Data; !bytes.Equal(got, bytesOf(t, []int16{1, 2, 3, 4, 5, 6})) {
		t.Errorf("rows: %v", got)
	}
}

func bytesOf(t *testing.T, v any) []byte {
	t.Helper()
	b, err := binary.Append(nil, binary.NativeEndian, v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestNotNumbers(t *testing.T) {
	s, m, ragged, st := "text", map[string]int{}, [][]int{{1}, {2, 3}}, []struct{ A int }{{1}}
	r := written(t, map[string]any{"s": &s, "m": &m, "ragged": &ragged, "struct": &st})
	n := 0
	for _, sec := range r.Sections() {
		if Variable(sec) {
			n++
			if _, err := Read(r, sec); !errors.Is(err, ErrKind) || !strings.Contains(err.Error(), sec.Name) {
				t.Errorf("%s: %v", sec.Name, err)
			}
		}
	}
	if n != 4 {
		t.Errorf("%d variables", n)
	}
}

var npyHead = regexp.MustCompile(`^\{'descr': '([<>|])([biufc])(\d+)', 'fortran_order': False, 'shape': \(((?:\d+,)*)\), \} *\n$`)

// parseNPY is a reader for the round trip.
func parseNPY(b []byte) (*Array, error) {
	if len(b) < 10 || string(b[:8]) != "\x93NUMPY\x01\x00" {
		return nil, errors.New("magic")
	}
	end := 10 + int(binary.LittleEndian.Uint16(b[8:]))
	if end > len(b) || end%64 != 0 {
		return nil, fmt.Errorf("head ends at %d", end)
	}
	m := npyHead.FindSubmatch(b[10:end])
	if m == nil {
		return nil, fmt.Errorf("head %q", b[10:end])
	}
	a := &Array{Class: Class(m[2][0]), BigEndian: m[1][0] == '>', Shape: []uint64{}, Data: b[end:]}
	a.Size, _ = strconv.Atoi(string(m[3]))
	for _, n := range strings.Split(strings.TrimSuffix(string(m[4]), ","), ",") {
		if v, err := strconv.ParseUint(n, 10, 64); err == nil {
			a.Shape = append(a.Shape, v)
		}
	}
	return a, nil
}

// anyArray draws an array.
func anyArray(t *rapid.T) *Array {
	kind := rapid.SampledFrom([]string{"bool", "int8", "int16", "int32", "int64", "uint8", "uint64", "float32", "float64", "complex64", "complex128"}).Draw(t, "kind")
	e := elements[kind]
	a := &Array{Name: kind, Class: e.class, Size: e.size, BigEndian: e.size > 1 && rapid.Bool().Draw(t, "big"), Shape: rapid.SliceOfN(rapid.Uint64Range(0, 5), 0, 4).Draw(t, "shape")}
	n := uint64(e.size)
	for _, d := range a.Shape {
		n *= d
	}
	a.Data = rapid.SliceOfN(rapid.Byte(), int(n), int(n)).Draw(t, "data")
	return a
}

func TestNPYRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := anyArray(t)
		var b bytes.Buffer
		if err := WriteNPY(&b, a); err != nil {
			t.Fatal(err)
		}
		got, err := parseNPY(b.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		if got.Class != a.Class || got.Size != a.Size || got.BigEndian != a.BigEndian || fmt.Sprint(got.Shape) != fmt.Sprint(a.Shape) || !bytes.Equal(got.Data, a.Data) {
			t.Fatalf("%+v came back as %+v", a, got)
		}
	})
}

// FuzzFill reads types and streams of values, which come from files: it does not fail, and what it takes has the shape it says.
func FuzzFill(f *testing.F) {
	f.Add("[][]float64", binary.LittleEndian.AppendUint64(nil, 0), false, false)
	f.Add("[][2]int16", []byte{1, 2, 3, 4}, true, true)
	f.Add("[][]uint8", append(words(2, 1), append([]byte{7}, append(words(1), 9)...)...), false, false)
	f.Add("[][][0]bool", words(3, undefined, 0, 0), false, false)
	f.Add("[9223372036854775807][4]float64", []byte{}, false, false)
	f.Fuzz(func(t *testing.T, typ string, data []byte, bare, big bool) {
		p, err := parse(typ)
		if err != nil {
			return
		}
		a := &Array{Class: p.class, Size: p.size, BigEndian: big, Data: data}
		if a.fill(p, bare) != nil {
			return
		}
		n := uint64(a.Size)
		for _, d := range a.Shape {
			n *= d
		}
		if n != uint64(len(a.Data)) {
			t.Errorf("%s of shape %v has %d bytes", typ, a.Shape, len(a.Data))
		}
	})
}

func TestFileName(t *testing.T) {
	for name, want := range map[string]string{"x": "x", "a/b": "a%2Fb", "100%": "100%25", "..": "%2E.", "é\n": "é%0A", "file log.txt": "file log.txt"} {
		if got := FileName(name); got != want {
			t.Errorf("%q is %q, want %q", name, got, want)
		}
	}
}

// tool finds a program of another package. In CI it must be there.
func tool(t *testing.T, name, debian string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil && os.Getenv("CI") == "true" {
		t.Fatalf("%v: .ci/run installs it", err)
	}
	if err != nil {
		t.Skipf("it compares with %s (Debian: %s)", name, debian)
	}
	return path
}

// samples are arrays of all classes, in both orders.
func samples() []*Array {
	all := []*Array{{Name: "empty", Class: Int, Size: 4, Shape: []uint64{0}}, {Name: "one/number", Class: Float, Size: 8, Data: binary.LittleEndian.AppendUint64(nil, math.Float64bits(-2.5))}}
	for kind, e := range elements {
		for _, big := range []bool{false, true} {
			a := &Array{Name: fmt.Sprint(kind, big), Class: e.class, Size: e.size, BigEndian: big, Shape: []uint64{2, 3}}
			for i := range 6 * e.size {
				a.Data = append(a.Data, byte(i%7*3))
			}
			if e.class == Bool {
				a.Data = []byte{0, 1, 1, 0, 1, 0}
			}
			all = append(all, a)
		}
	}
	return all
}

// TestNumPy reads what was written with NumPy.
func TestNumPy(t *testing.T) {
	python := tool(t, "/usr/bin/python3", "python3-numpy")
	if out, err := exec.Command(python, "-c", "import numpy").CombinedOutput(); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("numpy: %v\n%s", err, out)
		}
		t.Skip("it compares with NumPy (Debian: python3-numpy)")
	}
	dir := t.TempDir()
	var want strings.Builder
	for i, a := range samples() {
		f, err := os.Create(filepath.Join(dir, fmt.Sprintf("%02d.npy", i)))
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(WriteNPY(f, a), f.Close()); err != nil {
			t.Fatal(err)
		}
		order := map[bool]string{false: "<", true: ">"}[a.BigEndian]
		if a.Size == 1 {
			order = "|"
		}
		shape := strings.ReplaceAll(strings.Trim(fmt.Sprint(a.Shape), "[]"), " ", ",")
		fmt.Fprintf(&want, "%s%c%d %s %x\n", order, a.Class, a.Size, shape, a.Data)
	}
	// Python's own "=" is the order of this machine.
	script := `
import glob, sys, numpy
for path in sorted(glob.glob(sys.argv[1] + "/*.npy")):
    a = numpy.load(path, allow_pickle=False)
    print(a.dtype.str, ",".join(map(str, a.shape)), a.tobytes().hex())`
	out, err := exec.Command(python, "-c", script, dir).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if string(out) != want.String() {
		t.Errorf("NumPy reads\n%s\nwant\n%s", out, want.String())
	}
}

// TestH5Dump reads what was written with h5dump of the HDF5 library: types, shapes and bytes.
func TestH5Dump(t *testing.T) {
	h5dump := tool(t, "h5dump", "hdf5-tools")
	dir := t.TempDir()
	path := filepath.Join(dir, "all.h5")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	h := NewHDF5(f)
	for _, a := range samples() {
		if err := h.Add(a); err != nil {
			t.Fatal(err)
		}
	}
	if err := h.Add(samples()[0]); err == nil {
		t.Error("a name is taken twice")
	}
	if err := errors.Join(h.Close(), f.Close()); err != nil {
		t.Fatal(err)
	}
	head, err := exec.Command(h5dump, "-H", path).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, head)
	}
	for _, a := range samples() {
		name := FileName(a.Name)
		of := section(string(head), name)
		for _, want := range []string{typeInDump(a), shapeInDump(a)} {
			if !strings.Contains(of, want) {
				t.Errorf("%s: no %s in %s", name, want, of)
			}
		}
		if len(a.Data) == 0 {
			continue
		}
		raw := filepath.Join(dir, "raw")
		if out, err := exec.Command(h5dump, "-d", "/"+name, "-b", "FILE", "-o", raw, path).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", name, err, out)
		}
		if got, err := os.ReadFile(raw); err != nil || !bytes.Equal(got, a.Data) {
			t.Errorf("%s: h5dump reads %x (%v), want %x", name, got, err, a.Data)
		}
	}
}

// section is the part of a dump about one dataset.
func section(dump, name string) string {
	_, rest, _ := strings.Cut(dump, `DATASET "`+name+`" {`)
	of, _, _ := strings.Cut(rest, "DATASET")
	return of
}

func typeInDump(a *Array) string {
	order := map[bool]string{false: "LE", true: "BE"}[a.BigEndian]
	float := func(size int) string { return fmt.Sprintf("H5T_IEEE_F%d%s", 8*size, order) }
	switch a.Class {
	case Float:
		return float(a.Size)
	case Complex:
		return float(a.Size/2) + ` "r"`
	case Int:
		return fmt.Sprintf("H5T_STD_I%d%s", 8*a.Size, order)
	}
	return fmt.Sprintf("H5T_STD_U%d%s", 8*a.Size, order)
}

func shapeInDump(a *Array) string {
	if len(a.Shape) == 0 {
		return "SCALAR"
	}
	s := strings.ReplaceAll(strings.Trim(fmt.Sprint(a.Shape), "[]"), " ", ", ")
	return fmt.Sprintf("SIMPLE { ( %s ) /", s)
}
