package mirror

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/gorun-mpi/gorun/cr/mirror/internal/machine"
	"github.com/gorun-mpi/gorun/internal/storage/twoslots"
)

// tryRecord reads a folder with such a record.
func tryRecord(t *testing.T, text, data []byte) {
	dir := t.TempDir()
	own := filepath.Join(dir, "x", "rank-00001")
	if err := os.MkdirAll(own, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, b := range map[string][]byte{"image-1.0.json": text, "image-1.0.data": data, "life.json": []byte(`{"life":1}`)} {
		if err := os.WriteFile(filepath.Join(own, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s, err := openStorage(File(dir), "x", 1)
	if err != nil {
		t.Fatal(err)
	}
	pieces := map[machine.Name]*piece{}
	defer s.close(pieces)
	s.load(s.own, pieces, func(machine.Name, twoslots.Slots) {})
	for n, p := range pieces {
		if n.Members() == nil {
			t.Errorf("%v was taken", n)
		}
		for i := range p.slots {
			p.slots[i].meta.ok(p.slots[i].room) // does not read past the end
		}
	}
}

// A folder that was written in part, or by somebody else, is passed over.
func TestRecords(t *testing.T) {
	for _, text := range []string{"", "{", `{"name":{"of":"1"},"meta":{"size":3,"sums":[]}}`, `{"name":{"of":"1"},"meta":{"size":99999999,"sums":[7]}}`, `{"name":{"of":"x"}}`} {
		tryRecord(t, []byte(text), []byte("abc"))
	}
}
