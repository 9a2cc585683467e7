package self

import (
	"errors"
	"math"
	"math/big"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/gorun-mpi/gorun/cr/image"
	"github.com/gorun-mpi/gorun/internal/rank/engine"
)

// save writes an image of the registry and opens it again.
func save(t testing.TB, r *Registry, msgs []engine.Saved, opt image.Options) *Restore {
	t.Helper()
	c, err := r.Copy()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Release()
	path := filepath.Join(t.TempDir(), "img")
	if _, err := c.Write(image.Path(path), image.LocalMeta(), msgs, opt, nil, nil); err != nil {
		t.Fatal(err)
	}
	s, err := Open(image.Path(path))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func register(t testing.TB, r *Registry, name string, ptr any) {
	t.Helper()
	if err := r.Register(name, ptr); err != nil {
		t.Fatal(err)
	}
}

type cell struct {
	A    int8
	B    float64
	C    complex64
	on   bool
	D    [3]uint16
	_    int32
	Name [4]byte
}

type tree struct {
	Label string
	Kids  []tree
	Count map[string]int
}

type state struct {
	Step    int
	name    string
	Cells   []cell
	Rows    [][]float64
	Index   map[string][]int32
	ByCell  map[[2]int32]cell
	Started time.Time
	Big     big.Int
	Tree    tree
	Arr     [2]string
	Empty   []int
	Nil     []int
	NilMap  map[int]int
}

func sample() state {
	return state{
		Step: -5, name: "hidden", Cells: []cell{{A: 1, B: math.Pi, C: 2 + 3i, on: true, D: [3]uint16{1, 2, 3}}, {A: -1, Name: [4]byte{9}}},
		Rows:    [][]float64{{1, 2}, {}, nil, {3}},
		Index:   map[string][]int32{"b": {1}, "a": {2, 3}, "": nil},
		ByCell:  map[[2]int32]cell{{1, 2}: {A: 7}, {-1, 5}: {on: true}},
		Started: time.Date(2026, 11, 21, 1, 2, 3, 4, time.UTC), Big: *big.NewInt(0).Lsh(big.NewInt(-7), 300),
		Tree: tree{"root", []tree{{"kid", nil, map[string]int{"x": 1}}}, nil},
		Arr:  [2]string{"x", ""}, Empty: []int{},
	}
}

// both runs a test with images of this machine's byte order and of the other.
func both(t *testing.T, f func(t *testing.T, r *Registry)) {
	t.Run("native", func(t *testing.T) { f(t, &Registry{}) })
	t.Run("foreign", func(t *testing.T) { f(t, &Registry{swap: true}) })
}

func TestEverythingComesBack(t *testing.T) {
	both(t, func(t *testing.T, r *Registry) {
		st := sample()
		x := []float64{1, math.Inf(-1), math.Copysign(0, -1)}
		big := make([]int32, 1_000_000)
		for i := range big {
			big[i] = int32(i * 7)
		}
		s, c, b, f := "text", 1+2i, true, float32(1.5)
		vars := map[string]any{"st": &st, "x": &x, "big": &big, "s": &s, "c": &c, "b": &b, "f": &f}
		for n, p := range vars {
			register(t, r, n, p)
		}
		got := save(t, r, nil, image.Options{Codec: image.Snappy})
		for n, p := range vars {
			fresh := reflect.New(reflect.TypeOf(p).Elem())
			if err := got.Fill(n, fresh.Interface()); err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(fresh.Interface(), p) {
				t.Errorf("%s: %+v, want %+v", n, fresh.Elem(), reflect.ValueOf(p).Elem())
			}
		}
		if left := got.Unclaimed(); len(left) != 0 {
			t.Error("unclaimed:", left)
		}
	})
}

func TestNaNBitsAreKept(t *testing.T) {
	both(t, func(t *testing.T, r *Registry) {
		odd := []float64{math.Float64frombits(0x7ff0000000000001), math.Float64frombits(0xfff8dead0000beef)}
		small := []float32{math.Float32frombits(0x7fa00001)}
		register(t, r, "odd", &odd)
		register(t, r, "small", &small)
		s := save(t, r, nil, image.Options{})
		var o []float64
		var f []float32
		if err := errors.Join(s.Fill("odd", &o), s.Fill("small", &f)); err != nil {
			t.Fatal(err)
		}
		for i := range odd {
			if math.Float64bits(o[i]) != math.Float64bits(odd[i]) {
				t.Errorf("%x", math.Float64bits(o[i]))
			}
		}
		// Through memory: a conversion in a register could quieten it.
		if *(*uint32)(unsafe.Pointer(&f[0])) != 0x7fa00001 {
			t.Errorf("%x", *(*uint32)(unsafe.Pointer(&f[0])))
		}
	})
}

func TestTypeStrings(t *testing.T) {
	type celsius float64
	type list []list
	for _, c := range []struct {
		v    any
		want string
	}{
		{0, "int64"}, {uint(0), "uint64"}, {int64(0), "int64"}, {celsius(0), "float64"}, {true, "bool"},
		{[]celsius{}, "[]float64"}, {map[string]int{}, "map[string]int64"}, {[3]complex64{}, "[3]complex64"},
		{struct {
			A int64
			B []string
		}{}, "struct{A int64; B []string}"},
		{tree{}, "struct{Label string; Kids []^2; Count map[string]int64}"},
		{list{}, "[]^1"}, {time.Time{}, "binary(time.Time)"}, {struct{}{}, "struct{}"},
	} {
		got, err := TypeString(reflect.TypeOf(c.v))
		if err != nil || got != c.want {
			t.Errorf("%T: %q, %v, want %q", c.v, got, err, c.want)
		}
	}
}

func TestRefusals(t *testing.T) {
	type node struct {
		V    int
		Next *node
	}
	r := &Registry{}
	var p *int
	var a any = 1
	for _, c := range []struct {
		ptr  any
		want string
	}{
		{5, "not a pointer"}, {nil, "not a pointer"}, {(*int)(nil), "nil *int"}, {&p, "*int cannot be saved"},
		{&node{}, "field Next of self.node: *self.node cannot be saved in a portable image: a pointer"},
		{&a, "interface"}, {new(chan int), "channel"}, {new(func()), "function"}, {new(uintptr), "address"},
		{&[]map[string]*int{}, "*int"}, {&map[any]int{}, "interface"},
	} {
		err := r.Register("v", c.ptr)
		if !errors.Is(err, ErrKind) || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), `"v"`) {
			t.Errorf("%T: %v", c.ptr, err)
		}
	}
	x := 1
	register(t, r, "v", &x)
	if err := r.Register("v", &x); !errors.Is(err, ErrDuplicate) {
		t.Error(err)
	}
	if r.Register("", &x) == nil || r.Register(strings.Repeat("n", maxName+1), &x) == nil {
		t.Error("bad names accepted")
	}
}

