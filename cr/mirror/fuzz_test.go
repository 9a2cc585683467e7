package mirror

import (
	"bytes"
	"testing"

	"github.com/gorun-mpi/gorun/cr/mirror/internal/machine"
	"github.com/gorun-mpi/gorun/internal/storage/twoslots"
)

func FuzzHead(f *testing.F) {
	for _, h := range []head{
		{To: "x", Is: isMsg, Msg: &machine.Msg{Kind: machine.Report, Held: []machine.Held{{Name: machine.Image(3)}}}},
		{To: "x", Is: isPart, Name: machine.Name{Of: "0,3", Parity: 1}, Part: 1, Size: 10, Cut: twoslots.Cut{Life: 1, Seq: 2}},
		{To: "x", Is: isSame, Name: machine.Image(3), Base: true, Size: 3 << 20, Off: 1 << 20, Run: 2 << 20},
		{To: "x", Is: isPart, Name: machine.Name{Of: "0,3", Parity: 1}, Base: true, Size: 5, Span: 10},
		{To: "x", Is: isWant, Name: machine.Image(0), Call: 7}, {To: "x", Is: isEnd, Meta: &meta{Size: 3, Sums: []uint32{1}}},
	} {
		f.Add(h.encode(), 0)
		f.Add(h.encode(), 10)
	}
	f.Fuzz(func(t *testing.T, b []byte, body int) {
		h, err := decode(b, body)
		if err != nil {
			return
		}
		switch h.Is {
		case isPart, isPiece:
			if h.Off+int64(body) > h.length() || body < 0 || h.Part >= len(h.Name.Members()) {
				t.Errorf("%+v with %d bytes", h, body)
			}
		case isSame:
			if h.Off+h.Run > h.Size || h.Run <= 0 || body != 0 || h.Part >= len(h.Name.Members()) {
				t.Errorf("%+v with %d bytes", h, body)
			}
		}
	})
}

// An image that was garbled is refused, and never sets a region to something else than it holds.
func FuzzUnpack(f *testing.F) {
	step, x := 3, []uint16{1, 2, 3}
	regions := func() (all []region) {
		for name, ptr := range map[string]any{"x": &x} {
			r, err := newRegion(name, ptr)
			if err != nil {
				f.Fatal(err)
			}
			all = append(all, r)
		}
		r, _ := newRegion("step", &step)
		return append(all, r)
	}()
	description, size := lay(regions)
	image := make([]byte, size)
	pack(image, description, regions)
	f.Add(image)
	f.Add(image[:100])
	f.Fuzz(func(t *testing.T, b []byte) {
		if unpack(b, regions) == nil && bytes.Equal(b, image) && (step != 3 || len(x) != 3 || x[2] != 3) {
			t.Errorf("step %d, x %v", step, x)
		}
	})
}

// What a folder holds may be anything.
func FuzzRecord(f *testing.F) {
	f.Add([]byte(`{"name":{"of":"1"},"cut":{"Life":1,"Seq":1},"meta":{"size":3,"sums":[7]}}`), []byte("abc"))
	f.Add([]byte(`{"name":{"of":"1,2","p":1},"cut":{"Life":1,"Seq":1},"meta":{"size":-3}}`), []byte("abc"))
	f.Fuzz(func(t *testing.T, text, data []byte) { tryRecord(t, text, data) })
}
