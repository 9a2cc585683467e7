package state

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/gorun-mpi/gorun/internal/system/rawstring"
)

// Names of files are bytes, and come back as they were; the state that is written
// keeps its own.
func TestNamesAreBytes(t *testing.T) {
	s := plainState(Region{Start: 1 << 20, End: 2 << 20, Path: "/m\xe9"})
	s.Exe, s.Dir, s.Comm = "/bin/\xe9", "/d\xff", "r\xe9"
	s.VDSO.VVar = []Region{{Path: "\xfe"}}
	s.Threads[0].Comm = "t\xe9"
	s.Files = []File{{FD: 5, Path: "/log\xe9"}, {FD: 6, Path: "/zo\u00eb"}}
	text, err := s.Encode()
	if err != nil {
		t.Fatal(err)
	}
	var got State
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	if got = got.each(rawstring.Unescape); !reflect.DeepEqual(&got, s) {
		t.Errorf("%+v\nwant\n%+v", got, *s)
	}
	if s.Files[0].Path != "/log\xe9" || s.Regions[0].Path != "/m\xe9" {
		t.Errorf("the state itself was changed: %+v", s)
	}
}