func TestValueThatContainsItself(t *testing.T) {
	type list []list
	l := make(list, 1)
	l[0] = l
	r := &Registry{}
	register(t, r, "l", &l)
	if _, err := r.Copy(); !errors.Is(err, ErrTooDeep) || !strings.Contains(err.Error(), `"l"`) {
		t.Fatal(err)
	}
}

func TestMismatchNamesBothTypes(t *testing.T) {
	r := &Registry{}
	x := []float64{1}
	register(t, r, "x", &x)
	s := save(t, r, nil, image.Options{})
	err := s.Fill("x", new([]int32))
	if !errors.Is(err, ErrType) || !strings.Contains(err.Error(), "[]float64") || !strings.Contains(err.Error(), "[]int32") || !strings.Contains(err.Error(), `"x"`) {
		t.Error(err)
	}
	if err := s.Fill("y", new(int)); !errors.Is(err, ErrMissing) || !strings.Contains(err.Error(), `"y"`) {
		t.Error(err)
	}
	if u := s.Unclaimed(); len(u) != 1 || u[0] != "x" {
		t.Error(u)
	}
	if err := s.Fill("x", new(*int)); !errors.Is(err, ErrKind) {
		t.Error(err)
	}
}

func TestSlicesUseTheirMemoryAgain(t *testing.T) {
	r := &Registry{}
	x := []float64{1, 2, 3}
	flat := []float64{1, 2, 3, 4}
	rows := [][]float64{flat[:2], flat[2:]}
	register(t, r, "x", &x)
	register(t, r, "rows", &rows)
	s := save(t, r, nil, image.Options{})

	room := make([]float64, 1, 10)
	first := &room[0]
	if err := s.Fill("x", &room); err != nil || len(room) != 3 || &room[0] != first {
		t.Fatal(room, err)
	}
	flat2 := make([]float64, 4)
	rows2 := [][]float64{flat2[:2], flat2[2:]}
	if err := s.Fill("rows", &rows2); err != nil || !reflect.DeepEqual(flat2, flat) {
		t.Fatal(flat2, err)
	}
	// A row that is shorter than what was saved must not run over its neighbour.
	flat3 := []float64{9, 9, 9, 9}
	rows3 := [][]float64{flat3[:1], flat3[1:3]}
	if err := s.Fill("rows", &rows3); err != nil || !reflect.DeepEqual(rows3, rows) || flat3[0] != 9 || flat3[3] != 9 {
		t.Fatal(flat3, rows3, err)
	}
}

func TestCopyIsOfOneMoment(t *testing.T) {
	r := &Registry{}
	x := make([]float64, 300_000)
	m := map[string]int{"a": 1}
	register(t, r, "x", &x)
	register(t, r, "m", &m)
	c, err := r.Copy()
	if err != nil {
		t.Fatal(err)
	}
	for i := range x {
		x[i] = 1
	}
	m["a"] = 2
	path := filepath.Join(t.TempDir(), "img")
	if _, err := c.Write(image.Path(path), image.LocalMeta(), nil, image.Options{}, nil, nil); err != nil {
		t.Fatal(err)
	}
	c.Release()
	s, err := Open(image.Path(path))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var y []float64
	var n map[string]int
	if err := errors.Join(s.Fill("x", &y), s.Fill("m", &n)); err != nil {
		t.Fatal(err)
	}
	for _, v := range y {
		if v != 0 {
			t.Fatal("the copy saw a later value")
		}
	}
	if n["a"] != 1 {
		t.Fatal(n)
	}
}

