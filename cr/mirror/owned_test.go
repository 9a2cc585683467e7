package mirror

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/gorun-mpi/gorun/cr/mirror/internal/machine"
	"github.com/gorun-mpi/gorun/internal/storage/twoslots"
	"github.com/gorun-mpi/gorun/internal/system/owned"
)

// TestFolderOfAnother: in a folder in common, what another user has left under the name of a rank is neither taken over nor written to.
func TestFolderOfAnother(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("giving a folder to another user needs root")
	}
	dir := t.TempDir()
	his := filepath.Join(dir, "field", "rank-00000")
	if err := errors.Join(os.MkdirAll(his, 0o700), os.Chown(his, 23002, 23002)); err != nil {
		t.Fatal(err)
	}
	if _, err := openStorage(Target{dir: dir}, "field", 0); !errors.Is(err, owned.ErrForeign) {
		t.Errorf("its own folder is another's: %v, want ErrForeign", err)
	}
	s, err := openStorage(Target{dir: dir}, "field", 1)
	if err != nil {
		t.Fatal(err)
	}
	adopt := func(machine.Name, twoslots.Slots) { t.Error("it was taken over") }
	if err := s.claim(map[machine.Name]*piece{}, adopt); err != nil {
		t.Error(err)
	}
	if err := s.remove(nil); err != nil {
		t.Error(err)
	}
	if es, err := os.ReadDir(his); err != nil || len(es) > 0 {
		t.Errorf("left in it: %v, %v", es, err)
	}
}
