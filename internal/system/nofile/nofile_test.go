package nofile

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
)

func TestExplain(t *testing.T) {
	limit := int(Limit())
	err := Explain(&os.PathError{Op: "open", Path: "f", Err: syscall.EMFILE}, limit+7, "use less")
	want := fmt.Sprintf("open f: too many open files: the limit on open files (RLIMIT_NOFILE) is %d, about %d are needed: raise it with ulimit -n (as root beyond ulimit -Hn), or use less", limit, limit+7)
	if err.Error() != want || !errors.Is(err, syscall.EMFILE) {
		t.Errorf("%v\nwant %s", err, want)
	}
	if again := Explain(fmt.Errorf("again: %w", err), 1, ""); strings.Count(again.Error(), "ulimit -n") != 1 {
		t.Error("said twice: ", again)
	}
	if err := Explain(syscall.EMFILE, 7, ""); strings.Contains(err.Error(), "7 are needed") || strings.Contains(err.Error(), ", or") {
		t.Error("more are allowed than are needed: ", err)
	}
	if err := Explain(syscall.ENOENT, 7, ""); err != syscall.ENOENT {
		t.Error(err)
	}
}