func TestImagesAreDeterministic(t *testing.T) {
	var images [2][]byte
	for i := range images {
		r := &Registry{}
		st := sample()
		st.Index = map[string][]int32{}
		for k := range 100 {
			st.Index[strings.Repeat("k", (k*37)%101)] = make([]int32, k*300)
		}
		register(t, r, "st", &st)
		c, err := r.Copy()
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range c.sections {
			images[i] = append(images[i], s.data...)
		}
		c.Release()
	}
	if string(images[0]) != string(images[1]) {
		t.Fatal("the same state gave two different images")
	}
}

func TestArenaIsUsedAgain(t *testing.T) {
	r := &Registry{}
	x := make([]byte, 5<<20)
	register(t, r, "x", &x)
	if err := r.Prepare(); err != nil {
		t.Fatal(err)
	}
	prepared := r.spare
	for i := range 3 {
		x[len(x)-1] = byte(i + 1)
		c, err := r.Copy()
		if err != nil {
			t.Fatal(err)
		}
		if c.arena != prepared {
			t.Fatal("new memory")
		}
		if d := c.sections[0].data; len(d) != len(x) || d[len(d)-1] != byte(i+1) || c.Bytes() != uint64(len(x)) {
			t.Fatal("wrong copy")
		}
		c.Release()
		c.Release()
	}
	x = make([]byte, 50<<20)
	c, err := r.Copy()
	if err != nil {
		t.Fatal(err)
	}
	second, err := r.Copy() // while the first is still held
	if err != nil || &second.arena.mem[0] == &c.arena.mem[0] {
		t.Fatal(err)
	}
	c.Release()
	second.Release()
	r.Close()
	if r.spare != nil {
		t.Fatal("kept after Close")
	}
}

func TestMessages(t *testing.T) {
	both(t, func(t *testing.T, r *Registry) {
		in := []engine.Saved{
			{Ctx: 1 << 60, Source: 3, Tag: 7, Type: 13, Data: []byte("abc")},
			{Ctx: 2, Source: 0, Tag: -5, Type: 1 << 31, Foreign: true, Data: []byte{}},
			{Ctx: 1 << 60, Source: 3, Tag: 7, Type: 13, Data: make([]byte, 100_000)},
		}
		got := save(t, r, in, image.Options{}).Messages()
		if len(got) != len(in) {
			t.Fatal(len(got))
		}
		for i := range in {
			want := in[i]
			// Their bytes are not touched, so what was ours still is, in
			// whichever order the rest of the image is.
			if !reflect.DeepEqual(got[i], want) {
				t.Errorf("message %d: %+v, want %+v", i, got[i], want)
			}
		}
	})
}

func TestForeignMachineSeesForeignMessages(t *testing.T) {
	in := []engine.Saved{{Ctx: 1, Source: 1, Data: []byte{1}}, {Ctx: 1, Source: 1, Foreign: true, Data: []byte{2}}}
	// The file as a machine of the other byte order writes it.
	p := encodeMessages(in, byteOrder(!image.HostBigEndian), false)
	out, err := decodeMessages(p, byteOrder(!image.HostBigEndian), true)
	if err != nil || !out[0].Foreign || out[1].Foreign {
		t.Fatal(out, err)
	}
}

func TestOtherBackendIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "img")
	for _, m := range []image.Meta{{Backend: "native", Format: 1}, {Backend: Backend, Format: Format + 1}} {
		w, err := image.Create(path, m, image.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Commit(); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(image.Path(path)); !errors.Is(err, ErrBackend) || !strings.Contains(err.Error(), path) {
			t.Error(err)
		}
	}
}

func TestDamageNamesFileAndVariable(t *testing.T) {
	r := &Registry{}
	x := make([]uint64, 50_000)
	for i := range x {
		x[i] = uint64(i) * 0x9E3779B97F4A7C15
	}
	register(t, r, "x", &x)
	s := save(t, r, nil, image.Options{})
	path := s.r.Path()
	p, _ := os.ReadFile(path)
	p[100_000] ^= 1
	os.WriteFile(path, p, 0o600)
	var y []uint64
	err := s.Fill("x", &y)
	if !errors.Is(err, image.ErrCorrupt) || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), `"x"`) {
		t.Fatal(err)
	}
}

func TestCanceledWriteLeavesNothing(t *testing.T) {
	r := &Registry{}
	x := make([]byte, 4<<20)
	x[0] = 1
	register(t, r, "x", &x)
	c, err := r.Copy()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Release()
	cancel := make(chan struct{})
	close(cancel)
	dir := t.TempDir()
	if _, err := c.Write(image.Path(filepath.Join(dir, "img")), image.LocalMeta(), nil, image.Options{}, nil, cancel); !errors.Is(err, image.ErrCanceled) {
		t.Fatal(err)
	}
	if es, _ := os.ReadDir(dir); len(es) != 0 {
		t.Fatal(es)
	}
}
