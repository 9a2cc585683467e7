package snapshot

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestStreams: the files are noted once each, whatever bytes are in their names, go with the job, and a list that is none is refused.
func TestStreams(t *testing.T) {
	c, err := Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if all, err := c.Streams(jobA); err != nil || all != nil {
		t.Errorf("of no job: %q, %v", all, err)
	}
	a, b := "/x/out", "/x/new\nline \xff"
	if err := errors.Join(c.AddStreams(jobA, a, a), c.AddStreams(jobA, b, a)); err != nil {
		t.Fatal(err)
	}
	if all, err := c.Streams(jobA); err != nil || !slices.Equal(all, []string{a, b}) {
		t.Errorf("%q, %v", all, err)
	}
	list := filepath.Join(c.JobDir(jobA), streamsFile)
	if err := os.WriteFile(list, []byte("\"out\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Streams(jobA); !errors.Is(err, ErrStreams) {
		t.Errorf("a relative path: %v", err)
	}
	if err := c.Remove(jobA); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(c.JobDir(jobA)); err == nil {
		t.Error("the job's folder is left")
	}
}
